"""Hops at exact width, where equations are few."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from interrupted_fits import best_when_interrupted
from numpy.testing import assert_allclose, assert_array_equal
from planted_problems import full_point, perturbed, planted

import laybare as lb
from laybare.certificate import ClaimName
from laybare.errors import TooFewSamples
from laybare.search.hops import _Chain, search_by_hops
from laybare.search.settings import SearchContext
from laybare.solver import Effort
from laybare.solver.dense import HeldRows
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project_on
from laybare.solver.point import Model, network_of
from laybare.source.problem import held_out
from laybare.source.sums import Schedule

SIGN_FREE = Model(lb.absolute, biases=True, offset=True, linear=True)


def few_samples(dim, width, per_degree_of_freedom, seed):
    rng = np.random.default_rng(seed)
    return planted(dim, width, int(per_degree_of_freedom * (width * (dim + 1) + 1)), rng, biases=0.5)


def test_a_network_is_recovered_from_little_more_than_two_samples_per_degree_of_freedom():
    problem = few_samples(20, 10, 2.2, 300)
    x, y = problem.source.read(0, problem.source.size)
    found = lb.recover(x, y[:, 0], width=10)
    assert lb.compare(found.network, problem.truth).max_error < 1e-10
    assert found.certificate.verdict == "verified"


def test_hops_are_the_same_bits_for_any_number_of_workers():
    problem = few_samples(10, 5, 2.0, 301)

    def bits(workers):
        source = lb.Samples(*_arrays(problem), schedule=Schedule(workers=workers))
        return lb.recover(source, width=5).network

    one, two = bits(1), bits(2)
    assert_array_equal(one.layer.weights, two.layer.weights)
    assert_array_equal(one.readout, two.readout)


def _arrays(problem):
    x, y = problem.source.read(0, problem.source.size)
    return x, y[:, 0]


def test_an_interrupt_returns_the_best_so_far(rng):
    """At 1.3 samples per degree of freedom nothing is found; after the third hop somebody interrupts."""
    problem, seen = few_samples(10, 10, 1.3, 302), []

    def listen(event):
        seen.append(event)
        if sum(e.stage == "hopping" for e in seen) == 3 and event.stage == "refining":
            raise KeyboardInterrupt

    context = SearchContext.of(problem.source, SIGN_FREE, rng=rng, progress=listen)
    found = best_when_interrupted(search_by_hops, context, context.draw_units(10), 50)
    assert sum(e.stage == "hopping" for e in seen) == 3
    first = context._replace(progress=None, rng=np.random.default_rng(0))
    assert found.loss <= project_on(problem.source, first.start(first.draw_units(10)))[1]


def test_a_time_limit_ends_the_hops():
    problem = few_samples(20, 20, 1.2, 303)
    begun = time.perf_counter()
    found = lb.recover(*_arrays(problem), width=20, seconds=0.5)
    assert time.perf_counter() - begun < 20.0  # without a limit it takes minutes
    assert found.network.width == 20
    assert found.certificate.verdict != "verified"


def test_time_that_ends_is_the_first_reason_and_refutes_nothing():
    problem = few_samples(20, 20, 1.2, 303)
    found = lb.recover(*_arrays(problem), width=20, seconds=0.5)
    assert found.certificate.verdict == "doubtful"
    assert found.certificate.checks[0].name == ClaimName.TIME_LIMIT
    assert "Most likely time ended" in found.certificate.meaning
    assert found.network.activation == lb.relu  # not in the form without signs


@pytest.mark.parametrize("seed", [320, 321])
def test_the_width_is_found_from_few_samples(seed):
    problem = few_samples(10, 5, 3.0, seed)
    found = lb.recover(*_arrays(problem))
    assert found.certificate.verdict == "verified"
    assert lb.compare(found.network, problem.truth).max_error < 1e-10


def test_fewer_equations_than_parameters_are_refused(rng):
    problem = few_samples(10, 5, 0.9, 304)
    with pytest.raises(TooFewSamples, match="free parameters"):
        lb.recover(*_arrays(problem), width=5)


@pytest.mark.parametrize("activation", [lb.absolute, lb.tanh])
@pytest.mark.parametrize("outputs", [1, 3])
def test_held_rows_have_the_loss_and_the_costs_of_the_streamed_sums(activation, outputs, rng):
    problem = planted(6, 4, 90, rng, activation=activation, outputs=outputs, noise=0.1)
    model = Model(activation, linear=activation == lb.absolute)
    rows = HeldRows.of(problem.source, model, problem.scale)
    start = model.start(rng.standard_normal((4, 7)), outputs)
    here = rows.evaluate(start.units)
    point, loss = project_on(problem.source, start)
    assert_allclose(here.loss, loss, rtol=1e-9)
    assert_allclose(here.sums.readout, point.coefficients[:4], rtol=1e-7, atol=1e-9)
    order, costs = elimination_order(point, Fit(*problem.source.sum(FitStatistic(point))))
    assert_allclose(here.sums.removal_costs.min(), costs[0], rtol=1e-7)
    assert np.argmin(here.sums.removal_costs) == order[0]


@pytest.mark.parametrize("penalty", [0.0, 3.0])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_gradient_is_the_derivative_of_the_loss(penalty, outputs, rng):
    problem = planted(5, 3, 60, rng, activation=lb.tanh, outputs=outputs, noise=0.1)
    rows = replace(HeldRows.of(problem.source, Model(lb.tanh), 1e9 * problem.scale), penalty=penalty)  # 1e9: double precision
    units = rng.standard_normal((3, 6))
    gradient, move = rows.system(rows.evaluate(units)).gradient, rng.standard_normal((3, 6))
    ahead, behind = (rows.evaluate(units + h * move).loss for h in (1e-5, -1e-5))
    assert_allclose((ahead - behind) / 2e-5, -2.0 * gradient @ move.ravel(), rtol=1e-6)


def test_held_rows_are_fitted_to_rounding_from_nearby(rng):
    problem = planted(8, 4, 120, rng)
    start = full_point(perturbed(problem.truth, 0.05, rng)).units
    model = Model(lb.relu)
    end = HeldRows.of(problem.source, model, problem.scale).minimise(start, Effort())
    point = project_on(problem.source, model.start(end.point, 1))[0]
    assert lb.compare(network_of(point, vector=True), problem.truth).max_error < 1e-7


def test_a_unit_that_is_off_at_few_samples_needs_no_linear_part():
    """Of 120 samples about three lie beyond the kink of the first unit: a free linear part leaves its row open."""
    rng = np.random.default_rng(309)
    rows = rng.standard_normal((3, 8))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    truth = lb.Network(lb.Layer(rows, np.array([2.0, 0.1, -0.3]), lb.relu), np.array([1.0, -0.8, 0.7]))
    x = rng.standard_normal((120, 8))
    off = int(np.sum(x @ rows[0] + 2.0 < 0.0))
    found = lb.recover(x, truth(x), width=3, activation=lb.relu)
    assert 0 < off < 9
    assert found.network.linear is None
    assert lb.compare(found.network, truth).max_error < 1e-10


def test_few_rows_are_held_out_where_few_can_be_spared():
    assert held_out(422, 422 - 231) == 23
    assert held_out(316, 316 - 231) == 16
    assert held_out(3000, 3000 - 231) == held_out(3000) == 150
    assert held_out(90, 500) == 9


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "ratio", "least"), [(20, 10, 2.0, 9), (10, 5, 2.0, 8), (10, 20, 2.0, 8)])
def test_rates_at_two_samples_per_degree_of_freedom(dim, width, ratio, least):
    """Ten networks each; fewer than the rates of `docs/studies.md` by two standard deviations would fail."""
    right = 0
    for seed in range(500, 510):
        problem = few_samples(dim, width, ratio, seed)
        found = lb.recover(*_arrays(problem), width=width)
        error = lb.compare(found.network, problem.truth).max_error
        right += error < 1e-10
        assert error < 1e-10 or found.certificate.verdict != "verified"
    assert right >= least


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "ratio", "least"), [(20, 10, 2.5, 8), (10, 50, 4.0, 9)])
def test_rates_if_the_width_is_not_given(dim, width, ratio, least):
    """Ten networks each."""
    right = 0
    for seed in range(520, 530):
        problem = few_samples(dim, width, ratio, seed)
        found = lb.recover(*_arrays(problem))
        error = lb.compare(found.network, problem.truth).max_error
        right += error < 1e-10
        assert error < 1e-10 or found.certificate.verdict != "verified"
    assert right >= least


@pytest.mark.parametrize(("per_degree", "penalised"), [(1.5, True), (4.0, False)])
def test_readouts_are_penalised_only_where_equations_are_few(per_degree, penalised, rng):
    """Where they are plenty, bad minima leave less than a penalty of the readouts would weigh."""
    problem = few_samples(10, 5, per_degree, 305)
    context = SearchContext.of(problem.source, SIGN_FREE, rng=rng)
    chain = _Chain.of(context, 5)
    assert (chain.penalised.penalty > 0.0) == penalised
    fit = chain.minimise(context.draw_units(5))
    assert (chain.without_penalty(fit) is fit) != penalised
