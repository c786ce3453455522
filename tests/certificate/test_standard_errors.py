"""Standard errors: against the scatter of estimates over repeated noise, and against laws they must obey."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_options import change_options
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

import laybare as lb
from laybare.certificate import Certificate, StandardErrors, fitted_network, standard_errors, standard_errors_at
from laybare.certificate.error_propagation import ERRORS, propagate_errors, standardising_transform
from laybare.certificate.fitted_network import ROWS, FittedNetwork, evaluate_fit
from laybare.certificate.local_minima import NearbyMinima
from laybare.certificate.standard_errors import estimate_errors, invert_information
from laybare.certificate.unit_support import drop_least_needed_unit
from laybare.numerics.shapes import Array
from laybare.planted import random_network
from laybare.solver import options
from laybare.solver.minimise import minimise
from laybare.solver.point import network_of, point_of
from laybare.source.problem import pose

REPLICATES, SAMPLES, NOISE = 60, 150, 0.05


def flat(parts: StandardErrors) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])


def scores(network: lb.Network, seed: int) -> Array:
    """(estimate - truth) / standard error of every parameter, over replicates of the noise at the same inputs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, network.dim))
    y, rows = network(x), []
    for _ in range(REPLICATES):
        source = lb.Samples(x, y + NOISE * rng.standard_normal(y.shape))
        point = minimise(source, point_of(network, biases=True, offset=True, linear=False), 1.0).point
        found = network_of(point, vector=network.readout.ndim == 1)
        gap = StandardErrors(
            found.layer.weights - network.layer.weights, found.layer.biases - network.layer.biases,
            found.readout - network.readout, np.asarray(found.offset) - network.offset)
        rows.append(flat(gap) / flat(standard_errors_at(found, source, NOISE, biases=True, offset=True)))
    return np.array(rows)


def two_units(activation: lb.Activation, outputs: int) -> lb.Network:
    """Units well apart, so that the asymptotic errors hold at this size."""
    rows = np.array([[0.8, 0.6], [0.28, -0.96]]) * (1.0 if activation.degree is not None else 2.0)
    readout = np.array([[1.0, 0.5], [-0.8, 1.2]])
    return lb.Network(lb.Layer(rows, np.array([0.3, -0.4]), activation), readout[:, 0] if outputs == 1 else readout)


# Over 20 disjoint seed blocks the mean size was 0.994 ± 0.056 (ReLU, one output) and 1.011 ± 0.027 (tanh, two outputs), that of
# a single parameter 0.96-1.04 ± 0.12 or less; 4 sigmas are allowed.
@pytest.mark.parametrize(("activation", "outputs", "band"), [(lb.relu, 1, 0.23), (lb.tanh, 2, 0.12)], ids=["relu", "tanh"])
def test_estimates_scatter_as_the_standard_errors_say(activation: lb.Activation, outputs: int, band: float, seed: int) -> None:
    sizes = np.sqrt(np.mean(scores(two_units(activation, outputs), seed) ** 2, axis=0))
    assert abs(np.mean(sizes) - 1.0) < band
    assert np.all(np.abs(sizes - 1.0) < 0.48)


def test_twice_the_samples_divide_the_errors_by_root_two(rng: np.random.Generator) -> None:
    network, x = two_units(lb.relu, 2), rng.standard_normal((100, 2))
    once = standard_errors_at(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True)
    twice = standard_errors_at(network, lb.Samples(np.vstack([x, x]), network(np.vstack([x, x]))), 0.2, biases=True, offset=True)
    assert_allclose(flat(twice), np.sqrt(2.0) * flat(once), rtol=1e-8)


def test_lengths_of_rows_are_certain_where_the_scale_is_free(rng: np.random.Generator) -> None:
    """With |w| = 1 held fixed a row moves across itself only: in two dimensions (δw₁, δw₂) is parallel to (-w₂, w₁)."""
    network, x = two_units(lb.relu, 1), rng.standard_normal((100, 2))
    errors = standard_errors_at(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True).weights
    across = np.abs(network.layer.weights[:, ::-1])
    assert_allclose(errors[:, 0] / errors[:, 1], across[:, 0] / across[:, 1], rtol=1e-6)


def test_errors_have_the_shapes_of_the_parts(rng: np.random.Generator) -> None:
    for outputs in (1, 3):
        network, x = random_network(3, 2, outputs=outputs, rng=rng), rng.standard_normal((60, 3))
        errors = standard_errors_at(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True)
        shapes = [np.shape(part) for part in errors]
        assert shapes == [(2, 3), (2,), network.readout.shape, np.shape(network.offset)]
    bias_free = standard_errors_at(network, lb.Samples(x, network(x)), 0.1, biases=False, offset=True)
    assert not bias_free.biases.any()


@pytest.fixture
def noisy_fit(rng: np.random.Generator) -> FittedNetwork:
    network = random_network(5, 3, biases=0.5, rng=rng)
    x = rng.standard_normal((800, 5))
    problem = pose(lb.Samples(x, network(x) + NOISE * rng.standard_normal(800)), biases=True, rng=rng)
    point = point_of(problem.white(network), biases=True, offset=True, linear=False)
    fitted = network_of(minimise(problem.used, point, problem.variation).point, vector=True)
    return evaluate_fit(problem.given(fitted), problem)


def gram_of(fitted: FittedNetwork, monkeypatch: pytest.MonkeyPatch, large: int) -> Array:
    """The Gram matrix behind the information, where so many numbers are many."""
    change_options(monkeypatch, options, "SOLVER", single_metric_from=large)
    informed = invert_information(fitted)
    assert informed is not None
    return informed.gram


def test_single_precision_gives_the_same_errors(noisy_fit: FittedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    # where refits end is as rough as the loss
    monkeypatch.setattr(standard_errors, "find_nearby_minima", lambda *_, **__: NearbyMinima())
    double = estimate_errors(noisy_fit, invert_information(noisy_fit), rng=np.random.default_rng(0))
    change_options(monkeypatch, options, "SOLVER", single_metric_from=1)
    single = estimate_errors(noisy_fit, invert_information(noisy_fit), rng=np.random.default_rng(0))
    double_gram = gram_of(noisy_fit, monkeypatch, 300)
    assert_allclose(flat(single.errors), flat(double.errors), rtol=1e-4)
    single_gram = gram_of(noisy_fit, monkeypatch, 1)
    assert np.any(single_gram != double_gram)
    assert_allclose(single_gram, double_gram, rtol=1e-4, atol=1e-4 * np.abs(double_gram).max())


def test_refits_that_begin_with_a_known_curvature_end_at_the_same_loss(
    noisy_fit: FittedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_network, "ROWS", replace(ROWS, min_search_rows=300))
    plain, unit_less = noisy_fit.fit_on_search_rows.loss, drop_least_needed_unit(noisy_fit).unit_gain
    assert noisy_fit.search_rows is not noisy_fit.used and noisy_fit.curvature_on_search_rows(np.arange(3)) is None
    again = replace(noisy_fit)
    change_options(monkeypatch, options, "SOLVER", single_metric_from=1)
    change_options(monkeypatch, options, "COST", expensive=0.0)
    assert again.curvature_on_search_rows(np.arange(3)) is not None
    assert_allclose(again.fit_on_search_rows.loss, plain, rtol=1e-3)
    assert_allclose(drop_least_needed_unit(again).unit_gain, unit_less, rtol=0.02)


def test_poorly_known_parameters_are_taken_in_double_precision(noisy_fit: FittedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    double = gram_of(noisy_fit, monkeypatch, 300)
    monkeypatch.setattr(standard_errors, "ERRORS", replace(ERRORS, single_precision_condition=1.0))
    assert_array_equal(gram_of(noisy_fit, monkeypatch, 1), double)


def ratios_of_errors(seed: int, monkeypatch: pytest.MonkeyPatch, large: int = 1) -> Array:
    """Errors from 580 of 7,980 rows for 29 numbers, over those from all rows; single precision from `large` numbers on."""
    rng = np.random.default_rng(seed)
    network, x = random_network(5, 4, rng=rng), rng.standard_normal((8400, 5))
    samples = lb.Samples(x, network(x) + 0.1 * rng.standard_normal(len(x)))
    fitted = evaluate_fit(lb.refine(samples, network, rng=0).network, pose(samples, biases=True, rng=np.random.default_rng(0)))
    monkeypatch.setattr(standard_errors, "find_nearby_minima", lambda *given, rng: NearbyMinima())
    every = flat(estimate_errors(fitted, invert_information(fitted), rng=rng).errors)
    with monkeypatch.context() as patched:
        change_options(patched, options, "SOLVER", single_metric_from=large)
        few = replace(ROWS, curvature_rows_per_parameter=20, min_curvature_rows=300, curvature_operations=0, min_search_rows=200,
                      search_row_divisor=100)
        patched.setattr(fitted_network, "ROWS", few)
        copy = replace(fitted)  # which has no rows of its own yet
        assert copy.curvature_rows.size == 580
        some = flat(estimate_errors(copy, invert_information(copy), rng=rng).errors)
    return some[every > 0] / every[every > 0]


@pytest.mark.parametrize("large", [1, 300], ids=["single", "double"])
def test_errors_from_some_of_the_rows_are_near_those_from_all(seed: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = ratios_of_errors(seed, monkeypatch, large)
    assert np.any(ratios != 1.0)
    assert abs(np.mean(ratios) - 1.0) < 0.17  # four standard deviations, 0.042 over 60 seeds


@pytest.mark.slow
def test_the_mean_inverse_of_few_rows_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the correction the mean over 60 seeds is 1.026; with it 1.0035, and its standard deviation is 0.0054."""
    means = [np.mean(ratios_of_errors(seed, monkeypatch)) for seed in range(60)]
    assert abs(np.mean(means) - 1.0) < 0.018


@pytest.mark.parametrize("outputs", [1, 2])
def test_errors_of_each_unit_by_itself_are_the_same(outputs: int, rng: np.random.Generator) -> None:
    """What a sandwich leaves out no error bar asks for."""
    truth = random_network(4, 3, outputs=outputs, rng=rng)
    x = rng.standard_normal((600, 4))
    y = truth(x)
    samples = lb.Samples(x, y + 0.1 * rng.standard_normal(y.shape))
    fitted = evaluate_fit(lb.refine(samples, truth, rng=0).network, pose(samples, biases=True, rng=np.random.default_rng(0)))
    informed = invert_information(fitted)
    assert informed is not None
    inverse = informed.inverse.matrix
    sandwiches = (
        standard_errors._Sandwich(fitted.point, inverse, 1.0, np.float64, whole) for whole in (True, False))
    whole, blocks = sums = [fitted.used.sum(sandwich)[0] for sandwich in sandwiches]
    assert_allclose(blocks[blocks != 0.0], whole[blocks != 0.0], rtol=1e-9)
    assert np.count_nonzero(blocks) < 0.6 * np.count_nonzero(whole)
    for transform in (fitted.problem.transform, standardising_transform(fitted.problem.transform)):
        for one, other in zip(*(propagate_errors(each, fitted.point, transform).errors for each in sums), strict=True):
            assert one == pytest.approx(other, rel=1e-9)


def test_a_unit_that_some_rows_do_not_know_is_left_to_all_of_them(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is active on one row in five hundred: of some rows none tells its numbers."""
    network = lb.Network(lb.Layer(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, -2.9])), np.array([1.0, 3.0]))
    x = rng.standard_normal((8400, 2))
    samples = lb.Samples(x, network(x) + 0.01 * rng.standard_normal(len(x)))
    fitted = evaluate_fit(lb.refine(samples, network, rng=0).network, pose(samples, biases=True, rng=np.random.default_rng(0)))
    every = invert_information(fitted)
    few = replace(ROWS, curvature_rows_per_parameter=40, min_curvature_rows=300, curvature_operations=0, min_search_rows=100,
                  search_row_divisor=100)
    monkeypatch.setattr(fitted_network, "ROWS", few)
    copy = replace(fitted)
    some = invert_information(copy)
    assert every is not None and some is not None
    assert copy.curvature_rows.size < 500 and some.wishart_factor == 1.0
    assert_allclose(some.inverse.matrix, every.inverse.matrix, rtol=1e-6)


@pytest.mark.parametrize(("size", "single"), [(1.0, True), (1e20, False), (1e-20, False), (1e60, False)])
def test_coefficients_that_single_precision_does_not_hold_are_seen_in_double(
    size: float, single: bool, noisy_fit: FittedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_options(monkeypatch, options, "SOLVER", single_metric_from=1)
    point = noisy_fit.point
    fitted = replace(noisy_fit, point=point.moved(point.units, size * point.coefficients))
    assert (fitted.precision is np.float32) is single


@pytest.mark.parametrize(("covariance", "factor"), [
    (np.diag([4.0, 1.0, 0.01] * 4), float(ndtri(0.5 + 0.5 * 0.95 ** (1 / 12)))), (np.ones((12, 12)), float(ndtri(0.975)))])
def test_simultaneous_intervals_know_the_correlations(covariance: Array, factor: float) -> None:
    """Twelve independent parameters, and twelve that are one."""
    bare = Certificate((), StandardErrors(*(np.zeros(0),) * 4), 0.1, covariance=covariance)
    assert bare.simultaneous() == pytest.approx(factor, abs=0.03)
    assert np.isnan(replace(bare, covariance=None).simultaneous())


@pytest.mark.slow
def test_simultaneous_intervals_cover_all_parameters_at_once(rng: np.random.Generator) -> None:
    """Of 60 networks nine in ten at least, where single intervals hold all parameters of hardly any third."""
    truth, together, alone = lb.random_network(3, 2, rng=5).canonical(), 0, 0
    for _ in range(60):
        x = rng.standard_normal((800, 3))
        found = lb.refine(lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(800)), truth)
        network, errors = found.network, found.certificate.standard_errors
        z = np.concatenate([np.ravel(np.abs(mine - true) / error) for mine, true, error in (
            (network.layer.weights, truth.layer.weights, errors.weights),
            (network.layer.biases, truth.layer.biases, errors.biases),
            (network.readout, truth.readout, errors.readout), (network.offset, truth.offset, errors.offset))]).max()
        together += z < found.certificate.simultaneous()
        alone += z < 1.96
    assert together >= 52 and alone < 45
