"""Contracted and projected moments equal contractions of the dense tensors, for several outputs."""

from __future__ import annotations

import numpy as np
import pytest
from dense_moments import dense_moment, draw, random_net, rotate, slope
from numpy.testing import assert_allclose

from laybare.activations import softplus
from laybare.errors import BudgetExhausted
from laybare.moments import (
    PackedQuartic,
    Quartic,
    fourth_slices,
    packed_moments,
    population_moments,
    projected_tensors,
    quartic,
    second_moment,
    third_slices,
)
from laybare.source import Samples

D = 4


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs that are not even Gaussian: the identities are about sums, not about laws."""
    return rng.standard_normal((300, D)) + 0.3, rng.standard_normal((300, 2)) + 1.0


def test_second_moment(data: tuple[np.ndarray, np.ndarray]) -> None:
    assert_allclose(second_moment(Samples(*data)), dense_moment(*data, 2), atol=1e-12)


def test_third_slices(data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, D))
    expected = np.einsum("oijk,sk->osij", dense_moment(*data, 3), a)
    assert_allclose(third_slices(Samples(*data), a), expected, atol=1e-12)


def test_fourth_slices(data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, D))
    expected = np.einsum("oijkl,sk,sl->osij", dense_moment(*data, 4), a, a)
    assert_allclose(fourth_slices(Samples(*data), a), expected, atol=1e-11)


@pytest.mark.parametrize("columns", [2, 4, 6])
def test_projected_tensors_for_columns_that_are_not_orthonormal(
    columns: int, data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    V = rng.standard_normal((D, columns))
    V[:, 0] = 2 * V[:, 1]  # not even independent
    for order, found in enumerate(projected_tensors(Samples(*data), V)):
        assert_allclose(found, rotate(dense_moment(*data, order), V, order), atol=1e-10)


def test_projected_tensors_equal_the_pairing_formula(data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
    """T4 = mean r yyyy - Σ pairings (S2 G + G S2) + S0 Σ pairings G G with G = VᵀV (digest of the threshold method, 9.1)."""
    x, y = data
    V = rng.standard_normal((D, 3))
    z, r, G, n = x @ V, y[:, 0], V.T @ V, len(x)
    S0, m, S2 = r.mean(), z.T @ r / n, z.T @ (r[:, None] * z) / n
    third = np.einsum("n,na,nb,nc->abc", r, z, z, z) / n - (
        np.einsum("a,bc->abc", m, G) + np.einsum("b,ac->abc", m, G) + np.einsum("c,ab->abc", m, G))
    fourth = np.einsum("n,na,nb,nc,nd->abcd", r, z, z, z, z) / n
    for spec in ("ab,cd->abcd", "ac,bd->abcd", "ad,bc->abcd"):
        fourth += S0 * np.einsum(spec, G, G) - np.einsum(spec, S2, G) - np.einsum(spec, G, S2)
    found = projected_tensors(Samples(x, y), V)
    assert_allclose(found[3][0], third, atol=1e-11)
    assert_allclose(found[4][0], fourth, atol=1e-11)


@pytest.mark.parametrize("kind", ["passes", "packed"])
def test_quartic_contractions(kind: str, data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
    source, dense = Samples(*data), dense_moment(*data, 4)
    T: Quartic | PackedQuartic = quartic(source) if kind == "passes" else PackedQuartic.of(packed_moments(source, 4))
    S, B, V = rng.standard_normal((D, D)), rng.standard_normal((3, D)), rng.standard_normal((3, D))
    S = S + S.T
    assert_allclose(T.contract(S), np.einsum("oijkl,kl->oij", dense, S), atol=1e-11)
    assert_allclose(T.cubes(B), np.einsum("oijkl,rj,rk,rl->ori", dense, B, B, B), atol=1e-11)
    assert_allclose(T.squares(B, V), np.einsum("oijkl,rj,rk,rl->ori", dense, B, B, V), atol=1e-11)
    assert_allclose(T.mixed(S, B), np.einsum("oijkl,kl,rj->ori", dense, S, B), atol=1e-11)


def test_contractions_turn_with_the_inputs(data: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> None:
    x, y = data
    Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
    a = rng.standard_normal((2, D))
    for slices in (third_slices, fourth_slices):
        assert_allclose(slices(Samples(x @ Q, y), a @ Q), Q.T @ slices(Samples(x, y), a) @ Q, atol=1e-11)


def test_error_of_the_fourth_slice_shrinks_like_root_n() -> None:
    """n = 2^10 … 2^16, 6 seeds: slope -0.5; sd 0.031 over 24 seed blocks, 4 sigma allowed."""
    network = random_net(5, 4, np.random.default_rng(3), softplus)
    a = np.ones((1, 5)) / np.sqrt(5)
    truth = np.einsum("oijkl,rk,rl->orij", population_moments(network, 4).tensor(4), a, a)
    sizes = [1 << k for k in range(10, 17)]
    errors = [
        np.sqrt(np.mean([
            np.square(fourth_slices(draw(network, 5, n, np.random.default_rng((n, seed))), a) - truth).sum()
            for seed in range(6)])) for n in sizes]
    assert abs(slope(sizes, errors) + 0.5) < 4 * 0.031


def test_slices_and_projections_that_do_not_fit_are_refused(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((10, 60)), rng.standard_normal(10))
    with pytest.raises(BudgetExhausted, match="20 slices of 60 x 60 numbers would take 576 kB"):
        third_slices(source, rng.standard_normal((20, 60)), memory=1000)
    with pytest.raises(BudgetExhausted, match="Give fewer inputs"):
        second_moment(source, memory=1000)
    with pytest.raises(BudgetExhausted, match="stay with slices"):
        projected_tensors(source, rng.standard_normal((60, 8)), memory=32_000)
