"""Runs at one width: two at once, the same minimum or another, and when no further run is needed."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import laybare as lb
from laybare.refinement import hunt as hunts
from laybare.refinement import overwide, runs
from laybare.refinement.agreement import same
from laybare.refinement.hunt import Hunt, Search
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import over_wide
from laybare.refinement.pruning import without
from laybare.studies.hostile_cases import FAMILIES

from .conftest import full_point, planted

SIGN_FREE = Model(lb.absolute, biases=True, offset=True, linear=True)


@pytest.fixture
def calls(monkeypatch):
    """(what, units, thread) of every run and every pruning."""
    seen = []
    for name in ("minimise", "prune"):
        def told(source, start, scale, *, name=name, plain=getattr(hunts, name), **options):
            point = start if name == "minimise" else start.point
            seen.append((name, point.width, threading.get_ident()))
            return plain(source, start, scale, **options)

        monkeypatch.setattr(hunts, name, told)
    return seen


def beside(problem, workers, *, width=3, progress=None):
    """A search in rows that are kept, on so many threads."""
    source = problem.source.with_schedule(lb.Schedule(workers=workers)).kept()
    return over_wide(source, SIGN_FREE, width, rng=np.random.default_rng(3), progress=progress)


def bits(refined):
    return refined.point.units.tobytes(), tuple(row.loss for row in refined.trace.rows), refined.trace.reason, refined.agreed


def test_two_runs_from_units_of_their_own_agree(rng, monkeypatch, calls):
    """On two threads at once; on one, one after the other, with the same bits. No run is repaired."""
    monkeypatch.setattr(runs, "BESIDE", 0.0)
    problem = planted(5, 3, 4000, rng, noise=0.05)
    alone = beside(problem, 1)
    assert alone.agreed and [name for name, *_ in calls] == ["minimise", "minimise", "prune", "prune"]
    calls.clear()
    for _ in range(5):  # whoever asks takes the first part that nobody has begun
        assert bits(beside(problem, 2)) == bits(alone)
    assert len({thread for *_, thread in calls}) > 1


def test_few_rows_and_units_that_are_known_have_one_run_at_first(rng, monkeypatch, calls):
    problem, stages = planted(5, 3, 4000, rng, noise=0.05), []
    beside(problem, 2, progress=lambda event: stages.append(event.stage))
    assert "repairing" in stages
    monkeypatch.setattr(runs, "BESIDE", 0.0)
    stages.clear()
    over_wide(
        problem.source, SIGN_FREE, 3, problem.truth.layer.rows, rng=rng, progress=lambda event: stages.append(event.stage))
    assert "repairing" in stages


def test_the_second_run_is_dropped_where_the_first_fits(rng, monkeypatch, calls):
    monkeypatch.setattr(runs, "BESIDE", 0.0)
    problem = planted(5, 3, 4000, rng)
    alone = beside(problem, 1)
    assert lb.compare(network_of(alone.point, vector=True), problem.truth).max_error < 1e-10
    assert [name for name, *_ in calls] == ["minimise", "prune"]
    for _ in range(5):
        assert bits(beside(problem, 2)) == bits(alone)


@pytest.mark.parametrize("step", [1, 4, 30])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_of_either_ends_both(step, workers, rng, monkeypatch):
    monkeypatch.setattr(runs, "BESIDE", 0.0)
    problem, left = planted(5, 3, 4000, rng, noise=0.05), [step]

    def interrupt(event):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt

    refined = beside(problem, workers, progress=interrupt)
    assert refined.trace.reason == "interrupted" and np.isfinite(refined.loss) and refined.point.width in (3, 5)


def test_an_interrupt_before_either_has_begun_returns_the_start(rng, monkeypatch):
    def interrupted(source, progress, *parts):
        return None

    monkeypatch.setattr(runs, "BESIDE", 0.0)
    monkeypatch.setattr(runs, "until_interrupted", interrupted)
    problem = planted(5, 3, 4000, rng, noise=0.05)
    refined = beside(problem, 2)
    assert refined.trace.reason == "interrupted" and 0.0 < refined.loss < problem.scale


def test_a_run_that_needs_its_spares_is_widened_at_once(rng, calls, monkeypatch):
    """Seven units, not told: one run at 6 and one at 10, which needs no more than 7, and a second one that agrees."""
    monkeypatch.setattr(runs, "QUICK", 0.0)
    problem = planted(6, 7, 6000, rng, noise=0.05)
    refined = over_wide(problem.source, SIGN_FREE, None, rng=rng)
    assert refined.point.width == 7 and refined.agreed
    assert [units for name, units, _ in calls if name == "minimise"] == [6, 10, 10]


def test_a_wider_run_that_ends_where_a_narrower_one_did_needs_no_other(rng, calls, monkeypatch):
    """Nine units, not told: the run of 8 and two spares needs nine, the one of 16 and three ends at the same fit."""
    monkeypatch.setattr(runs, "QUICK", 0.0)
    problem = planted(8, 9, 8000, rng, noise=0.05)
    refined = over_wide(problem.source, SIGN_FREE, None, rng=rng)
    assert refined.point.width == 9 and refined.agreed
    assert [units for name, units, _ in calls if name == "minimise"].count(19) == 1


def test_few_equations_are_repaired_rather_than_widened(rng, calls, monkeypatch):
    """At twice the width there would be fewer than four equations for each number."""
    monkeypatch.setattr(runs, "QUICK", 0.0)
    problem = planted(6, 7, 240, rng, noise=0.05)
    over_wide(problem.source, SIGN_FREE, None, rng=rng)
    widths = [units for name, units, _ in calls if name == "minimise"]
    assert widths.count(6) > 1


def hunt_of(problem, rng):
    return Hunt(problem.source, SIGN_FREE._replace(linear=False), Search(), problem.scale, rng, None)


def test_the_same_minimum_is_told_from_one_with_the_same_loss(rng):
    """A fit reached twice agrees with itself; the mirror image of one leaves as much and is another function."""
    problem = planted(5, 3, 2000, rng, noise=0.1)
    hunt = hunt_of(problem, rng)
    first = hunt.minimise(full_point(problem.truth, linear=False))
    second = hunt.minimise(full_point(problem.truth, linear=False).moved(
        first.point.units + 1e-3 * rng.standard_normal(first.point.units.shape), first.point.coefficients))
    assert same(hunt, first, second)
    mirrored = first._replace(point=first.point.moved(-first.point.units, first.point.coefficients))
    assert not same(hunt, first, mirrored)
    assert not same(hunt, first, hunt.minimise(without(first.point, np.arange(2))))


def test_runs_that_miss_their_spares_do_not_agree_at_once(calls):
    """Four units, no noise: the first two runs, pruned to four, ended at one wrong fit, a tenth as good as with their spares."""
    case = FAMILIES["noiseless"](np.random.default_rng([561676, sum(map(ord, "noiseless"))]))
    found = lb.recover(case.source, lb.RandomStart(activation=case.activation), case.width, rng=561676)
    assert lb.compare(found.network, case.truth).max_error < 1e-6 and found.certificate.verdict == "verified"
    assert [name for name, *_ in calls].count("minimise") > 2


def test_a_told_width_that_is_too_small_ends_all_the_same(rng, calls):
    """Runs go on missing their spares: after some repairs two that agree are believed."""
    problem = planted(5, 4, 4000, rng, noise=0.05)
    refined = over_wide(problem.source, SIGN_FREE, 3, rng=rng)
    assert refined.agreed and refined.runs > runs.STUBBORN


def test_an_interrupt_of_the_last_look_is_not_forgotten(rng, monkeypatch):
    """A width that was not told is looked at again, told, if no two runs agreed: whoever interrupts that ends the search."""
    problem, plain, looked = planted(5, 3, 400, rng, noise=0.05), overwide.runs_at, []

    def interrupted(hunt, attempt, known, **options):
        ended = plain(hunt, attempt, known, **options)
        if attempt.told is None:
            return ended._replace(best=ended.best._replace(runs=0), pruned=None)  # as if none had agreed
        looked.append(attempt.told)
        return ended._replace(best=ended.best._replace(trace=ended.best.trace._replace(reason="interrupted")), pruned=None)

    monkeypatch.setattr(overwide, "runs_at", interrupted)
    refined = over_wide(problem.source, SIGN_FREE, None, rng=rng)
    assert looked == [refined.point.width] and refined.trace.reason == "interrupted"
