"""Audits of twenty models: each ends with a page, no row contradicts another, and the headline is true of the model itself.

`pytest -m slow -s tests/recovery/test_twenty_audits.py` prints the table of docs/audit.md and the counts. The copy of every row
is judged again at 20,000 inputs that the audit never saw, by what the model answers there.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isfinite
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from sarif_schemas import STRUCTURE
from scaled_classifiers import trained, write_onnx

import laybare as lb
from laybare.auditing.budgets import LARGEST_DOUBT
from laybare.auditing.copy_error import CheckRows, CopyError
from laybare.numerics.shapes import Array
from laybare.report import audit_words
from laybare.report.audit_formats import validate_document
from laybare.source import Endpoint

pytestmark = pytest.mark.slow

BUDGETS = (50, 150, 500, 1500, 5000)
FRESH = 20_000
"""Inputs that judge a headline: a share of one per cent is seen to 7e-4."""
MOST_BEYOND = 0.01 + 4 * np.sqrt(0.01 * 0.99 / FRESH)
"""Share of them that may be further off than a true bound says: one per cent, and four standard deviations of its count."""


@dataclass
class Audited:
    """A model: what is audited, how, what it answers without noise, and what must come out where that is known."""

    target: Any
    truth: Callable[[Array], Array]
    options: dict[str, Any] = field(default_factory=dict)
    verdict: str = ""


def deep(dim: int, widths: tuple[int, ...], seed: int) -> lb.Network:
    rng, layers, into = np.random.default_rng(seed), [], dim
    for out in widths:
        layers.append(lb.Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out), lb.relu))
        into = out
    return lb.Network(tuple(layers), rng.standard_normal(into), 0.1)


def planted(network: lb.Network, folder: Path) -> Audited:
    return Audited(network, network, verdict="exact copy")


def pipeline(hidden: tuple[int, ...], data: str, seed: int) -> Audited:
    model, rows = trained(data, "StandardScaler", hidden, seed)
    return Audited(model, model.predict_proba, {"inputs": rows})


def onnx_network(network: lb.Network, folder: Path) -> Audited:
    lb.to_onnx(network, folder / "model.onnx")
    return Audited(str(folder / "model.onnx"), network, verdict="exact copy")


def onnx_classifier(hidden: tuple[int, ...], seed: int, folder: Path) -> Audited:
    """As exported: float32, with its scaler."""
    model, rows = trained("iris", "StandardScaler", hidden, seed)
    write_onnx(model, folder / "classifier.onnx")
    return Audited(str(folder / "classifier.onnx"), model.predict_proba, {"inputs": rows})


def softmax(logits: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def classify(x: Array) -> Array:
        z = np.exp(logits(x) - logits(x).max(axis=1, keepdims=True))
        return np.asarray(z / z.sum(axis=1, keepdims=True))

    return classify


def answers(ask: Callable[[Array], Array], dim: int, truth: Callable[[Array], Array] | None = None, verdict: str = "") -> Audited:
    return Audited(ask, truth or ask, {"dim": dim}, verdict)


def noisy(network: lb.Network) -> Callable[[Array], Array]:
    rng = np.random.default_rng(0)
    return lambda x: network(x) + 0.05 * rng.standard_normal(len(x))


def labelled(network: lb.Network) -> Callable[[Array], Array]:
    usual = np.median(network(np.random.default_rng(0).standard_normal((1000, network.dim))))
    return lambda x: (network(x) > usual).astype(float)


MODELS: dict[str, Callable[[Path], Audited]] = {
    **{f"layer {s}": lambda folder, s=s: planted(lb.random_network(6 + s, 4 + s, rng=s), folder) for s in range(3)},
    "tanh": lambda folder: planted(lb.random_network(4, 2, activation=lb.tanh, rng=2), folder),
    **{f"deep {s}": lambda folder, s=s: planted(deep(6, (5, 3), s), folder) for s in range(3)},
    "pipeline, two classes": lambda folder: pipeline((5,), "breast_cancer", 0),
    "pipeline, three classes": lambda folder: pipeline((6,), "iris", 1),
    "deep pipeline": lambda folder: pipeline((4, 3), "iris", 2),
    "softmax": lambda folder: answers(softmax(lb.random_network(5, 4, outputs=3, rng=3)), 5, verdict="exact copy"),
    "onnx": lambda folder: onnx_network(lb.random_network(5, 4, rng=5), folder),
    "deep onnx": lambda folder: onnx_network(deep(5, (4, 3), 6), folder),
    "onnx classifier": lambda folder: onnx_classifier((6,), 3, folder),
    "float32": lambda folder: answers(
        lambda x: lb.random_network(6, 5, rng=7)(x).astype(np.float32), 6, lb.random_network(6, 5, rng=7)),
    "rounded": lambda folder: answers(
        lambda x: np.round(lb.random_network(5, 3, rng=8)(x), 3), 5, lb.random_network(5, 3, rng=8)),
    "noise": lambda folder: answers(noisy(lb.random_network(5, 3, rng=9)), 5, lb.random_network(5, 3, rng=9)),
    "labels": lambda folder: answers(labelled(lb.random_network(5, 3, rng=10)), 5),
    "no network": lambda folder: answers(lambda x: np.sin(3.0 * x).sum(axis=1), 4, verdict="no copy"),
    "server": lambda folder: Audited(None, SERVED, {"dim": 5}, "exact copy"),
}

SERVED = lb.random_network(5, 4, rng=11)


class Handler(BaseHTTPRequestHandler):
    """Headers, other fields, 429s and latency."""

    asked = refused = 0

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        Handler.asked += 1
        time.sleep(0.005)
        status = 403 if self.headers["X-Api-Key"] != "key-123" else 429 if Handler.asked % 7 == 0 else 200
        Handler.refused += status == 429
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


class Judged(list[tuple[Callable[[Array], Array], CopyError]]):
    """Every copy that an audit judged, and what it said of it."""

    def copy_of(self, row: laybare.auditing.AuditRow) -> Callable[[Array], Array]:
        """The copy of a row, by its bounds."""
        return next(copy for copy, error in self if (error.error, error.high) == (row.error, row.error_high))


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    seen, judge = Judged(), CheckRows.judge

    def remember(rows: CheckRows, copy: Callable[[Array], Array]) -> CopyError:
        seen.append((copy, judge(rows, copy)))
        return seen[-1][1]

    monkeypatch.setattr(CheckRows, "judge", remember)
    return seen


@dataclass
class Tally:
    """Counts of all audits, and a line of the table for each."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    seen = Tally()
    yield seen
    print("\n\n| model | verdict | queries to 1 % | to 1e-6 | beyond a stated bound, of 20,000 inputs |\n|---|---|---|---|---|")
    print("\n".join(seen.lines))
    print(f"\n{', '.join(f'{count} {what}' for what, count in seen.counts.items())}")


def line_of(name: str, found: lb.Audit, worst: float) -> str:
    """A line of the table in Markdown."""
    within = f"not within {BUDGETS[-1]:,}"
    near = found.verdict if found.verdict == "open" else within if found.near is None else f"{found.near:,}"
    exact = within if found.exact is None else f"{found.exact:,}"
    return f"| {name} | {found.verdict} | {near} | {exact} | {worst:.2%} |"


@pytest.mark.parametrize("name", MODELS)
def test_audit_is_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Judged, tally: Tally
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    model = MODELS[name](tmp_path)
    with served() as endpoint:
        target = endpoint if model.target is None else model.target
        found = lb.audit(target, BUDGETS, defences=("cap:50",), **model.options)
    pages = pages_of(found, tmp_path)
    assert contradictions(found) == []
    if model.verdict:
        assert found.verdict == model.verdict
    off = differences(found, model, judged)
    beyond = [share_beyond(found.kind, row, off[row.budget]) for row in found.rows if row.budget in off]
    worst = max(beyond, default=0.0)
    assert worst < MOST_BEYOND
    assert headline_is_true(found, off)
    tally.counts.update({
        "models": 1, "pages": pages, "rows": len(found.rows), "rows with a copy, judged again": len(beyond), found.verdict: 1,
        "headlines true": 1})
    tally.lines.append(line_of(name, found, worst))
    print(f"\n{name}: {audit_words.headline(found)} Worst row: beyond its bound at {worst:.2%} of inputs.")


def pages_of(found: lb.Audit, folder: Path) -> int:
    """All four formats are written, follow their schemas and say the same headline."""
    for form in ("html", "json", "md", "sarif"):
        found.report(folder / f"a.{form}")
    document = json.loads((folder / "a.json").read_text())
    validate_document(document, "audit-1")
    sarif = json.loads((folder / "a.sarif").read_text())
    jsonschema.Draft202012Validator(STRUCTURE).validate(sarif)
    headline = audit_words.headline(found)
    assert document["headline"] == headline == sarif["runs"][0]["results"][0]["message"]["text"]
    assert headline in (folder / "a.md").read_text() and headline.replace("&", "&amp;") in (folder / "a.html").read_text()
    return 1


def contradictions(found: lb.Audit) -> list[str]:
    """Whatever two rows, or a row and the headline, say against each other."""
    said, near, bounds = [], found.check.near, [row.error_high for row in found.rows]
    if len(found.rows) != len(BUDGETS) or found.interrupted:
        said.append("a row is missing")
    if bounds != sorted(bounds, reverse=True):
        said.append("more queries gave less")
    for row in found.rows:
        if row.queries > row.budget or (row.way == "none") != (not isfinite(row.error_high)):
            said.append(f"{row.budget}: queries or attack")
        if isfinite(row.error_high) and not row.error_low <= row.error <= row.error_high:
            said.append(f"{row.budget}: bounds")
        if row.verdict == "verified" and row.way == "lines" and row.error_low > LARGEST_DOUBT:
            said.append(f"{row.budget}: verified beside an error")
        if row.verdict == "refused" and (row.widths or not row.sentence):
            said.append(f"{row.budget}: refused without a reason")
    enough = [row.queries for row in found.rows if row.error_high <= near]
    if found.near != min(enough, default=None) or (found.verdict in ("no copy", "open")) != (found.near is None):
        said.append("headline and rows")
    if found.exact is not None and (found.near is None or found.near > found.exact):
        said.append("an exact copy before a copy")
    if found.near is not None and found.defences[0].near != found.near:
        said.append("a cap changes answers")
    return said


def differences(found: lb.Audit, model: Audited, judged: Judged) -> dict[int, Array]:
    """Of the copy of every row and the model, at fresh inputs, relative to the spread of the answers."""
    oracle = lb.Oracle(SERVED if model.target is None else model.target, budget=FRESH, link="identity", rng=99, **model.options)
    x = oracle.typical(FRESH)
    truth = np.asarray(model.truth(x), dtype=float).reshape(FRESH, -1)
    if found.kind == "labels":
        return {row.budget: (judged.copy_of(row)(x)[:, 0] != truth[:, 0]).astype(float) for row in found.rows}
    spread = np.sqrt(truth.var(axis=0).mean())
    copied = [row for row in found.rows if isfinite(row.error_high)]
    return {
        row.budget: np.abs(judged.copy_of(row)(x).reshape(truth.shape) - truth).max(axis=1) / spread for row in copied}


def share_beyond(kind: str, row: Any, off: Array) -> float:
    """Of inputs, that with a difference above the row's bound; of labels, how many more are wrong than the row says."""
    if kind == "labels":
        return max(0.0, float(off.mean()) - row.error_high)
    return float(np.mean(off > 1.001 * row.error_high + 1e-12))


def headline_is_true(found: lb.Audit, off: dict[int, Array]) -> bool:
    """A copy is one, an exact copy is exact; where there is none, no copy that was made is within one per cent of the model;
    where it is open, both bounds hold."""
    said = audit_words.headline(found)
    if found.verdict == "open":
        last, wrong = found.rows[-1], off[found.rows[-1].budget]
        least = last.error_low if found.kind == "labels" else 0.01
        seen = float(np.mean(wrong > (0.0 if found.kind == "labels" else 0.999 * last.error_low)))
        return "it is open" in said and last.error_low <= found.check.near and seen > least - (MOST_BEYOND - 0.01)
    if found.near is None:
        return "no attack made a copy" in said and all(np.mean(one > found.check.near) > 0.01 for one in off.values())
    row = next(row for row in found.rows if row.queries == found.near and row.error_high <= found.check.near)
    exact = [row for row in found.rows if row.error_high <= found.check.exact]
    return (
        f"After {found.near:,} queries" in said and np.mean(off[row.budget] > found.check.near) < MOST_BEYOND
        and all(np.mean(off[one.budget] > found.check.exact) < MOST_BEYOND for one in exact))
