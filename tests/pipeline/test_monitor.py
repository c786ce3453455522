"""What is shown while one pass takes long."""

from __future__ import annotations

import time

import numpy as np
import pytest

import laybare as lb
from laybare.numerics.shapes import Event
from laybare.pipeline import monitor
from laybare.pipeline.monitor import Clock, PassReporter, SearchLimit, TimeLimitReached, with_progress


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


def test_a_clock_stops_a_search_at_a_step_when_its_work_is_done() -> None:
    """Certifying counts and is not stopped; blocks of a pass come as the machine pleases, and stop nothing."""
    clock = Clock(None, SearchLimit(np.inf, work=2.0))
    clock(Event("refining", 1, 9, work=1.5))
    clock(Event("certifying", 1, 9, work=1.5))
    clock(Event("refining", 2, 9, "blocks"))
    assert clock.over and clock.work == 3.0
    with pytest.raises(TimeLimitReached):
        clock(Event("refining", 3, 9, work=0.1))


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "rows", "decimals"), [(10, 16, 300, 3), (10, 16, 1000, 2), (10, 16, 10_000, 2)])
def test_the_work_that_steps_tell_of_is_the_same_in_every_run(dim: int, width: int, rows: int, decimals: int) -> None:
    """Printed beside the seconds that the process took: they are alike, and only the work is the same again."""
    truth, counted = lb.random_network(dim, width, rng=7100), []
    x = np.random.default_rng(5).standard_normal((rows, dim))
    source = lb.Samples(x, np.round(truth(x), decimals), schedule=lb.source.Schedule(workers=1))
    for _ in range(2):
        heard: list[Event] = []
        begun = time.process_time()
        lb.recover(source, rng=0, progress=heard.append)
        taken = time.process_time() - begun
        counted.append(sum(event.work for event in heard if event.stage == "refining"))
        print(f"\n{dim}-{width}-1 from {rows:,} rows: {counted[-1]:.2f} s of work counted, {taken:.2f} s of the processor")
    assert counted[0] == counted[1] > 0.0
