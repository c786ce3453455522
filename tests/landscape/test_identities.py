"""The formulas that everything rests on, each against an independent computation; and the misprints that were corrected."""

from __future__ import annotations

from math import factorial, pi, sqrt

import numpy as np
import pytest
from dense_moments import dense_moment, gauss_points, hermite_tensor
from landscapes import drawn, objectives, some_point, tangent_eigenvalues, teacher
from numpy.polynomial.legendre import leggauss
from numpy.testing import assert_allclose

import laybare as lb
from laybare.landscape import (
    DesignParameters,
    NormPenalty,
    ReLURisk,
    SampledPenalty,
    SampledRisk,
    Teacher,
    algorithm_1,
    algorithm_2,
    coefficient,
    corrected_readout,
    even_response,
    from_inverse,
    general_design,
    orthogonal_design,
    pairs_on_spheres,
    population_f,
    population_g,
    population_tensor_risk,
    series_risk,
    tensor_risk,
    trust_region,
)
from laybare.landscape.objective import RankOneQuartic
from laybare.moments import quartic, second_moment
from laybare.networks import landscape_error, unsigned_error
from laybare.numerics.shapes import Array

EXACT = 1e-8


def phi(v: Array, x: Array) -> Array:
    """Equation (2.8)."""
    along, norm = x @ v, v @ v
    return norm**2 / 8 - along**2 * norm / 4 + along**4 / 24


def phi_pair(v: Array, w: Array, x: Array, mixed: float = -2.0) -> Array:
    """Equation (2.9) with the mixed term's factor: -2 as in equation (A.6), +2 as printed."""
    p, q = x @ v, x @ w
    norms = (v @ v) * (w @ w) / 2 + (v @ w) ** 2
    return norms - (w @ w) * p**2 / 2 - (v @ v) * q**2 / 2 + mixed * p * q * (v @ w) + p**2 * q**2 / 2


def test_relu_coefficients() -> None:
    """s_k = (-1)^(k/2-1) (k-3)!!/√(2πk!); the footnote lacks the sign."""
    assert_allclose([coefficient(lb.relu, k) for k in (0, 1, 3, 5)], [1 / sqrt(2 * pi), 0.5, 0, 0], atol=1e-15)
    for k, odd in ((2, 1), (4, 1), (6, 3), (8, 15), (10, 105)):
        assert_allclose(coefficient(lb.relu, k), (-1) ** (k // 2 - 1) * odd / sqrt(2 * pi * factorial(k)), rtol=1e-12)


@pytest.mark.parametrize(
    ("activation", "values"),
    [(lb.absolute, (0.7979, 0, 0.5642, 0, -0.1629)), (lb.softplus, (0.8061, 0.5, 0.1461, 0, -0.01274)),
     (lb.gelu, (0.2821, 0.5, 0.2992, 0, -0.07198)), (lb.sigmoid, (0.5, 0.2066, 0, -0.0255, 0)),
     (lb.tanh, (0, 0.6057, 0, -0.1484, 0))], ids=lambda value: getattr(value, "name", None))
def test_other_coefficients(activation: lb.Activation, values: tuple[float, ...]) -> None:
    assert_allclose([coefficient(activation, k) for k in range(5)], values, atol=1e-4)


def test_relu_kernel_by_quadrature(rng: np.random.Generator) -> None:
    """E[relu(w·x) relu(v·x)] = |w||v|/π ∫ relu(cos φ) relu(cos(φ - θ)) dφ: the product is smooth on one interval."""
    truth = teacher(3, 2, rng)
    nodes, weights = leggauss(40)
    cosine = truth.directions @ truth.directions.T
    expected = np.empty((2, 2))
    for i in range(2):
        for j in range(2):
            angle = np.arccos(np.clip(cosine[i, j], -1, 1))
            low, high = angle - pi / 2, pi / 2
            at = (high - low) / 2 * nodes + (high + low) / 2
            expected[i, j] = (high - low) / 2 * weights @ (np.cos(at) * np.cos(at - angle)) / pi
    a = truth.readout
    zero = Teacher(np.zeros(2), truth.directions, lb.relu)
    risk = ReLURisk(zero).value_and_gradient(a[:, None] * truth.directions).value
    assert_allclose(risk, a @ expected @ a, atol=EXACT)


def test_series_tends_to_the_relu_kernel(rng: np.random.Generator) -> None:
    """What the series leaves out beyond order K is below Σ_{k>K} s_k² (Σa + Σa*)²."""
    truth = teacher(4, 4, rng, orthonormal=True, ratio=2.0)
    rows = teacher(4, 4, rng).directions
    a = np.array([0.5, 1.0, 1.5, 2.0])
    exact = ReLURisk(truth).value_and_gradient(a[:, None] * rows).value
    point = np.column_stack([a, rows])
    for orders in (20, 80):
        tail = 0.5 - sum(coefficient(lb.relu, k) ** 2 for k in range(orders + 1))
        value = series_risk(truth, orders).value_and_gradient(point).value
        assert abs(value - exact) < tail * (a.sum() + truth.readout.sum()) ** 2


def test_series_risk_by_quadrature(rng: np.random.Generator) -> None:
    """Theorem A.4 with GELU for teacher and student, two dimensions, 60 nodes each."""
    truth = teacher(2, 2, rng, activation=lb.gelu)
    x, weights = gauss_points(2, 60)
    rows, a = teacher(2, 2, rng).directions, np.array([0.7, 1.3])
    y = lb.gelu(x @ truth.directions.T) @ truth.readout
    expected = weights @ (y - lb.gelu(x @ rows.T) @ a) ** 2
    assert_allclose(series_risk(truth, 60).value_and_gradient(np.column_stack([a, rows])).value, expected, atol=EXACT)


def test_tensor_risk_decomposes_two_tensors(rng: np.random.Generator) -> None:
    """Theorem 2.2: f′ = σ₂²|T₂ - Σ a b²|² + σ₄²|T₄ - Σ a b⁴|², here with dense tensors, and the risk of γ = σ₂h₂ + σ₄h₄."""
    truth = teacher(3, 3, rng)
    a, B = np.array([0.5, 1.0, -0.2]), teacher(3, 3, rng).directions
    low, high = coefficient(lb.relu, 2), coefficient(lb.relu, 4)

    def tensors(readout: Array, rows: Array) -> tuple[Array, Array]:
        return (np.einsum("i,ia,ib->ab", readout, rows, rows),
                np.einsum("i,ia,ib,ic,id->abcd", readout, rows, rows, rows, rows))

    (T2, T4), (S2, S4) = tensors(truth.readout, truth.directions), tensors(a, B)
    expected = low**2 * np.sum((T2 - S2) ** 2) + high**2 * np.sum((T4 - S4) ** 2)
    point = np.column_stack([a, B])
    assert_allclose(population_tensor_risk(truth).value_and_gradient(point).value, expected, atol=1e-12)
    K = truth.directions @ truth.directions.T
    others = sum(coefficient(lb.relu, k) ** 2 * truth.readout @ K**k @ truth.readout for k in range(41) if k not in (2, 4))
    assert_allclose(series_risk(truth, 40, keep=(2, 4)).value_and_gradient(point).value, expected + others, atol=1e-10)


def test_tensor_risk_of_a_batch_is_its_squared_loss(rng: np.random.Generator) -> None:
    """(2.5) over all samples, and in the moments of the same samples: equal up to E y² and the sampled norms of γ."""
    truth = teacher(3, 3, rng, activation=lb.gelu)
    x, weights = gauss_points(3, 24)
    y = lb.gelu(x @ truth.directions.T) @ truth.readout
    a, B = np.array([0.5, 1.0, 0.8]), teacher(3, 3, rng).directions
    response = even_response(lb.gelu)
    risk = weights @ (y - response.value(x @ B.T) @ a) ** 2
    moments = [np.einsum("n,n,n...->...", weights, y, hermite_tensor(x, k)) for k in (2, 4)]
    Dense = RankOneQuartic(float(lb.gelu.hermite(4)) * truth.readout, truth.directions)
    assert_allclose(moments[1], np.einsum("i,ia,ib,ic,id->abcd", Dense.weights, *[Dense.directions] * 4), atol=EXACT)
    f = tensor_risk(moments[0], Dense, lb.gelu, 3).value_and_gradient(np.column_stack([a, B])).value
    assert_allclose(f, risk - weights @ y**2, atol=EXACT)


def test_phi_are_fourth_order(rng: np.random.Generator) -> None:
    x, weights = gauss_points(3, 12)
    v, w = rng.standard_normal((2, 3))
    He4 = hermite_tensor(x, 4)
    assert_allclose(phi(v, x), np.einsum("nijkl,i,j,k,l->n", He4, v, v, v, v) / 24, atol=1e-9)
    assert_allclose(phi_pair(v, w, x), np.einsum("nijkl,i,j,k,l->n", He4, v, v, w, w) / 2, atol=1e-9)
    for order in (0, 1, 2, 3, 5, 6):
        mean = np.einsum("n,n,n...->...", weights, phi_pair(v, w, x), hermite_tensor(x, order))
        assert_allclose(mean, 0.0, atol=1e-9)


def test_printed_sign_of_the_mixed_term_is_wrong(rng: np.random.Generator) -> None:
    x, weights = gauss_points(3, 12)
    v, w = rng.standard_normal((2, 3))
    printed = phi_pair(v, w, x, mixed=2.0)
    assert abs(weights @ printed) > 0.01
    assert np.abs(np.einsum("n,n,nij->ij", weights, printed, hermite_tensor(x, 2))).max() > 0.01


def test_constants_of_phi(rng: np.random.Generator) -> None:
    """E[y phi(v)] = σ₄/(2√6) Σ a⟨b, v⟩⁴ and E[y phi(v, w)] = √6 σ₄ Σ a⟨b, v⟩²⟨b, w⟩²: half of what is printed."""
    truth = teacher(3, 2, rng, activation=lb.gelu)
    x, weights = gauss_points(3, 30)
    y = lb.gelu(x @ truth.directions.T) @ truth.readout
    v, w = rng.standard_normal((2, 3))
    fourth, p, q = coefficient(lb.gelu, 4), truth.directions @ v, truth.directions @ w
    assert_allclose(weights @ (y * phi(v, x)), fourth / (2 * sqrt(6)) * truth.readout @ p**4, atol=EXACT)
    assert_allclose(weights @ (y * phi_pair(v, w, x)), sqrt(6) * fourth * truth.readout @ (p * q) ** 2, atol=EXACT)
    second = weights @ (y * ((x @ v) ** 2 - v @ v))
    assert_allclose(second, sqrt(2) * coefficient(lb.gelu, 2) * truth.readout @ p**2, atol=EXACT)


def test_g_without_its_pair_sum(rng: np.random.Generator) -> None:
    truth = teacher(3, 3, rng)
    source, mu, strength = drawn(truth, 200, rng), 0.7, 1.1
    x, y = source.read(0, 200)
    B = rng.standard_normal((3, 3))
    pairs = sum(phi_pair(B[j], B[k], x) for j in range(3) for k in range(3) if j != k)
    own = sum(phi(row, x) for row in B)
    norms = np.sum(B**2, axis=1)
    expected = -np.mean(y[:, 0] * (pairs - mu * own)) + strength * np.sum((norms - 1) ** 2)
    objective = orthogonal_design(quartic(source), -1.0, 3, 3, mu=mu, strength=strength)
    assert_allclose(objective.value_and_gradient(B).value, expected, atol=EXACT)


def test_population_g(rng: np.random.Generator) -> None:
    """Equation (2.10) with its constants halved."""
    truth, mu, strength = teacher(4, 4, rng), 0.7, 1.1
    B = rng.standard_normal((4, 4))
    P = (B @ truth.directions.T) ** 2
    fourth, a = abs(coefficient(lb.relu, 4)), truth.readout
    expected = sqrt(6) * fourth * a @ (P.sum(axis=0) ** 2 - (P**2).sum(axis=0))
    expected += -mu * fourth / (2 * sqrt(6)) * np.sum(P**2 @ a) + strength * np.sum((np.sum(B**2, axis=1) - 1) ** 2)
    assert_allclose(population_g(truth, mu=mu, strength=strength).value_and_gradient(B).value, expected, atol=1e-11)


def test_minima_of_g(rng: np.random.Generator) -> None:
    """B = D P B*, D_ii = (1 - μβ_i/λ)^-½, β = |σ₄|a/(2√6): the gradient vanishes and every curvature is positive."""
    truth, mu = teacher(4, 4, rng, orthonormal=True), 0.5
    fourth = abs(coefficient(lb.relu, 4))
    strength = 4 * sqrt(6) * fourth * truth.readout.max()
    D = 1 / np.sqrt(1 - mu * fourth * truth.readout / (2 * sqrt(6)) / strength)
    objective = population_g(truth, mu=mu, strength=strength)
    point = (D[:, None] * truth.directions)[rng.permutation(4)] * rng.choice([-1, 1], (4, 1))
    assert np.abs(objective.value_and_gradient(point).gradient).max() < 1e-12
    assert tangent_eigenvalues(objective, point).min() > 1e-3


def test_f_is_g_in_whitened_coordinates(rng: np.random.Generator) -> None:
    """Theorem C.2: F(BWᵀ) = G_{1/a, o}(B) with o_i = √a_i Wᵀb_i; and WWᵀ = M⁻¹, where (C.4) prints M."""
    truth, mu, strength = teacher(4, 4, rng), 0.7, 1.1
    values, U = np.linalg.eigh(truth.gram())
    W = U / np.sqrt(values)
    o = np.sqrt(truth.readout)[:, None] * truth.directions @ W
    assert_allclose(o @ o.T, np.eye(4), atol=1e-10)
    assert_allclose(W @ W.T, np.linalg.inv(truth.gram()), rtol=1e-8)
    B = rng.standard_normal((4, 4))
    f, g = population_f(truth, mu=mu, strength=strength), population_g(
        Teacher(1 / truth.readout, o, lb.relu), mu=mu, strength=strength)
    assert_allclose(f.value_and_gradient(B @ W.T).value, g.value_and_gradient(B).value, rtol=1e-9)


def test_second_moment_gives_m(rng: np.random.Generator) -> None:
    truth = teacher(3, 2, rng, activation=lb.gelu)
    x, weights = gauss_points(3, 30)
    y = lb.gelu(x @ truth.directions.T) @ truth.readout
    moment = np.einsum("n,n,nij->ij", weights, y, hermite_tensor(x, 2))
    assert_allclose(moment / (sqrt(2) * coefficient(lb.gelu, 2)), truth.gram(), atol=EXACT)
    source = drawn(truth, 50, rng)
    assert_allclose(second_moment(source)[0], dense_moment(*source.read(0, 50), 2)[0], atol=1e-12)


def test_sampled_penalty_is_the_mean_over_pairs(rng: np.random.Generator) -> None:
    truth = teacher(3, 2, rng)
    source, B = drawn(truth, 30, rng), rng.standard_normal((2, 3))
    x, y = source.read(0, 30)
    u = y * ((x @ B.T) ** 2 - np.sum(B**2, axis=1)) / (sqrt(2) * coefficient(lb.relu, 2)) - 1
    naive = sum(u[i] * u[j] for i in range(30) for j in range(30) if i != j).sum() / (30 * 29)
    assert_allclose(SampledPenalty(source, coefficient(lb.relu, 2)).value_and_gradient(B).value, naive, rtol=1e-10)


def test_sampled_penalty_in_a_span_is_the_same_there(rng: np.random.Generator) -> None:
    source = drawn(teacher(3, 2, rng), 30, rng)
    whole = SampledPenalty(source, coefficient(lb.relu, 2))
    turned = SampledPenalty(source, coefficient(lb.relu, 2), np.linalg.qr(rng.standard_normal((3, 2)))[0])
    lifted = rng.standard_normal((3, 2)) @ turned.basis.T
    inside, outside = turned.value_and_gradient(lifted @ turned.basis), whole.value_and_gradient(lifted)
    assert_allclose(inside.gradient, outside.gradient @ turned.basis, rtol=1e-10)
    step = rng.standard_normal(lifted.shape) @ turned.basis @ turned.basis.T
    assert_allclose(turned.hessian_times(lifted @ turned.basis, step @ turned.basis),
                    whole.hessian_times(lifted, step) @ turned.basis, rtol=1e-10)


def test_sampled_penalty_is_unbiased_and_the_square_of_the_mean_is_not() -> None:
    """Batches of 40: the mean of 500 is within 4 standard errors of the truth, that of plug-in values 6 or more above it."""
    rng = np.random.default_rng(5)
    truth = teacher(3, 3, rng, ratio=2.0)
    B = truth.directions[:1] * 0.7
    exact = NormPenalty(truth.gram()).value_and_gradient(B).value
    ours, plugged = [], []
    for _ in range(500):
        source = drawn(truth, 40, rng)
        ours.append(SampledPenalty(source, coefficient(lb.relu, 2)).value_and_gradient(B).value)
        metric = second_moment(source)[0] / (sqrt(2) * coefficient(lb.relu, 2))
        plugged.append(NormPenalty(metric).value_and_gradient(B).value)
    errors = [(np.mean(values) - exact) / (np.std(values) / sqrt(500)) for values in (ours, plugged)]
    assert abs(errors[0]) < 4 and errors[1] > 6


def test_recovery_from_f(rng: np.random.Generator) -> None:
    """Rows of B^{-T} are ±√a_i b_i/D_ii; the readout is exact once μ|σ₄|/(2√6λ) is added."""
    rows = teacher(4, 4, rng, orthonormal=True).directions + 0.2 * rng.standard_normal((4, 4))
    truth = Teacher(np.array([1.0, 1.5, 2.5, 4.0]), rows / np.linalg.norm(rows, axis=1)[:, None], lb.relu)
    mu, strength = 1.0, 30.0
    objective = population_f(truth, mu=mu, strength=strength)
    dual = truth.readout[:, None] ** 0.5 * truth.directions
    point = trust_region(objective, np.linalg.inv(dual).T).point
    found = from_inverse(point)
    assert unsigned_error(found, truth.directions) < 1e-6
    readout = corrected_readout(found, coefficient(lb.relu, 4), mu=mu, strength=strength)
    assert_allclose(readout, truth.readout, rtol=1e-7)


def test_ridge_of_the_undercomplete_case(rng: np.random.Generator) -> None:
    """Lemma C.6: nothing is left off the span of the weights, and the angle error falls with δ."""
    truth = teacher(6, 3, rng)
    dual = np.linalg.pinv(truth.readout[:, None] ** 0.5 * truth.directions).T
    off = np.eye(6) - np.linalg.pinv(truth.directions) @ truth.directions
    errors = []
    for ridge in (1e-2, 1e-3):
        objective = population_f(truth, mu=1.0, strength=30.0, ridge=ridge)
        landed = trust_region(objective, dual + 0.1 * rng.standard_normal((3, 6)) @ off, max_steps=300)
        assert landed.gradient_norm < 1e-8
        assert np.abs(landed.point @ off).max() < 1e-6
        errors.append(unsigned_error(objective.directions(landed.point), truth.directions))
    assert 5 < errors[0] / errors[1] < 20


def test_slope_without_the_ridge_is_small_where_it_is_with(rng: np.random.Generator) -> None:
    """Lemma C.7 and Claim C.8: |∇F| ≤ |∇F_δ| + δ√(2m/σ_min(M)) and bᵀMb ≤ 2, where |∇F_δ| ≤ λ√σ_min(M)."""
    truth, strength, ridge = teacher(6, 3, rng), 30.0, 1e-2
    least = np.linalg.eigvalsh(truth.gram())[-3]
    objective, plain = (population_f(truth, mu=1.0, strength=strength, ridge=delta) for delta in (ridge, 0.0))
    landed = trust_region(objective, objective.start(rng), max_steps=300).point
    for size in (0.0, 1e-5, 1e-3):
        point = landed + size * rng.standard_normal(landed.shape)
        slope = float(np.linalg.norm(objective.value_and_gradient(point).gradient))
        assert slope <= strength * np.sqrt(least)
        assert np.linalg.norm(plain.value_and_gradient(point).gradient) <= slope + ridge * np.sqrt(2 * 3 / least)
        assert np.diag(point @ truth.gram() @ point.T).max() <= 2


def test_algorithms_1_and_2(rng: np.random.Generator) -> None:
    for orthonormal, algorithm in ((True, algorithm_1), (True, algorithm_2), (False, algorithm_2)):
        truth = teacher(4, 3, rng, orthonormal=orthonormal)
        signs = rng.choice([-1.0, 1.0], (3, 1))
        linear = coefficient(lb.relu, 1) * truth.directions.T @ truth.readout
        found = algorithm(signs * truth.directions, linear, coefficient(lb.relu, 1))
        assert_allclose(found.readout, truth.readout, rtol=1e-10)
        assert_allclose(found.directions, truth.directions, atol=1e-12)


@pytest.mark.parametrize("orthonormal", [True, False])
def test_readouts_of_rows_that_are_nearly_right(orthonormal: bool, rng: np.random.Generator) -> None:
    """Lemmas 2.5 and D.2 of Ge, Lee and Ma (2018): |a - a*| is of the size of the error of B, signs are right."""
    truth = teacher(4, 4, rng, orthonormal=orthonormal)
    signs, root = rng.choice([-1.0, 1.0], (4, 1)), np.linalg.norm(truth.readout)
    linear = coefficient(lb.relu, 1) * truth.directions.T @ truth.readout
    for size in (1e-3, 1e-2):
        near = truth.directions + size * rng.standard_normal((4, 4)) / 4
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        error = near - truth.directions
        if orthonormal:
            found, limit = algorithm_1(signs * near, linear, coefficient(lb.relu, 1)), np.linalg.norm(error, axis=1).max() * root
            assert np.abs(found.readout - truth.readout).max() <= limit
        found = algorithm_2(signs * near, linear, coefficient(lb.relu, 1))
        limit = 2 * np.sqrt(2) * truth.readout.max() * np.sqrt(4) * np.linalg.norm(error, 2)
        assert np.linalg.norm(found.readout - truth.readout) <= limit / np.linalg.svd(near, compute_uv=False)[-1]
        assert_allclose(found.directions, near, atol=1e-12)


def test_metric_as_printed_calls_one_unit_found_many_times_perfect() -> None:
    Q = np.zeros((3, 3))
    Q[:, 0] = 1.0
    printed = min(1 - Q.max(axis=1).min(), 1 - Q.max(axis=0).min())
    assert printed == 0.0 and landscape_error(Q) == 1.0


@pytest.mark.parametrize(("mu", "smallest"), [(0.0, 0.0), (0.01, -0.10), (0.05, -0.5), (0.2, -2.0)])
def test_spurious_minimum_of_appendix_f(mu: float, smallest: float) -> None:
    """P′ = 2 there in ordered pairs; one curvature is exactly zero, so the minimum is not strict; R makes it negative."""
    a = np.array([1.0, 2.5, 2.5, 2.5])
    point = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, sqrt(0.5), sqrt(0.5)]])
    objective = pairs_on_spheres(a, np.eye(4), mu=mu)
    eigenvalues = tangent_eigenvalues(objective, point)
    assert_allclose(eigenvalues[0], smallest, atol=1e-10 if mu == 0 else 0.05 * abs(smallest))
    if mu == 0:
        assert_allclose(objective.value_and_gradient(point).value, 2.0, atol=1e-12)
        assert eigenvalues[1] > 0.1


def test_general_design_with_a_sampled_penalty_is_f(rng: np.random.Generator) -> None:
    """With M from the same samples, F exceeds its U-statistic by the variance of the mean of u, exactly."""
    truth = teacher(3, 3, rng)
    source, B = drawn(truth, 2000, rng), rng.standard_normal((3, 3))
    x, y = source.read(0, 2000)
    u = y * ((x @ B.T) ** 2 - np.sum(B**2, axis=1)) / (sqrt(2) * coefficient(lb.relu, 2)) - 1
    M, chosen = second_moment(source)[0] / (sqrt(2) * coefficient(lb.relu, 2)), DesignParameters(mu=0.5, strength=1.0)
    values = [
        general_design(quartic(source), -1.0, 3, 3, penalty=penalty, parameters=chosen).value_and_gradient(B).value
        for penalty in (NormPenalty(M), SampledPenalty(source, coefficient(lb.relu, 2)))]
    assert_allclose(values[0] - values[1], np.sum(np.var(u, axis=0)) / 1999, rtol=1e-6)


def test_sampled_risk_is_the_mean_squared_loss(rng: np.random.Generator) -> None:
    truth = teacher(3, 2, rng)
    source = drawn(truth, 100, rng)
    x, y = source.read(0, 100)
    a, B = np.array([0.5, 2.0]), rng.standard_normal((2, 3))
    response = even_response(lb.relu)
    risk = SampledRisk(source=source, response=response, width=2).value_and_gradient(np.column_stack([a, B])).value
    assert_allclose(risk, np.mean((y[:, 0] - response.value(x @ B.T) @ a) ** 2), rtol=1e-12)


def test_flat_direction_of_appendix_f_leads_down() -> None:
    """b₄ = cos e₃ + sin e₄ keeps P′ = 2; b₁ and b₂ see curvature 4((2+t) sin² - 1), negative once sin² < 1/(2+t) = 0.4."""
    objective = pairs_on_spheres(np.array([1.0, 2.5, 2.5, 2.5]), np.eye(4))
    for share, negative in ((0.5, False), (0.45, False), (0.36, True), (0.1, True)):
        point = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, sqrt(1 - share), sqrt(share)]])
        assert_allclose(objective.value_and_gradient(point).value, 2.0, atol=1e-12)
        smallest = tangent_eigenvalues(objective, point)[0]
        assert (smallest < -1e-6) == negative
        if negative:
            assert_allclose(smallest, 4 * (2.5 * share - 1), atol=1e-9)


def test_moments_and_passes_give_one_objective(rng: np.random.Generator) -> None:
    all_of_them = objectives(rng)
    for kind in ("f'", "G"):
        one, other = all_of_them[f"{kind} from moments"], all_of_them[f"{kind} from passes"]
        point = some_point(one, rng)
        direction = rng.standard_normal(point.shape)
        assert_allclose(one.value_and_gradient(point).value, other.value_and_gradient(point).value, rtol=1e-9)
        assert_allclose(one.hessian_times(point, direction), other.hessian_times(point, direction), rtol=1e-8, atol=1e-10)
