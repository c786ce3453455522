"""A search in the leading directions: the span of the weights, units on all inputs, and when it is left alone."""

import numpy as np
import pytest
from changed_options import change_options

import laybare as lb
from laybare.assembly.sign_decoding import sign_free_model
from laybare.search import network_fit as fits
from laybare.search.network_fit import estimate_subspace, search_in_subspace
from laybare.search.settings import SearchContext
from laybare.solver import options
from laybare.source.problem import pose


def posed(dim, width, n, rng, noise=0.1, outputs=1):
    truth = lb.random_network(dim, width, outputs=outputs, rng=rng)
    x = rng.standard_normal((n, dim))
    y = truth(x)
    samples = lb.Samples(x, y + noise * y.std() * rng.standard_normal(y.shape))
    return truth, pose(samples, biases=True, rng=np.random.default_rng(0))


def captured(basis, truth, problem):
    """Squared lengths of the true directions, white, within the basis; the smallest."""
    rows = problem.white(truth).layer.weights
    return np.min(np.sum((rows @ basis) ** 2, axis=1) / np.sum(rows**2, axis=1))


@pytest.mark.parametrize("outputs", [1, 3])
def test_directions_span_the_weights(outputs, rng):
    truth, problem = posed(20, 4, 20_000, rng, outputs=outputs)
    basis = estimate_subspace(problem.used, 4).basis
    assert basis.shape == (20, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-12)
    assert captured(basis, truth, problem) > 0.9


def test_directions_that_stand_out_are_counted(rng):
    truth, problem = posed(20, 4, 40_000, rng)
    basis = estimate_subspace(problem.used, None).basis
    assert 4 <= basis.shape[1] <= 6
    assert captured(basis, truth, problem) > 0.9


def test_as_many_units_as_inputs_have_no_leading_directions(rng):
    _, problem = posed(6, 6, 3000, rng)
    assert estimate_subspace(problem.used, 6) is None


def test_units_found_there_are_near_the_true_ones(rng):
    truth, problem = posed(20, 4, 20_000, rng)
    directions = estimate_subspace(problem.used, 4)
    context = SearchContext.of(problem.used, sign_free_model(lb.relu, biases=True), rng=np.random.default_rng(0))
    found = search_in_subspace(context, 4, directions, 4000)
    assert found.agreed and found.point.units.shape == (4, 21)
    true, units = problem.white(truth).layer.rows, found.point.units
    cosines = np.abs(units @ true.T) / np.outer(np.linalg.norm(units, axis=1), np.linalg.norm(true, axis=1))
    assert cosines.max(axis=0).min() > 0.95


@pytest.mark.parametrize("width", [5, None])
def test_a_recovery_by_way_of_them_is_the_same_network(width, rng, monkeypatch):
    """The same samples with and without: noise leaves both at one minimum."""
    truth = lb.random_network(16, 5, rng=rng)
    x = rng.standard_normal((20_000, 16))
    y = truth(x)
    samples = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(len(x)))
    plain = lb.recover(samples, lb.RandomStart(), width, rng=0)
    asked = []
    look = fits.search_in_subspace
    monkeypatch.setattr(fits, "search_in_subspace", lambda *given, **named: asked.append(1) or look(*given, **named))
    change_options(monkeypatch, options, "COST", expensive=0.0)
    led = lb.recover(samples, lb.RandomStart(), width, rng=0)
    assert asked and led.certificate.verdict == "verified"
    assert lb.compare(led.network, plain.network).max_error < 0.02
    assert led.network.width == 5


def test_inputs_that_are_not_normal_do_no_harm(rng, monkeypatch):
    """Heavy tails make the second moment useless; the search with all inputs still finds the network."""
    truth = lb.random_network(16, 4, rng=rng)
    x = rng.standard_t(2.5, (12_000, 16))
    change_options(monkeypatch, options, "COST", expensive=0.0)
    found = lb.recover(lb.Samples(x, truth(x), law=lb.Unknown()), lb.RandomStart(), 4, rng=0)
    assert lb.compare(found.network, truth).max_error < 1e-9


def test_an_interrupt_there_keeps_what_there_is(rng, monkeypatch):
    _, problem = posed(16, 5, 20_000, rng)
    change_options(monkeypatch, options, "COST", expensive=0.0)
    left = 3

    def interrupt(event):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    model = sign_free_model(lb.relu, biases=True)
    context = SearchContext(problem.used, model, lb.RandomStart().search, problem.variation, rng, interrupt)
    fit = fits.find_fit(context, fits.random_start(context, lb.relu, 5), 5, "random")
    assert fit.interrupted and fit.network.dim == 16 and fit.network.width == 5 and fit.network.linear is None
