"""Runs at one width: two at once, the same minimum or another, and when no further run is needed."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from changed_options import change_options
from interrupted_fits import best_when_interrupted
from planted_problems import full_point, planted

import laybare as lb
from laybare.search import settings, wide
from laybare.search.settings import Search, SearchContext
from laybare.search.wide import same_minimum, search_with_spares
from laybare.solver import options
from laybare.solver.point import Model, keep_units, network_of
from laybare.studies.hostile_cases import FAMILIES

SIGN_FREE = Model(lb.absolute, biases=True, offset=True, linear=True)


@pytest.fixture
def calls(monkeypatch):
    """(what, units, thread) of every run and every pruning."""
    seen = []
    for name in ("minimise", "prune"):
        def stated(source, start, scale, *, name=name, plain=getattr(settings, name), **options):
            point = start if name == "minimise" else start.point
            seen.append((name, point.width, threading.get_ident()))
            return plain(source, start, scale, **options)

        monkeypatch.setattr(settings, name, stated)
    return seen


def beside(problem, workers, *, width=3, progress=None):
    """A search in rows that are kept, on so many threads."""
    source = problem.source.with_schedule(lb.source.Schedule(workers=workers)).kept()
    context = SearchContext.of(source, SIGN_FREE, rng=np.random.default_rng(3), progress=progress)
    return search_with_spares(context, width)


def bits(refined):
    return refined.point.units.tobytes(), tuple(row.loss for row in refined.trace.rows), refined.trace.reason, refined.agreed


def test_two_runs_from_units_of_their_own_agree(rng, monkeypatch, calls):
    """On two threads at once; on one, one after the other, with the same bits. No run is repaired."""
    change_options(monkeypatch, options, "COST", expensive=0.0)
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
    change_options(monkeypatch, options, "COST", expensive=0.0)
    stages.clear()
    context = SearchContext.of(problem.source, SIGN_FREE, rng=rng, progress=lambda event: stages.append(event.stage))
    search_with_spares(context.knowing(problem.truth.layer.rows), 3)
    assert "repairing" in stages


def test_the_second_run_is_dropped_where_the_first_fits(rng, monkeypatch, calls):
    change_options(monkeypatch, options, "COST", expensive=0.0)
    problem = planted(5, 3, 4000, rng)
    alone = beside(problem, 1)
    assert lb.compare(network_of(alone.point, vector=True), problem.truth).max_error < 1e-10
    assert [name for name, *_ in calls] == ["minimise", "prune"]
    for _ in range(5):
        assert bits(beside(problem, 2)) == bits(alone)


@pytest.mark.parametrize("step", [1, 4, 30])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_of_either_ends_both(step, workers, rng, monkeypatch):
    change_options(monkeypatch, options, "COST", expensive=0.0)
    problem, left = planted(5, 3, 4000, rng, noise=0.05), [step]

    def interrupt(event):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt

    refined = best_when_interrupted(beside, problem, workers, progress=interrupt)
    assert np.isfinite(refined.loss) and refined.point.width in (3, 5)


def test_an_interrupt_of_a_thread_that_waits_for_both_keeps_the_start(rng, monkeypatch):
    def interrupted(source, progress, *parts):
        raise KeyboardInterrupt

    change_options(monkeypatch, options, "COST", expensive=0.0)
    monkeypatch.setattr(wide, "run_until_interrupted", interrupted)
    problem = planted(5, 3, 4000, rng, noise=0.05)
    assert 0.0 < best_when_interrupted(beside, problem, 2).loss < problem.scale


def test_a_run_that_needs_its_spares_is_widened_at_once(rng, calls, monkeypatch):
    """Seven units, not given: one run at 6 and one at 10, which needs no more than 7, and a second one that agrees."""
    change_options(monkeypatch, options, "COST", cheap=0.0)
    problem = planted(6, 7, 6000, rng, noise=0.05)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    assert refined.point.width == 7 and refined.agreed
    assert [units for name, units, _ in calls if name == "minimise"] == [6, 10, 10]


def test_a_wider_run_that_ends_where_a_narrower_one_did_needs_no_other(rng, calls, monkeypatch):
    """Nine units, not given: the run of 8 and two spares needs nine, the one of 16 and three ends at the same fit."""
    change_options(monkeypatch, options, "COST", cheap=0.0)
    problem = planted(8, 9, 8000, rng, noise=0.05)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    assert refined.point.width == 9 and refined.agreed
    assert [units for name, units, _ in calls if name == "minimise"].count(19) == 1


def test_few_equations_are_repaired_rather_than_widened(rng, calls, monkeypatch):
    """At twice the width there would be fewer than four equations for each number."""
    change_options(monkeypatch, options, "COST", cheap=0.0)
    problem = planted(6, 7, 240, rng, noise=0.05)
    search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    widths = [units for name, units, _ in calls if name == "minimise"]
    assert widths.count(6) > 1


def context_of(problem, rng):
    return SearchContext(problem.source, SIGN_FREE._replace(linear=False), Search(), problem.scale, rng, None)


def test_the_same_minimum_is_told_from_one_with_the_same_loss(rng):
    """A fit reached twice agrees with itself; the mirror image of one leaves as much and is another function."""
    problem = planted(5, 3, 2000, rng, noise=0.1)
    context = context_of(problem, rng)
    first = context.minimise(full_point(problem.truth, linear=False))
    second = context.minimise(full_point(problem.truth, linear=False).moved(
        first.point.units + 1e-3 * rng.standard_normal(first.point.units.shape), first.point.coefficients))
    assert same_minimum(context, first, second)
    mirrored = replace(first, point=first.point.moved(-first.point.units, first.point.coefficients))
    assert not same_minimum(context, first, mirrored)
    assert not same_minimum(context, first, context.minimise(keep_units(first.point, np.arange(2))))


def test_runs_that_miss_their_spares_do_not_agree_at_once(calls):
    """Four units, no noise: the first two runs, pruned to four, ended at one wrong fit, a tenth as good as with their spares.

    Whether a later run is right depends on the processor's last bits; that the two are not believed does not.
    """
    case = FAMILIES["noiseless"](np.random.default_rng([561676, sum(map(ord, "noiseless"))]))
    found = lb.recover(case.source, lb.RandomStart(activation=case.activation), case.width, rng=561676)
    assert [name for name, *_ in calls].count("minimise") > 2
    right = lb.compare(found.network, case.truth).max_error < 1e-6
    assert right == (found.certificate.verdict == "verified")


def test_a_told_width_that_is_too_small_ends_all_the_same(rng, calls):
    """Runs go on missing their spares: after some repairs two that agree are believed."""
    problem = planted(5, 4, 4000, rng, noise=0.05)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), 3)
    assert refined.agreed and refined.runs > settings.SEARCH.repairs_to_narrow


def test_an_interrupt_of_the_last_look_is_not_forgotten(rng, monkeypatch):
    """A width that was not given is looked at again, given, if no two runs agreed: whoever interrupts that ends the search."""
    problem, plain, looked = planted(5, 3, 400, rng, noise=0.05), wide.search_at_width, []

    def interrupted(context, width, *, given, before=None):
        if not given:
            return replace(plain(context, width, given=given, before=before), runs=0)  # as if none had agreed
        looked.append(width)
        raise KeyboardInterrupt

    monkeypatch.setattr(wide, "search_at_width", interrupted)
    refined = best_when_interrupted(search_with_spares, SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    assert looked == [refined.point.width]
