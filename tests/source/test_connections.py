"""Connections to an endpoint: kept while the server keeps them, made anew when it does not, and ended when nobody waits."""

from __future__ import annotations

import _thread
import gc
import json
import pickle
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from laybare.errors import InvalidInput
from laybare.source import Endpoint

X = np.array([[1.0, 2.0], [3.0, 4.0]])


class KeepingServer(ThreadingHTTPServer):
    """Adds inputs up and keeps connections; counts connections and requests, and keeps the heads of requests."""

    def __init__(self, behave: Callable[[Handler], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave, self.connections, self.heads = behave, 0, list[dict[str, str]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1."""

    protocol_version = "HTTP/1.1"
    server: KeepingServer

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:
        self.rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        self.server.heads.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
        self.server.behave(self)

    def do_CONNECT(self) -> None:
        self.server.heads.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
        self.answer(403)

    def answer(self, status: int = 200, body: bytes | None = None, length: int | None = None) -> None:
        text = json.dumps({"outputs": [sum(row) for row in self.rows]}).encode() if body is None else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(text) if length is None else length))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: Any) -> None:
        """Quiet."""

    rows: Any = ()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Handler], None]], KeepingServer]]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "LAYBARE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    running: list[KeepingServer] = []

    def serve(behave: Callable[[Handler], None]) -> KeepingServer:
        running.append(KeepingServer(behave))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        return running[-1]

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


def answer(handler: Handler) -> None:
    handler.answer()


def test_one_connection_serves_all_requests(served: Any) -> None:
    server = served(answer)
    endpoint = Endpoint(server.url)
    for _ in range(20):
        assert endpoint.ask(X) == [3.0, 7.0]
    assert server.connections == 1 and len(server.heads) == 20


def test_a_connection_stays_after_a_refusal(served: Any) -> None:
    server = served(lambda handler: handler.answer(429, b"{}") if len(server.heads) % 2 else handler.answer())
    endpoint = Endpoint(server.url, pause=0.001)
    for _ in range(5):
        assert endpoint.ask(X) == [3.0, 7.0]
    assert server.connections == 1 and len(server.heads) == 10


def test_connections_that_the_server_ends_are_made_anew(served: Any) -> None:
    """It says nothing about it: at once, later, or when the next request has come. No further attempt is spent on that."""

    def at_once(handler: Handler) -> None:
        handler.answer()
        handler.close_connection = True

    def at_the_next(handler: Handler) -> None:
        if getattr(handler, "used", False):
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        handler.used = True  # type: ignore[attr-defined]
        handler.answer()

    for behave, requests in ((at_once, 6), (at_the_next, 11)):
        server = served(behave)
        endpoint = Endpoint(server.url, retries=0)
        for _ in range(6):
            assert endpoint.ask(X) == [3.0, 7.0]
            time.sleep(0.02)
        assert server.connections == 6 and len(server.heads) == requests


def test_answers_that_are_not_read_to_their_end_take_their_connection_along(served: Any) -> None:
    server = served(lambda handler: handler.answer(body=b"[" + b"1," * 500))
    for _ in range(2):
        with pytest.raises(InvalidInput, match="more than 100 bytes"):
            Endpoint(server.url, largest=100).ask(X)
    assert server.connections == 2


def test_a_request_that_nobody_waits_for_ends_its_thread(served: Any) -> None:
    """Also if the server has said that it will close the connection: the body comes on it nevertheless."""

    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        with suppress(OSError):
            for _ in range(200):
                handler.wfile.write(b" ")
                time.sleep(0.05)

    server = served(drip)
    before = _thread._count()
    for _ in range(3):
        with pytest.raises(InvalidInput, match=r"no answer within 0\.2 seconds"):
            Endpoint(server.url, timeout=0.2, retries=0).ask(X)
    until = time.monotonic() + 5.0  # of ten for which the server goes on
    while _thread._count() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert _thread._count() <= before


def test_connections_end_with_their_endpoint(served: Any) -> None:
    server, endpoint = served(answer), None
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        endpoint = Endpoint(server.url)
        endpoint.ask(X)
        (kept,) = endpoint._connections._idle
        copied = pickle.loads(pickle.dumps(endpoint))
        assert copied == endpoint and copied._connections._idle == []
        assert copied.ask(X) == [3.0, 7.0] and server.connections == 2
        del endpoint, copied
        gc.collect()
    assert kept.sock is None


def test_headers_of_the_user_replace_ours(served: Any) -> None:
    server = served(answer)
    Endpoint(server.url).ask(X)
    Endpoint(server.url, headers=(("user-agent", "me"), ("content-type", "application/x"))).ask(X)
    ours, theirs = server.heads
    assert ours["user-agent"].startswith("laybare/") and ours["content-type"] == "application/json"
    assert (theirs["user-agent"], theirs["content-type"]) == ("me", "application/x")


def test_proxies_of_the_environment_are_used(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = served(answer)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, proxy.url.replace("http://", "http://me:pass%20word@"))
    monkeypatch.setenv("no_proxy", "inside.invalid")
    assert Endpoint("http://outside.invalid:81/f?version=2").ask(X) == [3.0, 7.0]
    with pytest.raises(InvalidInput, match="Tunnel connection failed: 403"):
        Endpoint("https://outside.invalid/f", retries=0).ask(X)
    plain, tunnel = proxy.heads
    assert plain["path"] == "http://outside.invalid:81/f?version=2" and plain["host"] == "outside.invalid:81"
    assert tunnel["path"] == "outside.invalid:443"
    assert plain["proxy-authorization"] == tunnel["proxy-authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    with pytest.raises(InvalidInput, match=r"inside\.invalid/f did not answer"):
        Endpoint("http://inside.invalid/f", retries=0).ask(X)
    assert len(proxy.heads) == 2
