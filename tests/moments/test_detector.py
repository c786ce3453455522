"""The pure-neuron detector: every identity to rounding on finite symmetric point sets, where expectations are exact averages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.activations import leaky_relu, relu
from laybare.errors import BudgetExhausted, InvalidInput, TooFewSamples, Unidentifiable
from laybare.moments import (
    detector,
    distinguishing_matrices,
    even_absolute,
    even_quadratic,
    linear_product,
    population_detector,
    smat,
    svec,
)
from laybare.source import Samples

SLOPES = [0.0, 0.1, 0.3, -0.5]


class Case:
    """A symmetric point set with leaky outputs: x and -x are both there, so odd averages vanish exactly."""

    def __init__(self, slope: float, rng: np.random.Generator, *, k: int = 3, d: int = 4, m: int = 3) -> None:
        half = rng.standard_normal((40, d)) * rng.uniform(0.5, 2, d)
        self.x = np.concatenate([half, -half])
        self.W, self.A, self.slope = rng.standard_normal((k, d)), rng.standard_normal((m, k)), slope
        self.y = leaky_relu(slope)(self.x @ self.W.T) @ self.A.T if slope else relu(self.x @ self.W.T) @ self.A.T
        self.source = Samples(self.x, self.y)
        self.L = self.A @ self.W
        self.C = self.x.T @ self.x / len(self.x)

    def pure(self) -> np.ndarray:
        """svec(zzᵀ) for the unit rows z of A⁻¹, one a column."""
        Z = np.linalg.inv(self.A)
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        return svec(Z[:, :, None] * Z[:, None]).T

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """i, j, and (wᵢ·x)(wⱼ·x) 1{signs differ} for all i < j: (points, pairs)."""
        i, j = np.triu_indices(len(self.W), 1)
        t = self.x @ self.W.T
        return i, j, np.minimum(t[:, i] * t[:, j], 0.0)


@pytest.fixture(params=SLOPES, ids=lambda a: f"slope{a}")
def case(request: pytest.FixtureRequest, rng: np.random.Generator) -> Case:
    return Case(request.param, rng)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_parity_identity(case: Case, p: int) -> None:
    """E[s(v·x)^p x^⊗q] = (1+a^p)/2 E[(v·x)^p x^⊗q] for p + q even, p ≥ 1 (Lemma 6; false at p = 0)."""
    t = case.x @ case.W[0]
    s = np.where(t > 0, t, case.slope * t)
    phi = np.ones((len(t), 1)) if p % 2 == 0 else case.x
    assert_allclose((s**p) @ phi, (1 + case.slope**p) / 2 * (t**p) @ phi, atol=1e-10)


def test_linear_product_is_exact(case: Case) -> None:
    assert_allclose(linear_product(case.source, slope=case.slope).product, case.L, rtol=1e-12, atol=1e-12)


def test_even_features_change_nothing_exact(case: Case) -> None:
    for even in (even_quadratic(case.W), even_absolute(case.W)):
        assert_allclose(linear_product(case.source, slope=case.slope, even=even).product, case.L, atol=1e-11)
    assert np.abs(linear_product(case.source, slope=case.slope, even=even_absolute(case.W)).residual).max() < 1e-11


def test_lemma_7(case: Case) -> None:
    """(1+a²)/2 E[ts φ] - E[s(t) s(s) φ] = (1-a)²/2 E[ts 1{ts ≤ 0} φ] for even φ."""
    t, u = case.x @ case.W[0], case.x @ case.W[1]
    a = case.slope
    s, r = np.where(t > 0, t, a * t), np.where(u > 0, u, a * u)
    phi = np.einsum("ni,nj->nij", case.x, case.x)
    left = np.einsum("n,nij->ij", (1 + a * a) / 2 * t * u - s * r, phi)
    assert_allclose(left, (1 - a) ** 2 / 2 * np.einsum("n,nij->ij", np.minimum(t * u, 0), phi), atol=1e-10)


def test_detector_is_the_covariance_of_opposite_pairs(case: Case) -> None:
    """f(U) = (1-a)² Σ_{i<j} (AᵀUA)_ij Cov((wᵢ·x)(wⱼ·x) 1{signs differ}, xxᵀ)."""
    i, j, pairs = case.pairs()
    T = detector(case.source, case.L, slope=case.slope)
    phi = np.einsum("ni,nj->nij", case.x, case.x)
    covariances = np.einsum("np,nij->pij", pairs - pairs.mean(axis=0), phi) / len(case.x)
    for U in smat(np.eye(6)):
        weights = (case.A.T @ U @ case.A)[i, j]
        expected = (1 - case.slope) ** 2 * np.einsum("p,pij->ij", weights, covariances)
        assert_allclose(smat(T @ svec(U)), expected, atol=1e-11)


def test_null_space_is_that_of_the_pure_neurons(case: Case) -> None:
    T = detector(case.source, case.L, slope=case.slope)
    assert np.abs(T @ case.pure()).max() < 1e-12 * np.linalg.norm(T)
    values = np.linalg.svd(T, compute_uv=False)
    assert int((values > 1e-9 * values[0]).sum()) == 6 - 3


def test_null_space_is_exact_on_any_points_given_the_product(rng: np.random.Generator) -> None:
    """Symmetry serves to find L only: on asymmetric points the null space is exact as well."""
    case = Case(0.0, rng)
    x = rng.exponential(size=(50, 4)) - 0.3
    T = detector(Samples(x, relu(x @ case.W.T) @ case.A.T), case.L)
    assert np.abs(T @ case.pure()).max() < 1e-12 * np.linalg.norm(T)


def test_algorithms_2_and_3_of_the_paper(rng: np.random.Generator) -> None:
    """f(u) = 2E[(u·y)(u·Bx) xxᵀ] - E[(u·y)² xxᵀ] (+ (E[(u·y)²] - 2uᵀBCBᵀu) C) = Σ (AᵀuuᵀA)_ij N_ij (- m_ij C), a = 0."""
    case = Case(0.0, rng)
    x, y, n = case.x, case.y, len(case.x)
    B = y.T @ x @ np.linalg.inv(x.T @ x)
    i, j, pairs = case.pairs()
    N, m = np.einsum("np,ni,nj->pij", pairs, x, x) / n, pairs.mean(axis=0)
    T = detector(case.source, case.L)
    for u in rng.standard_normal((5, 3)):
        uy, ux = y @ u, x @ (B.T @ u)
        second = np.einsum("n,ni,nj->ij", 2 * uy * ux - uy**2, x, x) / n
        third = second + (np.mean(uy**2) - 2 * u @ B @ case.C @ B.T @ u) * case.C
        weights = np.outer(case.A.T @ u, case.A.T @ u)[i, j]
        assert_allclose(second, np.einsum("p,pij->ij", weights, N), atol=1e-11)
        assert_allclose(third, np.einsum("p,pij->ij", weights, N - m[:, None, None] * case.C), atol=1e-11)
        assert_allclose(smat(T @ svec(np.outer(u, u))), third, atol=1e-11)


def test_leaky_detector_is_a_multiple_of_that_of_relu(case: Case) -> None:
    plain = relu(case.x @ case.W.T) @ case.A.T
    assert_allclose(
        detector(case.source, case.L, slope=case.slope),
        (1 - case.slope) ** 2 * detector(Samples(case.x, plain), case.L), atol=1e-11)


def test_row_space_coordinates_restrict_the_test_functions(rng: np.random.Generator) -> None:
    case = Case(0.0, rng)
    rows = np.linalg.qr(case.W.T)[0].T
    T, full = detector(case.source, case.L, rows=rows), detector(case.source, case.L)
    assert T.shape == (6, 6)
    for U in smat(np.eye(6)):
        assert_allclose(smat(T @ svec(U)), rows @ smat(full @ svec(U)) @ rows.T, atol=1e-11)
    assert np.abs(T @ case.pure()).max() < 1e-12 * np.linalg.norm(T)


def test_independent_noise_is_removed_by_centring(rng: np.random.Generator) -> None:
    """Every point once with noise +s and once with -s: independent noise on a finite set, and T does not move."""
    case = Case(0.0, rng)
    s = np.array([1.0, -2.0, 0.5])
    noisy = Samples(np.concatenate([case.x, case.x]), np.concatenate([case.y + s, case.y - s]))
    assert_allclose(detector(noisy, case.L), detector(case.source, case.L), atol=1e-11)


def test_more_outputs_than_units(rng: np.random.Generator) -> None:
    """Outputs beyond the column space of A add null vectors: rank K - k stays k(k-1)/2."""
    case = Case(0.0, rng, k=3, d=4, m=5)
    values = np.linalg.svd(detector(case.source, case.L), compute_uv=False)
    assert int((values > 1e-9 * values[0]).sum()) == 3


def test_distinguishing_matrices_against_polar_quadrature(rng: np.random.Generator) -> None:
    """In the plane of two weights E over the radius is exact (E r⁴ = 8, E r² = 2) and the angle is integrated on each wedge."""
    W = rng.standard_normal((2, 2))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    edges = np.sort(np.concatenate([np.arctan2(-W[:, 0], W[:, 1]), np.arctan2(W[:, 0], -W[:, 1])]))
    edges = np.append(edges, edges[0] + 2 * np.pi)
    N, m = np.zeros((2, 2)), 0.0
    for low, high in pairwise(edges):
        angle, share = (high + low) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights / (2 * np.pi)
        u = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        f = np.minimum((u @ W[0]) * (u @ W[1]), 0)
        N += 8 * np.einsum("n,ni,nj->ij", share * f, u, u)
        m += 2 * np.sum(share * f)
    assert_allclose(distinguishing_matrices(W)[0], N - m * np.eye(2), atol=1e-12)


def test_detector_tends_to_the_population(rng: np.random.Generator) -> None:
    W, A = rng.standard_normal((3, 4)), rng.standard_normal((3, 3))
    x = rng.standard_normal((200_000, 4))
    T = detector(Samples(x, leaky_relu(0.2)(x @ W.T) @ A.T), A @ W, slope=0.2)
    truth = population_detector(W, A, slope=0.2)
    # relative error .013 with sd .0037 over 20 seeds, 4 sigma allowed
    assert np.linalg.norm(T - truth) < (0.013 + 4 * 0.0037) * np.linalg.norm(truth)
    Z = np.linalg.inv(A)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    assert np.abs(truth @ svec(Z[:, :, None] * Z[:, None]).T).max() < 1e-13 * np.linalg.norm(truth)


def test_even_control_makes_the_product_sharper(rng: np.random.Generator) -> None:
    """n = 10,000, 6 units: the error of L falls with each better even feature, to rounding with the true |Wx|."""
    W, A = np.linalg.qr(rng.standard_normal((6, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
    x = rng.standard_normal((10_000, 6))
    source = Samples(x, relu(x @ W.T) @ A.T)
    plain, quadratic, absolute = (
        np.linalg.norm(linear_product(source, **kind).product - A @ W)
        for kind in ({}, {"even": even_quadratic(np.eye(6))}, {"even": even_absolute(W)}))
    assert quadratic < 0.5 * plain  # variance of |t| falls from .363 to .045: a factor .35 in the error
    assert absolute < 1e-11


def test_refusals(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((30, 10)), rng.standard_normal((30, 8)))
    with pytest.raises(Unidentifiable, match="even"):
        linear_product(source, slope=-1.0)
    with pytest.raises(InvalidInput, match="slope is nan"):
        linear_product(source, slope=float("nan"))
    with pytest.raises(TooFewSamples, match="66 features"):
        linear_product(source, even=even_quadratic(np.eye(10)))
    with pytest.raises(BudgetExhausted, match=r"detector of 8 outputs in 10 coordinates would take 63\.4 kB"):
        detector(source, np.zeros((8, 10)), memory=1000)
