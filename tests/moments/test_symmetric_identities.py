"""Every identity behind SymmetricInputs to 1e-12, on finite symmetric point sets, where expectations are plain averages.

Numbers are those of the paper (Ge, Kuditipudi, Li and Wang 2019); slopes other than zero are ours.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.moments import detector, smat, svec, svec_products
from laybare.source import Samples

SLOPES = [0.0, 0.1, 0.3, -0.5, -2.0, 3.0]
TIGHT = 1e-12


def leaky(t: np.ndarray, a: float) -> np.ndarray:
    return np.where(t > 0, t, a * t)


class Case:
    """k units, d inputs, m outputs, 60 points and their negations; sizes of order one, so that 1e-12 is relative."""

    def __init__(self, slope: float, rng: np.random.Generator, k: int = 3, d: int = 4, m: int = 3) -> None:
        half = rng.standard_normal((60, d)) * rng.uniform(0.5, 1.5, d)
        self.x, self.a = np.concatenate([half, -half]), slope
        self.W = rng.standard_normal((k, d))
        self.W /= np.linalg.norm(self.W, axis=1, keepdims=True)
        self.A = np.linalg.qr(rng.standard_normal((m, k)))[0] * rng.uniform(0.5, 1.5, k)
        self.t = self.x @ self.W.T
        self.y = leaky(self.t, slope) @ self.A.T
        self.L, self.n = self.A @ self.W, len(self.x)
        self.C = self.x.T @ self.x / self.n
        self.B = self.y.T @ self.x / self.n @ np.linalg.inv(self.C)

    @property
    def opposite(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """i, j, p_ij(x) = (wᵢ·x)(wⱼ·x) 1{signs differ}."""
        i, j = np.triu_indices(len(self.W), 1)
        return i, j, np.minimum(self.t[:, i] * self.t[:, j], 0.0)

    def mean(self, *factors: np.ndarray) -> np.ndarray:
        """E[f g … xxᵀ]."""
        return np.einsum("n,ni,nj->ij", np.prod(factors, axis=0), self.x, self.x) / self.n


@pytest.fixture(params=SLOPES, ids=lambda a: f"slope{a}")
def case(request: pytest.FixtureRequest, rng: np.random.Generator) -> Case:
    return Case(request.param, rng)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 3), (2, 0), (2, 2), (3, 1), (3, 3), (4, 0), (4, 2)])
def test_parity_identity(case: Case, p: int, q: int) -> None:
    """Lemma 6: E[s(v·x)^p x^⊗q] = (1+a^p)/2 E[(v·x)^p x^⊗q] for p + q even and p ≥ 1."""
    t = case.t[:, 0]
    power = np.ones((case.n, 1))
    for _ in range(q):
        power = (power[:, :, None] * case.x[:, None]).reshape(case.n, -1)
    left, right = leaky(t, case.a) ** p @ power / case.n, (1 + case.a**p) / 2 * t**p @ power / case.n
    assert_allclose(left, right, atol=TIGHT * (1 + np.abs(right).max()))


def test_parity_identity_is_false_without_a_power(rng: np.random.Generator) -> None:
    """The paper says non-negative p; at p = 0 the left is E[x^⊗q], not its half."""
    case = Case(0.0, rng)
    assert_allclose(case.mean(leaky(case.t[:, 0], 0.0) ** 0), case.C, rtol=TIGHT)


def test_leaky_relu_is_a_line_and_an_absolute_value(case: Case) -> None:
    a, t = case.a, case.t
    assert_allclose(leaky(t, a), (1 + a) / 2 * t + (1 - a) / 2 * np.abs(t), atol=TIGHT)


def test_product_of_the_layers(case: Case) -> None:
    """Lemma 1 for several outputs: E[yxᵀ] = (1+a)/2 AWC."""
    assert_allclose(case.y.T @ case.x / case.n, (1 + case.a) / 2 * case.L @ case.C, atol=TIGHT)
    assert_allclose(2 / (1 + case.a) * case.B, case.L, atol=TIGHT)


@pytest.mark.parametrize("order", [0, 2])
def test_lemma_7(case: Case, order: int) -> None:
    """(1+a²)/2 E[ts φ] - E[s(t)s(s) φ] = (1-a)²/2 E[ts 1{ts ≤ 0} φ] for φ = 1 and xxᵀ."""
    a, (t, s) = case.a, case.t.T[:2]

    def average(f: np.ndarray) -> np.ndarray:
        return np.asarray(f.mean()) if order == 0 else case.mean(f)

    left = (1 + a * a) / 2 * average(t * s) - average(leaky(t, a) * leaky(s, a))
    right = (1 - a) ** 2 / 2 * average(np.minimum(t * s, 0.0))
    assert_allclose(left, right, atol=TIGHT * (1 + a * a))


def test_lemma_2(rng: np.random.Generator) -> None:
    """One unit: E[y²] = 2E[yxᵀ]C⁻¹E[yx]; several: what is left is Σ cᵢcⱼ m_ij."""
    case = Case(0.0, rng)
    i, j, p = case.opposite
    u = rng.standard_normal(3)
    c, y = case.A.T @ u, case.y @ u
    cross = case.x.T @ y / case.n
    gap = 2 * cross @ np.linalg.solve(case.C, cross) - np.mean(y**2)
    assert_allclose(gap, (c[i] * c[j]) @ p.mean(axis=0), atol=TIGHT)


def test_detectors_of_algorithms_2_and_3(rng: np.random.Generator) -> None:
    """Lemmas 3 and 9 (with its bracket): Σ (AᵀuuᵀA)_ij N_ij, and the same with N_ij - m_ij C."""
    case = Case(0.0, rng)
    i, j, p = case.opposite
    for u in rng.standard_normal((5, 3)):
        c, uy, ux = case.A.T @ u, case.y @ u, case.x @ (case.B.T @ u)
        second = 2 * case.mean(uy, ux) - case.mean(uy**2)
        assert_allclose(second, sum(c[s] * c[t] * case.mean(q) for s, t, q in zip(i, j, p.T, strict=True)), atol=TIGHT * 10)
        third = second + (np.mean(uy**2) - 2 * u @ case.B @ case.C @ case.B.T @ u) * case.C
        wanted = sum(c[s] * c[t] * (case.mean(q) - q.mean() * case.C) for s, t, q in zip(i, j, p.T, strict=True))
        assert_allclose(third, wanted, atol=TIGHT * 10)


def test_leaky_detector_from_moments_alone(case: Case) -> None:
    """Coefficient 2 becomes 2(1+a²)/(1+a)² in both places; the value is (1-a)² Σ (AᵀuuᵀA)_ij (N_ij - m_ij C)."""
    a = case.a
    factor = 2 * (1 + a * a) / (1 + a) ** 2
    i, j, p = case.opposite
    u = np.array([0.5, -1.0, 0.7])
    c, uy, ux = case.A.T @ u, case.y @ u, case.x @ (case.B.T @ u)
    found = factor * case.mean(uy, ux) - case.mean(uy**2)
    found = found + (np.mean(uy**2) - factor * u @ case.B @ case.C @ case.B.T @ u) * case.C
    wanted = (1 - a) ** 2 * sum(c[s] * c[t] * (case.mean(q) - q.mean() * case.C) for s, t, q in zip(i, j, p.T, strict=True))
    assert_allclose(found, wanted, atol=TIGHT * 10 * (1 + a * a) ** 2)


def test_centred_form_pointwise(case: Case) -> None:
    """r_U = ((1-a)/2)² (Lx)ᵀU(Lx) - eᵀUe = -(y-Lx)ᵀU(y-aLx) = (1-a)² Σ (AᵀUA)_ij p_ij at every point."""
    a, U = case.a, smat(np.arange(6.0) / 6 - 0.4)
    lx = case.x @ case.L.T
    e = case.y - (1 + a) / 2 * lx
    i, j, p = case.opposite
    one = ((1 - a) / 2) ** 2 * np.einsum("ni,ij,nj->n", lx, U, lx) - np.einsum("ni,ij,nj->n", e, U, e)
    two = -np.einsum("ni,ij,nj->n", case.y - lx, U, case.y - a * lx)
    three = (1 - a) ** 2 * p @ (case.A.T @ U @ case.A)[i, j]
    size = TIGHT * 10 * (1 + a * a)
    assert_allclose(one, two, atol=size)
    assert_allclose(two, three, atol=size)
    assert_allclose(e, (1 - a) / 2 * np.abs(case.t) @ case.A.T, atol=TIGHT * (1 + abs(a)))


def test_detector_is_a_covariance(case: Case) -> None:
    """f(U) = Cov(r_U, xxᵀ) is what `detector` measures, and a multiple (1-a)² of that of ReLU."""
    U = smat(np.arange(6.0) / 6 - 0.4)
    T = detector(Samples(case.x, case.y), case.L, slope=case.a)
    i, j, p = case.opposite
    r = (1 - case.a) ** 2 * p @ (case.A.T @ U @ case.A)[i, j]
    assert_allclose(smat(T @ svec(U)), case.mean(r - r.mean()), atol=TIGHT * 10 * (1 + case.a**2))


def test_svec_and_vec_have_the_same_singular_values(rng: np.random.Generator) -> None:
    """2.4: rows in svec or in vec; ⟨svec(xxᵀ), svec(U)⟩ = xᵀUx; unscaled vec* has the same null space, k-dimensional."""
    case = Case(0.0, rng)
    T = detector(Samples(case.x, case.y), case.L)
    full = np.stack([smat(column).ravel() for column in T.T], axis=1)
    assert_allclose(np.linalg.svd(full, compute_uv=False), np.linalg.svd(T, compute_uv=False), atol=TIGHT)
    U, x = smat(rng.standard_normal(6)), rng.standard_normal(3)
    assert_allclose(svec(np.outer(x, x)) @ svec(U), x @ U @ x, atol=TIGHT)
    Z = np.linalg.inv(case.A)
    pure = svec(Z[:, :, None] * Z[:, None]).T
    assert np.abs(T @ pure).max() < TIGHT
    assert np.linalg.matrix_rank(T, tol=1e-10) == 3
    assert_allclose(svec_products(x[None], x[None])[0], svec(np.outer(x, x)), atol=TIGHT)


def test_every_finite_sample_has_the_null_space(rng: np.random.Generator) -> None:
    """Given L, symmetry is not needed, and any test functions do: here x and x³ on exponential points."""
    case = Case(0.3, rng)
    x = rng.exponential(size=(40, 4))
    t = x @ case.W.T
    y, lx, Z = leaky(t, 0.3) @ case.A.T, t @ case.A.T, np.linalg.inv(case.A)
    for z in Z:
        r = -((y - lx) @ z) * ((y - 0.3 * lx) @ z)
        assert np.abs(np.concatenate([r @ x, r @ x**3])).max() < TIGHT * 100


def test_even_and_odd_parts_of_pairs(case: Case) -> None:
    """y(x) - y(-x) = (1+a) AWx, y(x) + y(-x) = (1-a) A|Wx|, point by point."""
    above, below = case.y[:60], case.y[60:]
    assert_allclose(above - below, (1 + case.a) * case.t[:60] @ case.A.T, atol=TIGHT)
    assert_allclose(above + below, (1 - case.a) * np.abs(case.t[:60]) @ case.A.T, atol=TIGHT)


def test_annihilator_relation(case: Case) -> None:
    """(z·y - v·x)(z·y - a v·x) = 0 at every sample."""
    Z = np.linalg.inv(case.A)
    pure = case.y @ Z.T
    assert np.abs((pure - case.t) * (pure - case.a * case.t)).max() < TIGHT * (1 + case.a**2)
