"""Audits of twenty models: each ends with a page, no row contradicts another, and the headline is true of the model itself."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.numerics.shapes import Array
from laybare.report.json_schema import validate_document
from laybare.source import Endpoint

pytestmark = pytest.mark.slow

FRESH = 20_000
"""Inputs that judge a headline: a share of one per cent is seen to 7e-4."""


def deep(dim: int, widths: tuple[int, ...], seed: int) -> lb.Network:
    rng, layers, into = np.random.default_rng(seed), [], dim
    for out in widths:
        layers.append(lb.Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out), lb.relu))
        into = out
    return lb.Network(tuple(layers), rng.standard_normal(into), 0.1)


def pipeline(units: tuple[int, ...], classes: int, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 2.0, (600, 4))
    labels = np.argmax(x @ rng.standard_normal((4, classes)), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(StandardScaler(), MLPClassifier(units, max_iter=60, random_state=seed)).fit(x, labels)


def softmax(logits: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def classify(x: Array) -> Array:
        z = np.exp(logits(x) - logits(x).max(axis=1, keepdims=True))
        return np.asarray(z / z.sum(axis=1, keepdims=True))

    return classify


def onnx_file(network: lb.Network, folder: Path) -> str:
    lb.to_onnx(network, folder / "model.onnx")
    return str(folder / "model.onnx")


MODELS: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    **{f"layer {seed}": lambda folder, seed=seed: (lb.random_network(6 + seed, 4 + seed, rng=seed), {}) for seed in range(4)},
    "tanh": lambda folder: (lb.random_network(4, 2, activation=lb.tanh, rng=2), {}),
    **{f"deep {seed}": lambda folder, seed=seed: (deep(6, (5, 3), seed), {}) for seed in range(3)},
    "pipeline of two classes": lambda folder: (pipeline((5,), 2, 0), {}),
    "pipeline of three classes": lambda folder: (pipeline((6,), 3, 1), {}),
    "deep pipeline": lambda folder: (pipeline((4, 3), 2, 2), {}),
    "classes": lambda folder: (softmax(lb.random_network(5, 4, outputs=3, rng=3)), {"dim": 5}),
    "onnx": lambda folder: (onnx_file(lb.random_network(5, 4, rng=5), folder), {}),
    "deep onnx": lambda folder: (onnx_file(deep(5, (4, 3), 6), folder), {}),
    "float32": lambda folder: (lambda x: lb.random_network(6, 5, rng=7)(x).astype(np.float32), {"dim": 6}),
    "rounded": lambda folder: (lambda x: np.round(lb.random_network(5, 3, rng=8)(x), 3), {"dim": 5}),
    "noise": lambda folder: (noisy(lb.random_network(5, 3, rng=9)), {"dim": 5}),
    "labels": lambda folder: (lambda x: (lb.random_network(5, 3, rng=10)(x) > 0.0).astype(float), {"dim": 5}),
    "no network": lambda folder: (lambda x: np.sin(3.0 * x).sum(axis=1), {"dim": 4}),
    "server": lambda folder: (None, {"dim": 5}),
}


def noisy(network: lb.Network) -> Callable[[Array], Array]:
    rng = np.random.default_rng(0)
    return lambda x: network(x) + 0.05 * rng.standard_normal(len(x))


SERVED = lb.random_network(5, 4, rng=11)


class Handler(BaseHTTPRequestHandler):
    """Headers, other fields, 429s and latency."""

    asked = 0

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        Handler.asked += 1
        time.sleep(0.005)
        status = 403 if self.headers["X-Api-Key"] != "key-123" else 429 if Handler.asked % 7 == 0 else 200
        text = json.dumps({"data": [{"score": float(y)} for y in SERVED(np.array(rows))]} if status == 200 else {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: Any) -> None:
        """Quiet."""


@contextmanager
def served() -> Iterator[Endpoint]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Endpoint(
        f"http://127.0.0.1:{server.server_port}/", headers=(("X-Api-Key", "key-123"),), request='{"instances": "$x"}',
        response="data[*].score", pause=0.001)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", MODELS)
def test_audit_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with served() as endpoint:
        target, options = MODELS[name](tmp_path)
        found = lb.audit(endpoint if target is None else target, (100, 1000, 5000), **options)
    found.report(tmp_path / "a.html")
    validate_document(json.loads(found.json()), "audit-1")
    bounds = [row.error_high for row in found.rows]
    assert len(found.rows) == 3 and bounds == sorted(bounds, reverse=True) and not found.interrupted
    assert all(row.queries <= row.budget for row in found.rows) and found.rows[-1].error <= found.rows[-1].error_high
    assert all(not (row.verdict == "verified" and row.way == "lines" and row.error_low > 0.1) for row in found.rows)
    _judge(name, target, found)


def _judge(name: str, target: Any, found: lb.Audit) -> None:
    """The copy of the last row, where it is a network, differs by more than the bound at one per cent of fresh inputs at most."""
    last = found.rows[-1]
    if found.found is None or last.way not in ("lines", "samples") or found.kind == "labels":
        assert found.verdict != "exact copy"
        return
    oracle = lb.Oracle(SERVED if target is None else target, found.dim, budget=FRESH, link="identity", rng=99)
    x = oracle.typical(FRESH)
    if name == "noise":
        truth = lb.random_network(5, 3, rng=9)(x)[:, None]
    else:
        truth = oracle.ask(x, gaps=True)
    outputs = np.asarray(found.found(x)).reshape(FRESH, -1)
    copy = outputs
    if found.kind == "probabilities":
        z = np.column_stack([np.zeros(FRESH), outputs])
        copy = np.exp(z - z.max(axis=1, keepdims=True))
        copy /= copy.sum(axis=1, keepdims=True)
    spread = np.sqrt(truth.var(axis=0).mean())
    off = np.abs(copy - truth).max(axis=1) / spread
    assert np.mean(off > 1.001 * last.error_high + 1e-12) < 0.01 + 4 * np.sqrt(0.01 / FRESH)
