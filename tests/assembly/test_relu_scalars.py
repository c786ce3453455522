"""Readouts, biases and signs of ReLU units from exact moments: the identities of the paper, to rounding."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import eval_hermitenorm

import laybare as lb
from laybare.assembly.sign_decoding import absorb_linear
from laybare.assembly.unit_scalars import Scalars, fix_signs, hermite_loadings, recover_scalars, scalars_by_recurrence
from laybare.moments import population_moments

BIASES = np.array([0.0, 1.0, -1.0, np.sqrt(3.0), -0.3, 0.742, 2.1, -2.5])
"""Roots of He₁, He₂, He₃ and He₄ (0.742), and others."""


@pytest.mark.parametrize("first", range(5))
def test_recurrence_inverts_the_coefficients(first: int) -> None:
    """Lemma 4.5, also from k = 0 on: γ_j = (-1)^j a φ(b) He_j(b), j = k, …, k+3, give (a, b) back."""
    a = np.linspace(-1.5, 1.5, len(BIASES))
    density = np.exp(-0.5 * BIASES**2) / np.sqrt(2 * np.pi)
    gammas = [(-1) ** j * a * density * eval_hermitenorm(j, BIASES) for j in range(first, first + 4)]
    found = scalars_by_recurrence(gammas, first)
    assert_allclose(found.biases, BIASES, atol=1e-12)
    assert_allclose(found.readout, a, rtol=1e-11)


def planted(dim: int, width: int, rng: np.random.Generator) -> tuple[lb.Network, np.ndarray, np.ndarray]:
    """A network, its directions turned over at random, and the signs that turn them back."""
    truth = lb.random_network(dim, width, biases=1.5, readout="random", rng=rng)
    signs = rng.choice([-1.0, 1.0], width)
    return truth, signs[:, None] * truth.layer.weights, signs


@pytest.mark.parametrize(("order", "dim", "width"), [(1, 6, 6), (2, 5, 10), (3, 4, 14)])
def test_scalars_belong_to_the_directions_as_given(order: int, dim: int, width: int, rng: np.random.Generator) -> None:
    truth, directions, signs = planted(dim, width, rng)
    found = recover_scalars(population_moments(truth, 2 * order + 2), directions, order)
    assert_allclose(found.readout, truth.readout, atol=1e-10)
    assert_allclose(found.biases, signs * truth.layer.biases, atol=1e-10)


@pytest.mark.parametrize("centred", [False, True])
def test_signs_of_at_most_as_many_units_as_inputs(centred: bool, rng: np.random.Generator) -> None:
    truth, directions, signs = planted(7, 7, rng)
    scalars = Scalars(truth.readout, signs * truth.layer.biases)
    assert_array_equal(fix_signs(population_moments(truth, 1), directions, scalars, centred=centred), signs)


def test_order_zero_allows_one_unit_more(rng: np.random.Generator) -> None:
    truth, directions, signs = planted(5, 6, rng)
    scalars = Scalars(truth.readout, signs * truth.layer.biases)
    assert_array_equal(fix_signs(population_moments(truth, 1), directions, scalars), signs)


def test_centred_signs_stand_more_noise() -> None:
    """Biases ±1.5: the printed margin is Φ(-1.5) = 0.07, the centred one 1/2. Errors in order 1 of 5 % of its size, 200 draws."""
    wrong = {False: 0, True: 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth, directions, signs = planted(6, 6, rng)
        biases = 1.5 * np.sign(truth.layer.biases)
        truth = lb.Network(lb.Layer(truth.layer.weights, biases), truth.readout)
        exact = population_moments(truth, 1)
        noise = exact * 0.0 + exact * 0.0
        noise.values[:, 1:] = 0.05 * np.linalg.norm(exact.of(1)) * rng.standard_normal((1, 6)) / np.sqrt(6)
        for centred in wrong:
            found = fix_signs(exact + noise, directions, Scalars(truth.readout, signs * biases), centred=centred)
            wrong[centred] += int(np.sum(found != signs))
    assert wrong[True] < wrong[False] / 2


@pytest.mark.parametrize("k", range(1, 9))
def test_neighbouring_hermite_polynomials_have_no_common_root(k: int) -> None:
    """Lemma 4.3 as its proof has it (orders k+1 and k+2); the printed orders k and k+1 do not obey the bound √(k!/2)."""
    z, bound = np.linspace(-6, 6, 200_001), np.sqrt(factorial(k) / 2)
    He = [np.abs(eval_hermitenorm(j, z)) for j in range(k, k + 3)]
    assert np.maximum(He[1], He[2]).min() >= bound
    assert np.maximum(He[0], He[1]).min() < bound


def test_loadings_are_the_coefficients_of_the_powers(rng: np.random.Generator) -> None:
    truth = lb.random_network(4, 5, outputs=3, biases=1.0, rng=rng)
    for order in (2, 3, 4):
        expected = lb.relu.hermite(order, 1.0, truth.layer.biases)[:, None] * truth.readout / np.sqrt(factorial(order))
        assert_allclose(hermite_loadings(population_moments(truth, 4), truth.layer.weights, order), expected, atol=1e-12)


def test_two_units_replace_a_linear_part(rng: np.random.Generator) -> None:
    """Claim D.14."""
    net = lb.random_network(4, 3, rng=rng)
    net = lb.Network(net.layer, net.readout, 0.3, rng.standard_normal(4))
    merged, x = absorb_linear(net), rng.standard_normal((50, 4))
    assert merged.width == 5 and merged.linear is None
    assert_allclose(merged(x), net(x), atol=1e-13)
