"""An audit: what every budget buys, with no answer paid for twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import laybare as lb
from laybare.numerics.shapes import Array
from laybare.pipeline.auditing import CHECK_QUERIES, CachedBlackBox
from laybare.source.oracle.repeats import REPEATS

TRUTH = lb.random_network(6, 8, rng=1)


class Seen:
    """A black box that remembers its questions."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []

    def __call__(self, x: Array) -> Array:
        self.rows += [row.tobytes() for row in x]
        return TRUTH(x)


def test_more_queries_read_more_and_nothing_is_paid_twice() -> None:
    box = Seen()
    found = lb.audit(box, (30, 100, 200, 1000, 3000), dim=6)
    assert [row.verdict for row in found.rows] == ["refused", "doubtful", "verified", "verified", "verified"]
    assert "Grant" in found.rows[0].sentence and found.rows[0].units == 0
    assert found.rows[1].functional_error > 1e-3 > 1e-9 > found.rows[2].functional_error
    assert all(row.queries <= row.budget for row in found.rows)
    assert found.rows[2].units == found.rows[4].units == 8 and found.rows[4].error_bar < 1e-8
    assert found.paid == len(box.rows) <= found.rows[2].queries + found.rows[1].queries + CHECK_QUERIES
    assert len(box.rows) - len(set(box.rows)) <= REPEATS.rows + 4  # only those that look for noise, and those asked again
    assert lb.compare(found.found.network, TRUTH).max_error < 1e-8


def test_table_figure_json_and_page(tmp_path: Path) -> None:
    found = lb.audit(TRUTH, (30, 300))
    assert "8 units are read and verified from" in str(found) and "30 queries: " in str(found)
    told = json.loads(found.json())
    assert set(told) == {"model", "dim", "paid", "checked", "rows"} and told["rows"][0]["functional_error"] is None
    assert set(told["rows"][1]) == {
        "budget", "queries", "verdict", "units", "activation", "error_bar", "functional_error", "seconds", "sentence"}
    assert found.figure().startswith("<svg")
    found.report(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "What every budget bought" in page and "<script src" not in page


def test_smooth_units_are_audited() -> None:
    truth = lb.random_network(5, 3, activation=lb.tanh, rng=2)
    found = lb.audit(truth, (100, 1000))
    assert [row.verdict for row in found.rows] == ["refused", "verified"] and found.rows[1].activation == "tanh"


def test_noise_is_seen_again_in_every_run() -> None:
    noise = np.random.default_rng(0)
    paid = CachedBlackBox(lambda x: noise.standard_normal((len(x), 1)))
    x = np.zeros((2, 3))
    first = paid(x)
    assert first[0] != first[1]
    paid.rewind()
    assert (paid(x) == first).all() and paid(x[:1]) != first[0]


@pytest.mark.usefixtures("unchecked")
def test_refusals() -> None:
    with pytest.raises(lb.errors.InvalidInput, match="Give the model itself"):
        lb.audit(lb.Oracle(TRUTH))
    with pytest.raises(lb.errors.InvalidInput, match="Give some"):
        lb.audit(TRUTH, ())
