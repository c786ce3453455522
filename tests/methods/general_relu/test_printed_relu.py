"""Algorithms 1 to 6 of Awasthi, Tang and Vijayaraghavan (2021): exact on exact moments, close on many samples, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from unfinished_certificate import without_certificate

import laybare as lb
from laybare.assembly.unit_scalars import Scalars
from laybare.methods.printed.awasthi_2021 import (
    Etas,
    PrintedReLU,
    PrintedSizes,
    UnitPairs,
    UnsignedUnits,
    etas_from_noise,
    exact_units,
    regress_in_ball,
    regress_network,
    robust_units,
    signed_network,
    truncated_network,
)
from laybare.moments import population_moments

CASES = [(1, 8, 8), (1, 10, 6), (2, 6, 12), (2, 8, 20), (2, 8, 30), (3, 4, 14), (3, 5, 25)]
ROOTS = [0.0, 1.0, np.sqrt(3.0), -1.0]
"""Roots of He₁, He₂ and He₃: these units are hidden from one of the two tensors."""


def planted(dim: int, width: int, rng: np.random.Generator) -> lb.Network:
    truth = lb.random_network(dim, width, biases=1.5, readout="random", rng=rng)
    biases = np.concatenate([ROOTS, truth.layer.biases[4:]])
    return lb.Network(lb.Layer(truth.layer.weights, biases), truth.readout)


def largest_error(units: UnsignedUnits, truth: lb.Network) -> float:
    """Over directions up to sign, biases with the same sign, and readouts; every true unit must be there once."""
    cosines = units.directions @ truth.layer.weights.T
    pairs = np.abs(cosines).argmax(axis=1)
    if sorted(pairs) != list(range(truth.width)):
        return np.inf
    signs = np.sign(cosines[np.arange(len(pairs)), pairs])
    return max(
        np.abs(signs[:, None] * units.directions - truth.layer.weights[pairs]).max(),
        np.abs(signs * units.scalars.biases - truth.layer.biases[pairs]).max(),
        np.abs(units.scalars.readout - truth.readout[pairs]).max())


@pytest.mark.parametrize("algorithm", [1, 4])
@pytest.mark.parametrize(("order", "dim", "width"), CASES)
def test_exact_moments_give_all_units(order: int, dim: int, width: int, algorithm: int) -> None:
    """The seven cases, biases at Hermite roots among them, five networks each: largest error below 1e-10."""
    for seed in range(5):
        rng = np.random.default_rng([seed, order, dim, width])
        truth = planted(dim, width, rng)
        moments = population_moments(truth, 2 * order + 2)
        if algorithm == 1:
            units = exact_units(moments, order, rng=rng)
        else:
            units = robust_units(moments, order, Etas((1e-9, 1e-9), (1e-8, 1e-8), 1e-6), rng=rng)
        assert largest_error(units, truth) < 1e-10
        if order == 1:
            for centred in (False, True):
                assert lb.compare(signed_network(moments, units, centred=centred), truth).max_error < 1e-10


def test_one_tensor_alone_would_miss_units(rng: np.random.Generator) -> None:
    """b = 0 hides a unit from T₃, |b| = 1 from T₄: leaving either tensor out loses it."""
    truth = planted(8, 8, rng)
    moments = population_moments(truth, 4)
    for blind in (0, 1):
        etas = Etas((np.inf, 1e-9) if blind == 0 else (1e-9, np.inf), (1e-8, 1e-8), 1e-6)
        assert len(robust_units(moments, 1, etas, rng=rng).directions) == (6 if blind == 0 else 7)


@pytest.mark.parametrize("order", [1, 2])
def test_many_samples_give_all_units(order: int) -> None:
    """n = 200,000 with a quadratic fit subtracted, d = 5, 4 and 7 units: all within cosine .95 in 20 of 20 networks each."""
    dim, width = (5, 4) if order == 1 else (5, 7)
    shares = []
    for seed in range(2):
        rng = np.random.default_rng([seed, order])
        truth = lb.random_network(dim, width, biases=1.0, readout="random", rng=rng)
        x = rng.standard_normal((200_000, dim))
        measured = PrintedReLU(order=order, controlled=True).moments(lb.Samples(x, truth(x), law=lb.Gaussian(0, 1)))
        found = robust_units(measured.value, order, etas_from_noise(measured, order), rng=rng).directions
        shares.append(np.mean(np.abs(truth.layer.weights @ found.T).max(axis=1, initial=0.0) > 0.95))
    assert np.mean(shares) == 1.0


def test_regression_needs_two_units_more(rng: np.random.Generator) -> None:
    """Algorithm 5 with the right directions and biases: the function itself, in m + 2 units; two are the wrong way round."""
    truth = lb.random_network(4, 7, biases=1.0, readout="random", rng=rng)
    signs = np.array([1, -1, 1, 1, -1, 1, 1])
    units = UnsignedUnits(signs[:, None] * truth.layer.weights, Scalars(truth.readout, signs * truth.layer.biases))
    x = rng.standard_normal((500, 4))
    found = regress_network(lb.Samples(x, truth(x)), units)
    assert found.width == 9 and found.linear is None
    z = rng.standard_normal((50, 4))
    assert_allclose(found(z), truth(z), atol=1e-10)


def test_printed_regression_ends_near_the_least_squares(rng: np.random.Generator) -> None:
    """Algorithm 5 with truncation and projection: within ε²/100 of the minimum in mean squared error, in m + 2 units."""
    truth = lb.random_network(4, 5, biases=1.0, readout="random", rng=rng)
    signs = np.array([1, -1, 1, 1, -1])
    scalars = Scalars(truth.readout, signs * truth.layer.biases)
    x = rng.standard_normal((2000, 4))
    for accuracy in (0.3, 0.03):
        found, (gap,) = truncated_network(lb.Samples(x, truth(x)), signs[:, None] * truth.layer.weights, scalars, accuracy)
        assert found.width == 7 and found.linear is None
        assert gap.passed and np.mean((found(x) - truth(x)) ** 2) <= gap.value <= accuracy**2 / 100


def test_projection_and_truncation_bind_when_they_are_small(rng: np.random.Generator) -> None:
    """A small ball holds the coefficients on its surface, at the constrained minimum; a small τ leaves rows out."""
    truth = lb.random_network(3, 2, biases=0.5, rng=rng)
    x = rng.standard_normal((500, 3))
    features = UnitPairs(truth.layer.weights, Scalars(truth.readout, truth.layer.biases))
    small = regress_in_ball(lb.Samples(x, truth(x)), features, PrintedSizes(np.inf, 0.5, 1e-9))
    assert_allclose(np.linalg.norm(small.coefficients), 0.5, rtol=1e-6)
    phi = features(x)
    gradient = phi.T @ (phi @ small.coefficients - truth(x))
    assert_allclose(gradient / np.linalg.norm(gradient), -small.coefficients / 0.5, atol=1e-3)  # the ball holds it
    cut = float(np.median(np.linalg.norm(phi, axis=1)))
    assert regress_in_ball(lb.Samples(x, truth(x)), features, PrintedSizes(cut, 50.0, 1e-6)).truncated == 250


def test_sizes_of_algorithm_5_are_those_printed() -> None:
    sizes = PrintedSizes.of(Scalars(np.array([2.0, -0.25]), np.array([1.0, 3.0])), 3, 0.1)
    assert_allclose(sizes, (20 * 2 * 19 * 4 * np.sqrt(np.log(2 * 3 * 4 * 2 / 0.1)), 4 + 2 * 5, 1e-4))


@pytest.mark.parametrize("order", [1, 2])
def test_literal_method_starts_recover(order: int, rng: np.random.Generator) -> None:
    """One unit and many samples: the literal form is close, and `refine` finishes it."""
    truth = lb.random_network(3, 1, biases=0.5, rng=rng)
    x = rng.standard_normal((50_000, 3))
    source = lb.Samples(x, truth(x), law=lb.Gaussian(0, 1))
    with without_certificate():
        found = lb.recover(source, lb.GeneralReLU.literal(order), rng=rng)
        if order == 1:
            assert lb.compare(lb.refine(source, found.network).network, truth).max_error < 1e-10
    cosines = np.abs(found.start.layer.weights @ truth.layer.weights[0]) / np.linalg.norm(found.start.layer.weights, axis=1)
    assert cosines.max() > 0.98
    assert found.start.width == 1 if order == 1 else found.start.width >= 3  # two units for the linear part


def test_noise_is_refused_with_a_reason(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laybare.methods.printed.awasthi_2021.RANK_MARGIN", 3.0)  # at 1.1 chance gets through now and then
    truth = lb.random_network(8, 8, biases=1.0, rng=rng)
    x = rng.standard_normal((300, 8))
    with pytest.raises(lb.errors.TooFewSamples, match="No direction stands out"):
        lb.GeneralReLU.literal(2).start(lb.Samples(x, truth(x), law=lb.Gaussian(0, 1)), None, rng=rng)


@pytest.mark.parametrize(
    ("method", "outputs", "match"),
    [(lb.GeneralReLU.literal(4), 1, "Order 4"), (lb.GeneralReLU.literal(1), 2, "2 outputs"),
     (lb.GeneralReLU(activation=lb.tanh, route=PrintedReLU(), search=None), 1, "tanh")], ids=["order", "outputs", "activation"])
def test_what_is_not_printed_is_refused(method: lb.GeneralReLU, outputs: int, match: str, rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 2, outputs=outputs, rng=rng)
    x = rng.standard_normal((300, 3))
    with pytest.raises(lb.errors.InvalidInput, match=match):
        lb.recover(lb.Samples(x, truth(x)), method, 2, rng=rng)


def test_inputs_that_are_not_normal_are_refused(rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 2, rng=rng)
    x = rng.uniform(-2, 2, (3000, 3))
    with pytest.raises(lb.errors.AssumptionViolated, match="standard deviations"):
        lb.recover(lb.Samples(x, truth(x)), lb.GeneralReLU.literal(), rng=rng)


def test_directions_with_a_bias_that_no_sample_shows_are_left_out_and_counted() -> None:
    """A unit along the first axis, and along the second a cubic, which looks like a unit with |b| of 6/ζ₂, ζ₂ noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60_000, 3))
    source = lb.Samples(x, np.maximum(x[:, 0] + 0.3, 0.0) + 0.3 * (x[:, 1] ** 3 - 3 * x[:, 1]), law=lb.Gaussian(0, 1))
    kept, every = (PrintedReLU(max_bias=limit)(source, 2, lb.relu, rng=np.random.default_rng(0)) for limit in (6.0, np.inf))
    assert "1 more had a bias beyond 6 and were dropped, which the paper does not do" in kept.claims[0].explanation
    assert "dropped" not in every.claims[0].explanation
    assert np.abs(every.network.layer.biases).max() > 6 > np.abs(kept.network.layer.biases).max()
