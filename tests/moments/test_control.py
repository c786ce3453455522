"""Control variates: fits are least squares, what they explain exactly costs no noise, and the noise falls as claimed."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from dense_moments import draw, random_net
from numpy.testing import assert_allclose

from laybare.activations import relu, tanh
from laybare.errors import BudgetExhausted, TooFewSamples
from laybare.moments import (
    Residual,
    affordable_degree,
    controlled_moments,
    fit_control,
    fit_hermite,
    hermite_features,
    least_squares,
    packed_moments,
    pair_units,
    population_moments,
    veronese,
)
from laybare.moments.regression import RegressionOptions
from laybare.networks import Layer, Network
from laybare.source import Samples, Source


@pytest.mark.parametrize(("degree", "subspace"), [(0, None), (1, None), (2, None), (3, None), (4, 2), (3, 3)])
def test_fit_is_least_squares(degree: int, subspace: int | None, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((400, 4)), rng.standard_normal((400, 2))
    basis = None if subspace is None else np.linalg.qr(rng.standard_normal((4, subspace)))[0]
    fit = fit_hermite(Samples(x, y), degree, basis)
    features = hermite_features(x if basis is None else x @ basis, degree).T
    expected = np.linalg.lstsq(features, y, rcond=None)[0]
    assert_allclose(fit.moments.values, expected.T, atol=1e-12)
    assert_allclose(fit(x), features @ expected, atol=1e-11)


def test_conjugate_gradients_find_the_same_fit(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((900, 8)), rng.standard_normal((900, 2)))
    direct = fit_hermite(source, 2).moments.values
    with mock.patch("laybare.moments.regression.REGRESSION", RegressionOptions(direct_features=10)):
        assert_allclose(fit_hermite(source, 2).moments.values, direct, atol=1e-7)


def test_dependent_features_share_what_they_explain(rng: np.random.Generator) -> None:
    x = rng.standard_normal((200, 2))
    fit = least_squares(Samples(x, x @ [1.0, 2.0]), lambda z: np.concatenate([z, z], axis=1))
    assert_allclose(fit.coefficients[:, 0], [0.5, 1, 0.5, 1], atol=1e-9)
    assert fit.unexplained < 1e-14


def test_residual_is_a_source_with_all_verbs(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((3000, 3)) * 2 + 1, rng.standard_normal((3000, 2))
    residual = Residual(Samples(x, y), lambda z: np.stack([z[:, 0], z[:, 1] ** 2], axis=1))
    assert isinstance(residual, Source)
    expected = y - np.stack([x[:, 0], x[:, 1] ** 2], axis=1)
    assert_allclose(residual.read(10, 20).y, expected[10:20])
    first, second = residual.split(0.25, rng=rng)
    assert (first.size, second.size) == (750, 2250)
    rows = [0, 1, *range(2000, 2010)]
    white = residual.whitened()
    assert_allclose(white.read(0, 3000).y[rows], expected[rows])  # the model sees the inputs that it was made for
    assert_allclose(residual.sum(lambda _, r: (r.sum(axis=0),))[0], expected.sum(axis=0))


def test_models_are_evaluated_a_few_rows_at_a_time(rng: np.random.Generator) -> None:
    x, seen = rng.standard_normal((10_000, 2)), []
    residual = Residual(Samples(x, x[:, 1]), lambda z: (seen.append(len(z)), z[:, 0])[1])
    assert_allclose(residual.read(0, 10_000).y[:, 0], x[:, 1] - x[:, 0])
    assert max(seen) <= 4096


def test_one_output_as_a_vector_is_subtracted_row_by_row(rng: np.random.Generator) -> None:
    x = rng.standard_normal((50, 2))
    assert not Residual(Samples(x, x[:, 0]), lambda z: z[:, 0]).read(0, 50).y.any()


def test_residual_of_a_fit_is_orthogonal_to_it(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((500, 3)), rng.standard_normal((500, 2)))
    left = packed_moments(Residual(source, fit_hermite(source, 2)), 4)
    assert np.abs(left.up_to(2).values).max() < 1e-13
    assert np.abs(left.of(3)).max() > 1e-3


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_what_the_polynomial_explains_is_exact(degree: int, rng: np.random.Generator) -> None:
    """Outputs that are polynomials of that degree: moments of all orders without any sampling error."""
    x = rng.standard_normal((300, 3))
    truth = rng.standard_normal(hermite_features(x, degree).shape[0])
    found = controlled_moments(Samples(x, truth @ hermite_features(x, degree)), 5, degree=degree, units=None)
    assert_allclose(found.value.values[0, : len(truth)], truth, atol=1e-11)
    assert np.abs(found.value.values[0, len(truth) :]).max() < 1e-11
    assert np.abs(found.noise.values).max() < 1e-11


def test_pair_units_are_all_different(rng: np.random.Generator) -> None:
    """2·d² unit directions and offsets ±0.6, whose squares span all quadratics."""
    layer = pair_units(4)
    rows = np.column_stack([layer.weights, np.asarray(layer.biases)])
    assert len(np.unique(rows.round(12), axis=0)) == layer.width == 32
    assert_allclose(np.linalg.norm(layer.weights, axis=1), 1)
    assert np.linalg.matrix_rank(veronese(layer.weights, 2)) == 10


def test_what_the_units_explain_is_exact(rng: np.random.Generator) -> None:
    layer = pair_units(3)
    network = Network(layer, rng.standard_normal((layer.width, 2)), rng.standard_normal(2), rng.standard_normal((3, 2)))
    found = controlled_moments(draw(network, 3, 2000, rng), 6)
    assert_allclose(found.value.values, population_moments(network, 6).values, atol=1e-9)


def test_a_network_that_is_the_truth_leaves_nothing(rng: np.random.Generator) -> None:
    network = random_net(5, 4, rng, tanh)
    found = controlled_moments(draw(network, 5, 500, rng), 4, network=network)
    assert_allclose(found.value.values, population_moments(network, 4).values, atol=1e-12)


def test_control_commutes_with_rotation(rng: np.random.Generator) -> None:
    """The polynomial part sees no axes (the units do, and are left out)."""
    network = random_net(4, 5, rng)
    x = rng.standard_normal((2000, 4))
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    one, other = (controlled_moments(Samples(z, network(x)), 4, units=None).value for z in (x, x @ Q))
    assert_allclose(other.flattened(1, 3) @ other.flattened(1, 3)[0].T,
                    Q.T @ (one.flattened(1, 3) @ one.flattened(1, 3)[0].T) @ Q, atol=1e-12)


def test_signals_shrink_as_the_docstring_says() -> None:
    """100 fits to 2000 samples of He₃(x₁)/√6 in three dimensions: the mean gain is 1 - 58/2000; sd 0.0022 over 20 seed
    blocks, 4 sigma allowed."""
    found = []
    for seed in range(100):
        x = np.random.default_rng(seed).standard_normal((2000, 3))
        h = (x[:, 0] ** 3 - 3 * x[:, 0]) / np.sqrt(6)
        found.append(controlled_moments(Samples(x, h), 3, units=None).value.of(3)[0, 0] / np.mean(h * h))
    assert abs(np.mean(found) - (1 - 58 / 2000)) < 4 * 0.0022


@pytest.mark.parametrize(("size", "degree"), [(20, 0), (21, 0), (42, 1), (461, 1), (462, 2), (10**6, 2)])
def test_degree_follows_the_number_of_samples(size: int, degree: int) -> None:
    assert affordable_degree(size, 20, 2) == degree


def test_few_samples_get_a_linear_control(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((60, 10)), rng.standard_normal(60))
    assert fit_control(source).polynomial.moments.order == 1
    with pytest.raises(TooFewSamples, match=r"60 samples for a least-squares fit with 66 features.*at least 99"):
        fit_hermite(source, 2)


def test_fits_that_do_not_fit_are_refused(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((200, 8)), rng.standard_normal(200))
    with pytest.raises(BudgetExhausted, match=r"45 coefficients would take 80\.3 kB"):
        fit_hermite(source, 2, memory=10_000)


def error_ratios(seed: int, *, dim: int = 8, width: int = 14, size: int = 200_000) -> np.ndarray:
    """Errors of orders 4, 5, 6: plain, controlled."""
    rng = np.random.default_rng(seed)
    network = random_net(dim, width, rng, relu)
    source, truth = draw(network, dim, size, rng), population_moments(network, 6)
    estimates = packed_moments(source, 6), controlled_moments(source, 6).value
    return np.array([[np.linalg.norm((found - truth).of(k)) for k in (4, 5, 6)] for found in estimates])


def test_control_cuts_the_error_on_a_small_sample() -> None:
    """5 networks, n = 20,000: pooled ratio .118 to .126 for orders 4-6; sd .016 over 8 seed blocks, 4 sigma allowed."""
    errors = np.mean([error_ratios(seed, size=20_000) for seed in range(5)], axis=0)
    assert (errors[1] / errors[0] < 0.126 + 4 * 0.016).all()


@pytest.mark.slow
def test_control_cuts_the_error_of_orders_4_to_6_fivefold() -> None:
    """d = 8, m = 14, n = 2e5, 20 networks: error at most 0.2 times that of plain averages, pooled and in the median."""
    errors = np.array([error_ratios(1000 + seed) for seed in range(20)])
    pooled = errors[:, 1].mean(axis=0) / errors[:, 0].mean(axis=0)
    assert (pooled <= 0.2).all()
    assert (np.median(errors[:, 1] / errors[:, 0], axis=0) <= 0.2).all()


def test_units_need_the_layer_they_are_given(rng: np.random.Generator) -> None:
    network = random_net(3, 4, rng)
    layer = Layer(network.layer.weights, network.layer.biases, relu)
    control = fit_control(draw(network, 3, 500, rng), units=lambda _: layer)
    assert control.network is not None
    assert_allclose(control.network.readout[:, 0], network.readout, atol=1e-9)
