"""Over-wide search, repair and pruning."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from changed_options import change_options
from interrupted_fits import best_when_interrupted
from numpy.testing import assert_allclose
from planted_problems import full_point, planted

import laybare as lb
from laybare.errors import TooFewSamples
from laybare.search import settings
from laybare.search.settings import Search, SearchContext
from laybare.search.wide import search_with_spares
from laybare.solver import FitInterrupt, options
from laybare.solver import minimise as solving
from laybare.solver.dense import levenberg_marquardt
from laybare.solver.minimise import minimise, prune
from laybare.solver.normal import Fit, FitStatistic, elimination_order
from laybare.solver.point import Model, keep_units, network_of, parameter_count
from laybare.source.problem import total_variation

SIGN_FREE = Model(lb.absolute, biases=True, offset=True, linear=True)


def error_of(refined, truth):
    return lb.compare(network_of(refined.point, vector=True), truth).max_error


@pytest.mark.parametrize("case", range(5))
def test_known_width_is_solved_from_five_samples_a_parameter(case, seed):
    """Fresh problems, 10-5-1 from 300 samples: the search with repairs solved 12 of 12 at half as many samples."""
    rng = np.random.default_rng([seed, 50, case])
    problem = planted(10, 5, 300, rng)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), 5)
    assert refined.point.width == 5
    assert error_of(refined, problem.truth) < 1e-10


@pytest.mark.parametrize("width", [1, 3, 7])
def test_unknown_width_is_found(width, rng):
    problem = planted(6, width, 800, rng)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    assert refined.point.width == width
    assert error_of(refined, problem.truth) < 1e-10


def test_unknown_width_with_noise(rng):
    problem = planted(5, 3, 4000, rng, noise=0.05)
    refined = search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), None)
    assert refined.point.width == 3
    assert error_of(refined, problem.truth) < 0.05


def test_an_interrupt_while_pruning_ends_the_search(rng, monkeypatch):
    """With noise two runs are pruned one after the other: the second is not begun."""
    problem, calls = planted(5, 3, 4000, rng, noise=0.05), []

    def interrupted(source, refined, scale, **options):
        calls.append(refined.point.width)
        raise KeyboardInterrupt

    monkeypatch.setattr(settings, "prune", interrupted)
    refined = best_when_interrupted(search_with_spares, SearchContext.of(problem.source, SIGN_FREE, rng=rng), 3)
    assert refined.point.width == 5 and len(calls) == 1


def searched_beside(problem, workers, *, progress=None):
    """A search where every step is dear, in rows that are kept, on so many threads."""
    source = problem.source.with_schedule(lb.source.Schedule(workers=workers)).kept()
    context = SearchContext.of(source, SIGN_FREE, rng=np.random.default_rng(3), progress=progress)
    return search_with_spares(context.knowing(context.draw_units(3)), 3)


def test_two_runs_are_pruned_at_once(rng, monkeypatch):
    """On two threads; where there is one, afterwards, with the same bits."""
    change_options(monkeypatch, options, "COST", expensive=0.0)
    problem, threads = planted(5, 3, 4000, rng, noise=0.05), []
    plain = settings.prune

    def prune(*given, **named):
        threads.append(threading.get_ident())
        return plain(*given, **named)

    monkeypatch.setattr(settings, "prune", prune)
    alone = searched_beside(problem, 1)
    assert alone.agreed and set(threads) == {threading.get_ident()}
    seen, begun = set(), len(threads)
    for _ in range(5):  # whoever asks takes the first part that nobody has begun
        beside = searched_beside(problem, 2)
        seen |= set(threads[begun:])
        np.testing.assert_array_equal(beside.point.units, alone.point.units)
        assert beside.agreed and [row.loss for row in beside.trace.rows] == [row.loss for row in alone.trace.rows]
    assert seen - {threading.get_ident()}


@pytest.mark.parametrize("step", [2, 9])
def test_an_interrupt_of_either_ends_both(step, rng, monkeypatch):
    change_options(monkeypatch, options, "COST", expensive=0.0)
    problem, left, repairing = planted(5, 3, 4000, rng, noise=0.05), [step], []

    def interrupt(event):
        repairing.append(event.stage == "repairing")
        left[0] -= any(repairing)
        if left[0] == 0:
            raise KeyboardInterrupt

    refined = best_when_interrupted(searched_beside, problem, 2, progress=interrupt)
    assert refined.point.width in (3, 5)


def test_an_interrupt_of_the_refit_after_a_removal_ends_the_pruning(rng, monkeypatch):
    """It was forgotten where more units were to go: the search went on for a minute."""
    problem, calls = planted(5, 3, 1000, rng, noise=0.05), []
    wide = full_point(lb.random_network(5, 7, rng=rng), linear=False)
    start = minimise(problem.source, wide, problem.scale)

    def second_is_interrupted(*arguments, **options):
        refined = minimise(*arguments, **options)
        calls.append(refined.point.width)
        if len(calls) == 2:
            raise FitInterrupt(refined, KeyboardInterrupt())
        return refined

    monkeypatch.setattr(solving, "minimise", second_is_interrupted)
    monkeypatch.setattr(solving, "removal_pays", lambda *arguments: True)
    monkeypatch.setattr(solving, "_count_free_removals", lambda *arguments: 1)  # one unit at a time
    found = best_when_interrupted(solving.prune, problem.source, start, problem.scale)
    assert found.point.width == 6 and len(calls) == 2


def test_known_rows_come_first(rng):
    problem = planted(6, 4, 300, rng)
    known = problem.truth.layer.rows
    context = SearchContext.of(problem.source, SIGN_FREE, Search(spares=0, hops=0), rng=rng)
    refined = search_with_spares(context.knowing(known), 4)
    assert error_of(refined, problem.truth) < 1e-10
    assert len(refined.trace.rows) <= 5  # the true rows were there from the start


def test_removal_costs_are_exact(rng):
    problem = planted(5, 4, 300, rng, noise=0.3)
    point = full_point(problem.truth)
    fit = Fit(*problem.source.sum(FitStatistic(point)))
    order, costs = elimination_order(point, fit)

    def least_squares(kept):
        part = keep_units(point, np.sort(kept))
        x, y = problem.source.read(0, 300)
        F = part.features(x, part.extended(x) @ part.units.T)
        return float(np.linalg.lstsq(F, y)[1].sum())

    full = least_squares(np.arange(4))
    for removed in range(1, 4):
        assert_allclose(least_squares(order[removed:]) - full, costs[removed - 1], rtol=1e-8)
    alone = [least_squares(np.delete(np.arange(4), i)) for i in range(4)]
    assert order[0] == np.argmin(alone)


def test_pruning_keeps_what_is_needed(rng):
    problem = planted(6, 5, 500, rng)
    at_truth = levenberg_marquardt(problem.source, full_point(problem.truth), problem.scale)
    assert prune(problem.source, at_truth, problem.scale).point.width == 5


def test_pruning_to_a_given_width_goes_below_the_truth_if_told_to(rng):
    problem = planted(6, 5, 500, rng)
    at_truth = levenberg_marquardt(problem.source, full_point(problem.truth), problem.scale)
    pruned = prune(problem.source, at_truth, problem.scale, width=4)
    assert pruned.point.width == 4 and pruned.trace.loss > 1e-6


def test_too_few_samples_are_refused_with_a_number(rng):
    problem = planted(10, 5, 50, rng)
    with pytest.raises(TooFewSamples, match="50 samples for width 5") as caught:
        search_with_spares(SearchContext.of(problem.source, SIGN_FREE, rng=rng), 5)
    assert caught.value.values["samples"] == 50


def test_parameters_are_counted_without_the_scale(rng):
    problem = planted(10, 5, 300, rng)
    assert parameter_count(full_point(problem.truth)) == 5 * 11 + 1
    smooth = planted(10, 5, 300, rng, activation=lb.tanh, outputs=2)
    assert parameter_count(full_point(smooth.truth)) == 5 * 13 + 2


def test_total_variation_survives_a_large_mean(rng):
    x, y = rng.standard_normal((3000, 2)), rng.standard_normal(3000)
    assert_allclose(total_variation(lb.Samples(x, y + 1e8)), np.sum((y - y.mean()) ** 2), rtol=1e-6)


def test_interrupt_in_a_search_returns_something(rng):
    def interrupt(event):
        raise KeyboardInterrupt

    problem = planted(10, 5, 300, rng)
    context = SearchContext.of(problem.source, SIGN_FREE, rng=rng, progress=interrupt)
    assert np.isfinite(best_when_interrupted(search_with_spares, context, 5).loss)


@pytest.mark.slow
def test_spares_that_are_needed_are_no_spares():
    """Ten units, noise: with eight and two spares, two runs agreed at nine units and a loss a third too large."""
    truth = lb.random_network(20, 10, rng=np.random.default_rng(1))
    rng = np.random.default_rng(2)
    x = rng.standard_normal((20_000, 20))
    y = truth(x)
    found = lb.recover(lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(20_000)), rng=0)
    assert found.network.width == 10 and found.certificate.verdict == "verified"
