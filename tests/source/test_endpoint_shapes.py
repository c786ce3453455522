"""Endpoints as they are: other fields, headers, limits of requests, refusals with a reason, and waits that are shown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from laybare.errors import InvalidInput
from laybare.source import Endpoint
from laybare.source.oracle.endpoint import RequestShape, ResponsePath

X = np.array([[1.0, 2.0], [3.0, 4.0]])
SECRET = "s3cr3t-Passw0rd"


class Handler(BaseHTTPRequestHandler):
    """Adds inputs up; the path says how the answer looks, and what is asked for."""

    busy = 2

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer, more = getattr(self, self.path.strip("/"))(body)
        text = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**more, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def instances(self, body: Any) -> Any:
        if self.headers["X-Api-Key"] != SECRET:
            return 403, {"detail": f"not your key: {self.headers['X-Api-Key']}"}, {}
        return 200, {"predictions": [{"score": sum(row)} for row in body["instances"]]}, {}

    def one(self, body: Any) -> Any:
        return 200, {"result": {"y": sum(body["features"])}}, {}

    def refuses(self, body: Any) -> Any:
        return 422, {"detail": "inputs: field required\nat body"}, {}

    def later(self, body: Any) -> Any:
        Handler.busy -= 1
        if Handler.busy >= 0:
            return 429, {}, {"Retry-After": "0.05"}
        return 200, {"outputs": [sum(row) for row in body["inputs"]]}, {}

    def slow(self, body: Any) -> Any:
        time.sleep(0.5)
        return 200, {"outputs": [sum(row) for row in body["inputs"]]}, {}

    def log_message(self, *given: Any) -> None:
        """Quiet."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_other_fields_and_headers(url: str) -> None:
    shape = {"request": '{"instances": "$x", "version": 3}', "response": "predictions[*].score"}
    assert Endpoint(f"{url}/instances", headers=(("X-Api-Key", SECRET),), **shape).ask(X) == [3.0, 7.0]
    with pytest.raises(InvalidInput, match="status 403") as refusal:
        Endpoint(f"{url}/instances", headers=(("X-Api-Key", f"{SECRET}2"),), **shape).ask(X)
    assert SECRET not in str(refusal.value) and "not your key: ***" in str(refusal.value)
    assert SECRET not in repr(Endpoint(url, headers=(("X-Api-Key", SECRET),)))


def test_one_row_per_request(url: str) -> None:
    endpoint = Endpoint(f"{url}/one", request='{"features": "$row"}', response="result.y", batch=50)
    assert endpoint.batch == 1 and endpoint.ask(X[:1]) == [3.0]


def test_the_reason_of_a_refusal_is_told(url: str) -> None:
    with pytest.raises(InvalidInput, match=r'status 422 .*It said: \{"detail": "inputs: field required'):
        Endpoint(f"{url}/refuses").ask(X)


def test_waits_are_shown(url: str) -> None:
    Handler.busy, said = 2, []
    endpoint = Endpoint(f"{url}/later", pause=0.01, notify=lambda *told: said.append(told))
    assert endpoint.ask(X) == [3.0, 7.0]
    assert said == [("waiting 0.05 s, status 429 (Too Many Requests)", n, 6) for n in (2, 3)]


def test_a_slow_answer_is_told_of(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laybare.source.oracle.endpoint.PATIENT_SECONDS", 0.1)
    said: list[str] = []
    Endpoint(f"{url}/slow", notify=lambda what, *_: said.append(what)).ask(X)
    assert said and all(what.startswith("waiting for 127.0.0.1, ") for what in said)


def test_a_rate_is_kept(url: str) -> None:
    endpoint, begun = Endpoint(f"{url}/one", request='{"features": "$row"}', response="result.y", rate=10.0), time.monotonic()
    for _ in range(4):
        endpoint.ask(X[:1])
    assert time.monotonic() - begun >= 0.3


@pytest.mark.parametrize(("path", "document", "found"), [
    ("outputs", {"outputs": [1]}, [1]), ("a.b", {"a": {"b": 2}}, 2), ("a[1]", {"a": [1, 3]}, 3), ("a.1", {"a": [1, 3]}, 3),
    ("[*].y", [{"y": 1}, {"y": 2}], [1, 2]), ("", [1], [1]), ("a[*].b[0]", {"a": [{"b": [5]}]}, [5])])
def test_paths(path: str, document: Any, found: Any) -> None:
    assert ResponsePath(path).find(document) == found


@pytest.mark.parametrize("template", ["", "x", "{}", '{"a": "$y"}', '{"a": "$x", "b": "$x"}', '"a $x"', "[" * 10_000])
def test_templates_that_are_none(template: str) -> None:
    with pytest.raises(InvalidInput, match="one place for the inputs"):
        RequestShape(template)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("headers", [(("X y", "v"),), (("X", "a\r\nY: b"),), (("X", ""),), (("X", "é"),), (("", "v"),)])
def test_headers_that_are_none(headers: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Endpoint("http://x", headers=headers)
    assert "Y: b" not in str(refusal.value)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf")])
def test_rates_that_are_none(rate: float) -> None:
    with pytest.raises(InvalidInput, match="requests per second"):
        Endpoint("http://x", rate=rate)
