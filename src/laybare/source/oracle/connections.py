"""Connections to an http(s) address that stay open between requests, directly or through the proxies of the environment.

A connection costs a round trip, and three with TLS: a reader that asks rows one after another would pay them with every row.
A kept connection may have been closed by the server meanwhile. That is seen before it is used, or, if both happen at once, when
it breaks before a first byte of the answer: then the request goes out again on a new one.

`http.client` of the standard library does the rest. urllib3 and httpx limit the time of every wait for bytes, not that of the
whole answer, and so would need the same thread around them (`laybare.source.oracle.endpoint`); a pool is all they would add.
"""

from __future__ import annotations

import selectors
import socket
import weakref
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from laybare.errors import InvalidInput
from laybare.numerics.redaction import redact, redact_address


@dataclass(frozen=True)
class HttpRequest:
    """A POST: the parts of the address, headers and body; `timeout` in seconds is that of every wait for bytes."""

    address: SplitResult
    headers: dict[str, str]
    body: bytes
    timeout: float


class RequestUnderWay:
    """The connection that a request is on, so that another thread can end it."""

    connection: HTTPConnection | None = None
    sock: Any = None
    """The connection forgets its socket before the answer is read if the server closes it after that."""

    def abandon(self) -> None:
        """Whoever waits for the answer gets its end."""
        for sock in filter(None, (self.sock, getattr(self.connection, "sock", None))):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class ConnectionPool:
    """Connections that are open and idle, the last used on top. Pickled or copied, it is empty."""

    def __init__(self) -> None:
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    def __reduce__(self) -> Any:
        return ConnectionPool, ()

    def exchange(
        self, request: HttpRequest, read: Callable[[HTTPResponse], Any], way: RequestUnderWay, reached: Callable[[], None]
    ) -> Any:
        """What `read` makes of the answer; `reached` is called once a new connection is open.

        A connection is kept if its answer was read to the end and the server does not close it.
        """
        connection, reply = self._send_on_kept(request, way)
        try:
            if reply is None:
                way.connection = connection
                connection.connect()
                way.sock = connection.sock
                reached()
                reply = _send(connection, request)
            with reply:
                found = read(reply)
                whole = reply.isclosed() and not reply.length
        except BaseException:
            connection.close()
            raise
        if whole and connection.sock is not None:
            self._idle.append(connection)
        else:
            connection.close()
        return found

    def _send_on_kept(self, request: HttpRequest, way: RequestUnderWay) -> tuple[HTTPConnection, HTTPResponse | None]:
        """The beginning of an answer on a kept connection; a new connection and None if there is no kept one that works."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            way.connection, way.sock = connection, connection.sock
            try:
                if not _has_ended(connection.sock):
                    return connection, _send(connection, request)
            except ConnectionError:  # the server closed it at this moment
                pass
            except BaseException:
                connection.close()
                raise
            connection.close()
        return _new_connection(request), None


def _close_all(connections: list[HTTPConnection]) -> None:
    while connections:
        with suppress(OSError):
            connections.pop().close()


def _has_ended(sock: Any) -> bool:
    """Whether an idle connection has something to read: its end, or what nobody asked for."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0.0))


def _send(connection: HTTPConnection, request: HttpRequest) -> HTTPResponse:
    """The beginning of the answer."""
    address = request.address
    target = urlunsplit(("", "", address.path or "/", address.query, ""))
    headers = request.headers
    proxy = proxy_of(address)
    if proxy is not None and address.scheme == "http":  # a proxy wants the whole address
        target = urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path or "/", address.query, ""))
        headers = {**headers, **_proxy_headers(proxy)}
    connection.request("POST", target, request.body, headers)
    return connection.getresponse()


def _new_connection(request: HttpRequest) -> HTTPConnection:
    """Not yet open; through a proxy if the environment names one (http_proxy, https_proxy, no_proxy)."""
    address, proxy = request.address, proxy_of(request.address)
    end = address if proxy is None else proxy
    kind = HTTPSConnection if "https" in (address.scheme, end.scheme) else HTTPConnection
    connection = kind(end.hostname or "", end.port, timeout=request.timeout)
    if proxy is not None and address.scheme == "https":
        connection.set_tunnel(address.hostname or "", address.port or HTTPSConnection.default_port, _proxy_headers(proxy))
    return connection


def proxy_of(address: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for this address; InvalidInput if what it names is no proxy."""
    from urllib.request import getproxies, proxy_bypass

    named = getproxies().get(address.scheme)
    if not named or proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        usable = proxy.scheme in ("http", "https") and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput(
            f"The proxy {redact(redact_address(named))!r} of {address.scheme}_proxy cannot be used.",
            f"Requests to {address.hostname} would go through it.",
            "Set the variable to an address such as http://proxy:3128, unset it, or name the host in no_proxy.")
    return proxy


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """The password of a proxy, where its address has one."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
