"""Laws, whitening and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from laybare.activations import relu, tanh
from laybare.errors import InvalidInput, TooFewSamples
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array, Event, Sums
from laybare.planted import conditioned_weights, gaussian_inputs
from laybare.source import Affine, Gaussian, Law, Samples, Symmetric, Unknown


def moments(x: Array, y: Array) -> Sums:
    return x.sum(axis=0), x.T @ x


def skewed(rng: np.random.Generator, n: int = 4000, dim: int = 5) -> Array:
    """Correlated, far from 0, and in very different units."""
    x: Array = gaussian_inputs(n, dim, rng=rng) @ conditioned_weights(dim, dim, 10.0, rng=rng) + 3 * rng.standard_normal(dim)
    x *= 10.0 ** np.arange(-4, 2 * dim - 4, 2)
    return x


@pytest.mark.parametrize("law", [Gaussian(), Unknown()])
def test_whitened_inputs_have_unit_covariance(law: Law, rng: np.random.Generator) -> None:
    x = skewed(rng)
    white = Samples(x, x[:, 0], law).whitened()
    total, gram = white.sum(moments)
    assert_allclose(total / white.size, 0, atol=1e-12)
    assert_allclose(gram / white.size, np.eye(5), atol=1e-10)
    assert_allclose(white.transform.apply(x), white.read(0, white.size).x, atol=1e-12)


def test_whitening_survives_a_large_mean(rng: np.random.Generator) -> None:
    x = gaussian_inputs(5000, 3, rng=rng) + 1e7
    _, gram = Samples(x, x[:, 0]).whitened().sum(moments)
    assert_allclose(gram / 5000, np.eye(3), atol=1e-12)  # E[xxᵀ] - mean meanᵀ would have left 1e14 · 1e-16 = 1e-2


def test_symmetric_whitening_is_about_zero(rng: np.random.Generator) -> None:
    x = skewed(rng)
    white = Samples(x, x[:, 0], Symmetric()).whitened()
    assert_array_equal(white.transform.mean, 0)
    assert_allclose(white.sum(moments)[1] / white.size, np.eye(5), atol=1e-10)
    assert white.law == Symmetric()


def test_given_moments_are_used_without_a_pass(rng: np.random.Generator) -> None:
    mean, root = rng.standard_normal(3), conditioned_weights(3, 3, 10.0, rng=rng)
    x = gaussian_inputs(100, 3, rng=rng) @ root.T + mean
    events: list[Event] = []
    white = Samples(x, x[:, 0], Gaussian(mean, root @ root.T)).with_progress(events.append).whitened()
    assert not events
    assert white.law == Gaussian(0.0, 1.0)
    assert_allclose(white.transform.matrix.T @ root @ root.T @ white.transform.matrix, np.eye(3), atol=1e-12)
    assert_array_equal(white.transform.mean, mean)


def test_one_given_moment_is_kept(rng: np.random.Generator) -> None:
    x = gaussian_inputs(100, 3, rng=rng) + 1.0
    about = Samples(x, x[:, 0], Gaussian(mean=np.ones(3))).whitened()
    assert_array_equal(about.transform.mean, 1)
    assert_allclose(about.sum(moments)[1] / 100, np.eye(3), atol=1e-12)
    scaled = Samples(x, x[:, 0], Gaussian(cov=4.0)).whitened()
    assert_allclose(scaled.transform.matrix, np.eye(3) / 2)
    assert_allclose(scaled.sum(moments)[0], 0, atol=1e-12)


@pytest.mark.parametrize("law", [Gaussian(0.0, 1.0), Gaussian(np.zeros(3), np.eye(3))])
def test_standard_inputs_are_left_alone(law: Law, rng: np.random.Generator) -> None:
    x = gaussian_inputs(100, 3, rng=rng)
    white = Samples(x, x[:, 0], law).whitened()
    assert white.transform.trivial
    assert np.shares_memory(white.read(0, 100).x, x)
    network = Network(Layer(np.eye(3)), np.ones(3))
    assert white.transform.pull_back(network) is network


@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize("linear", [True, False])
def test_pulling_back_leaves_the_function_unchanged(outputs: tuple[int, ...], linear: bool, rng: np.random.Generator) -> None:
    x = skewed(rng)
    white = Samples(x, x[:, 0]).whitened()
    network = Network(
        Layer(rng.standard_normal((4, 5)), rng.standard_normal(4), relu), rng.standard_normal((4, *outputs)),
        rng.standard_normal(outputs) if outputs else 0.7, rng.standard_normal((5, *outputs)) if linear else None)
    back = white.transform.pull_back(network)
    assert back.readout.shape == network.readout.shape
    assert_allclose(back(x), network(white.transform.apply(x)), atol=1e-11)


def test_whitening_twice_leads_all_the_way_back(rng: np.random.Generator) -> None:
    x = skewed(rng)
    source = Samples(x, x[:, 0], Unknown())
    twice = source.whitened().split(0.5, rng=0).first.whitened()
    network = Network(Layer(rng.standard_normal((3, 5)), None, tanh), np.ones(3))
    rows = twice.rows  # type: ignore[attr-defined]
    assert_allclose(twice.transform.pull_back(network)(x[rows]), network(twice.read(0, twice.size).x), atol=1e-10)


def test_maps_compose(rng: np.random.Generator) -> None:
    one, two = (Affine(rng.standard_normal(3), rng.standard_normal((3, 3))) for _ in range(2))
    x = rng.standard_normal((10, 3))
    assert_allclose(one.then(two).apply(x), two.apply(one.apply(x)), atol=1e-11)
    assert one.then(Affine.identity(3)) is one
    assert Affine.identity(3).then(one) is one


def test_parts_of_a_whitened_source_keep_the_way_back(rng: np.random.Generator) -> None:
    x = skewed(rng)
    white = Samples(x, x[:, 0]).whitened()
    for part in white.split(0.5, rng=0):
        assert part.transform is white.transform  # type: ignore[attr-defined]
        assert part.law == Gaussian(0.0, 1.0)


def test_whitening_commutes_with_units(rng: np.random.Generator) -> None:
    x = gaussian_inputs(500, 4, rng=rng) @ conditioned_weights(4, 4, 10.0, rng=rng)
    units = np.array([1e-8, 1.0, 1e3, 1e12])
    one, other = (Samples(scaled, x[:, 0]).whitened().read(0, 500).x for scaled in (x, x * units))
    assert_allclose(one, other, atol=1e-12)


def test_too_few_rows_to_whiten(rng: np.random.Generator) -> None:
    x = gaussian_inputs(5, 5, rng=rng)
    with pytest.raises(TooFewSamples, match="5 samples in dimension 5") as caught:
        Samples(x, x[:, 0]).whitened()
    assert caught.value.values["needed"] == 6


def test_a_constant_column_is_named(rng: np.random.Generator) -> None:
    x = gaussian_inputs(5000, 6, rng=rng)
    x[:, 4] = 1e6 / 3
    with pytest.raises(InvalidInput, match="Column 4 is constant"):
        Samples(x, x[:, 0]).whitened()


def test_dependent_columns_are_named(rng: np.random.Generator) -> None:
    x = gaussian_inputs(5000, 8, rng=rng) * 10.0 ** np.arange(8)
    x[:, 7] = -2.5e4 * x[:, 3] + 1
    with pytest.raises(InvalidInput, match="Columns 3 and 7 are linearly dependent") as caught:
        Samples(x, x[:, 0]).whitened()
    assert caught.value.values["columns"] == [3, 7]


def test_the_shortest_dependence_is_named(rng: np.random.Generator) -> None:
    x = gaussian_inputs(5000, 8, rng=rng)
    x[:, 7] = x[:, 3]
    x[:, 6] = x[:, 0] + x[:, 1] + x[:, 2]
    with pytest.raises(InvalidInput, match=r"Columns 3 and 7 are.*2 in all must go"):
        Samples(x, x[:, 0]).whitened()


def test_draws_follow_the_law(rng: np.random.Generator) -> None:
    mean, root = np.array([1.0, -2.0]), np.array([[2.0, 0.0], [1.0, 0.5]])
    x = Gaussian(mean, root @ root.T).draw(40_000, 2, rng)
    # 5 sigma: sd of a mean is sqrt(cov_ii / n) <= 0.01, of a second moment at most sqrt(2) * 4 / 200 = 0.028
    assert_allclose(x.mean(axis=0), mean, atol=0.05)
    assert_allclose(np.cov(x.T), root @ root.T, atol=0.14)


def test_numbers_stand_for_all_coordinates(rng: np.random.Generator) -> None:
    x = Gaussian(2.0, 9.0).draw(40_000, 2, rng)
    assert_allclose(x.mean(axis=0), 2, atol=5 * 3 / 200)  # 5 sigma; sd of a mean is 3/200
    assert_allclose(np.cov(x.T), 9 * np.eye(2), atol=5 * np.sqrt(2) * 9 / 200)


def test_equal_laws_are_equal() -> None:
    assert Gaussian() == Gaussian() != Gaussian(0.0, 1.0)
    assert Gaussian(np.zeros(2), 1) == Gaussian(np.zeros(2), 1.0)
    assert Gaussian(np.zeros(2)) != Gaussian(np.ones(2))
    assert Symmetric() == Symmetric() != Unknown()
    assert len({Gaussian(), Gaussian(), Symmetric(), Unknown()}) == 3
