"""What is shown while one pass takes long."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.numerics.shapes import Event
from laybare.pipeline import monitor
from laybare.pipeline.monitor import PassReporter, with_progress


def test_blocks_are_told_of_under_the_step_that_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Event] = []
    listener = PassReporter(heard.append)
    listener.step(Event("refining", 4, 150, "relative loss 1e-2"))
    listener.block(Event("normal equations", 1, 9))
    assert len(heard) == 1  # a quick pass is not reported
    monkeypatch.setattr(monitor, "SILENT_SECONDS", -1.0)
    listener.block(Event("normal equations", 2, 9))
    assert heard[-1] == Event("refining", 2, 9, "blocks, relative loss 1e-2")


def test_nobody_listens_and_the_source_is_as_it_was() -> None:
    source = lb.Samples(np.eye(3), np.arange(3.0))
    assert with_progress(source, None) == (source, None)


def test_a_slow_black_box_shows_its_queries_out_of_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SILENT_SECONDS", -1.0)  # everything is slow
    heard: list[Event] = []
    found = lb.recover(lb.Oracle(lb.random_network(3, 2, rng=1), 3, budget=500), rng=0, progress=heard.append)
    asked = [event for event in heard if "queries" in event.detail]
    assert asked and all(event.total == 500 and 0 < event.done <= found.samples_used + 500 for event in asked)


def test_the_same_bits_whether_somebody_listens_or_not() -> None:
    truth = lb.random_network(3, 2, rng=1)
    x = np.random.default_rng(0).standard_normal((400, 3))
    source = lb.Samples(x, truth(x), schedule=lb.source.Schedule(1, 1 << 12, keep_bytes=0))
    alone, watched = (lb.recover(source, width=2, rng=0, progress=given) for given in (None, lambda event: None))
    assert np.array_equal(alone.network.layer.rows, watched.network.layer.rows)
    assert alone.provenance == watched.provenance


def test_an_audit_names_its_budgets_and_knows_bars() -> None:
    truth, heard = lb.random_network(3, 2, rng=1), []
    lb.audit(truth, (40, 200), progress=heard.append)
    said = [event.detail for event in heard if event.stage == "audit"]
    assert said[0] == "budget 40 (1 of 2)" and said[1].startswith("budget 200 (2 of 2), about ") and said[1].endswith(" s left")
    lb.audit(truth, (40,), progress=True)
    with pytest.raises(lb.errors.InvalidInput, match="function of one event"):
        lb.audit(truth, (40,), progress=3)
