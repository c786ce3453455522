"""Exponential blocks (Theorems 7 and 8), even units (Theorem 9), rare products (Lemma 1), the biased oracle (B.7)."""

from __future__ import annotations

import numpy as np
import pytest
from high_threshold_targets import planted, samples
from scipy.integrate import quad
from scipy.special import erfc

import laybare as lb
from laybare.lowest_layer.cliques import blocks, correlation_graph, correlations, printed_graph
from laybare.lowest_layer.printed.biased_oracle import retained
from laybare.lowest_layer.printed.even_units import even_directions
from laybare.moments import second_moment
from laybare.networks import max_angle
from laybare.networks.polynomials import Polynomial, multilinear, union
from laybare.planted.high_thresholds import Target, polynomial_top, union_top
from laybare.theory.even_moments import EvenCoefficients, even_coefficients
from laybare.theory.exponential_moments import population_correlations
from laybare.theory.rare_products import printed_product_bound, product_bound
from laybare.theory.shift_objective import empirical_shifted_mean, penalised, shifted_mean

SQUARE = lb.Activation.custom("square", lambda t: t**2, lambda t: 2 * t, degree=2, parity="even")
TOP = Polynomial(multilinear(2, 2), np.array([0.4, 1.0, 0.7, 0.3]))


def gaussian_grid(dim: int, nodes: int = 40) -> tuple[np.ndarray, np.ndarray]:
    g, w = np.polynomial.hermite_e.hermegauss(nodes)
    x = np.stack([part.ravel() for part in np.meshgrid(*[g] * dim, indexing="ij")], axis=1)
    return x, np.prod(np.meshgrid(*[w / np.sqrt(2 * np.pi)] * dim, indexing="ij"), axis=0).ravel()


@pytest.mark.parametrize(
    "weights", [[[1, 1, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1]], [[0.3, -0.5, 0.2], [0.1, 0.4, -0.6]]],
    ids=["disjoint", "overlapping", "any"])
def test_correlations_of_exponential_units_against_quadrature(weights):
    rows, rho, t = np.array(weights, dtype=float), 0.5, 1.3
    x, w = gaussian_grid(3)
    f = TOP(np.exp(rho * (x @ rows.T - t)))
    wanted = (x * (f * w)[:, None]).T @ x - np.eye(3) * (f @ w)
    assert population_correlations(rows, TOP, rho, t) == pytest.approx(wanted, abs=1e-10)


def test_disjoint_blocks_in_the_corrected_closed_form():
    """ρ² Σ_{S covers i, j} c_S μ^{|S|} with μ = e^{-ρ(t - ρD/2)}."""
    rho, t, D = 0.5, 1.3, 2
    rows = np.kron(np.eye(2), np.ones((1, D)))
    mu = np.exp(-rho * (t - rho * D / 2))
    found = population_correlations(rows, TOP, rho, t)
    assert found[0, 1] == pytest.approx(rho**2 * (1.0 * mu + 0.3 * mu**2), abs=1e-12)
    assert found[0, 2] == pytest.approx(rho**2 * 0.3 * mu**2, abs=1e-12)
    assert found[0, 0] == pytest.approx(found[0, 1], abs=1e-12)


def exponential_blocks(rng: np.random.Generator, rows: int) -> tuple[Target, lb.Samples]:
    """Three blocks of four among twelve shuffled coordinates, ρ = 0.5, t = 2."""
    weights = np.kron(np.eye(3), np.ones((1, 4)))[:, rng.permutation(12)]
    target = Target(lb.Layer(weights, np.full(3, -2.0), lb.exponential(0.5)), polynomial_top(3, 3, rng=rng))
    return target, samples(target, rows, rng)


def test_graph_of_log_outputs_is_exact(rng):
    target, source = exponential_blocks(rng, 3000)
    found = blocks(correlation_graph(correlations(source)))
    assert {tuple(row) for row in found} == {tuple(row) for row in target.layer.weights}


def test_printed_graph_depends_on_a_threshold_in_the_wrong_units(rng):
    """α_ij ≥ ρ: no edge at all for these outputs, whose correlations are smaller than ρ."""
    _, source = exponential_blocks(rng, 30_000)
    assert not printed_graph(source, 0.5).any()


def test_graph_without_disjoint_cliques_is_refused():
    path = np.zeros((3, 3), dtype=bool)
    path[0, 1] = path[1, 0] = path[1, 2] = path[2, 1] = True
    with pytest.raises(lb.NotSeparated, match="disjoint cliques"):
        blocks(path)


def test_logarithm_of_negative_outputs_is_refused(rng):
    x = rng.standard_normal((100, 3))
    with pytest.raises(lb.AssumptionViolated, match="not positive"):
        correlations(lb.Samples(x, x[:, 0]))


def test_shifted_mean_against_quadrature(rng):
    weights, z = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.2, -0.1, 0.3])
    x, w = gaussian_grid(3)
    exact = w @ TOP(np.exp((x + z) @ weights.T))
    assert shifted_mean(TOP, weights, z) == pytest.approx(exact, abs=1e-10)
    f = TOP(np.exp(x @ weights.T)) * w * len(x)
    assert empirical_shifted_mean(lb.Samples(x, f), z) == pytest.approx(exact, abs=1e-10)
    step = np.array([1e-5, 0.0, 0.0])
    slope = penalised(TOP, weights, z, 0.3, 0.2)[1][0]
    difference = penalised(TOP, weights, z + step, 0.3, 0.2)[0] - penalised(TOP, weights, z - step, 0.3, 0.2)[0]
    assert slope == pytest.approx(difference / 2e-5, rel=1e-6)


@pytest.mark.parametrize(("sparsity", "size"), [(0.1, 1.0), (1.0, 10.0), (5.0, 50.0)])
def test_theorem_8_objective_is_unbounded_and_has_no_claimed_maximum(sparsity, size):
    """Along a block of s coordinates it exceeds any bound; on (1/s, 4] its slope never passes from + to -: no maximum."""
    weights, s = np.kron(np.eye(2), np.ones((1, 2))), 2
    block = weights[0]
    assert penalised(TOP, weights, 20.0 * block, sparsity, size)[0] > 1e6
    levels = np.linspace(1.0 / s + 1e-6, 4.0, 400)
    slopes = np.array([penalised(TOP, weights, a * block + 1e-12, sparsity, size)[1] @ block for a in levels])
    assert not np.any((slopes[:-1] > 0) & (slopes[1:] <= 0))


def test_hessian_of_the_shifted_mean_at_zero_is_the_correlation_matrix():
    weights = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    h, hessian = 1e-3, np.empty((3, 3))
    for i, a in enumerate(h * np.eye(3)):
        for j, b in enumerate(h * np.eye(3)):
            corners = [sign * shifted_mean(TOP, weights, p * a + q * b)
                       for p, q, sign in ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))]
            hessian[i, j] = sum(corners) / (4 * h * h)
    assert population_correlations(weights, TOP, 1.0, 0.0) == pytest.approx(hessian, rel=1e-5)


@pytest.mark.parametrize("activation", [lb.absolute, SQUARE], ids=lambda a: a.name)
def test_even_units_against_quadrature(activation, rng):
    """E[f h₄(z·x)] on the sphere up to a constant-free form: α and γ with √6 u₂², not 6 u₂²."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    g = np.concatenate([-5.5 * (nodes + 1), 5.5 * (nodes + 1)])
    w = np.concatenate([weights, weights]) * 5.5 * np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi)
    x = np.stack([part.ravel() for part in np.meshgrid(g, g, indexing="ij")], axis=1)
    weight = np.outer(w, w).ravel()
    f = TOP(activation(x))
    coefficients = even_coefficients(TOP, activation)
    for angle in (0.0, 0.4, 1.1):
        z = np.array([np.cos(angle), np.sin(angle)])
        s = x @ z
        exact = weight @ (f * (s**4 - 6 * s**2 + 3)) / np.sqrt(24)
        assert coefficients.value(z) == pytest.approx(exact, abs=1e-10)


def test_condition_of_theorem_9_allows_axes_that_are_no_maxima():
    """α = (1, 0.2), γ = 0.9: α₁ + α₂ > γ holds, yet e₂ is no maximum since 2α₂ < γ."""
    case = EvenCoefficients(np.array([1.0, 0.2]), np.array([[0.0, 0.9], [0.9, 0.0]]))
    assert case.maxima.tolist() == [True, False]
    turned = np.array([np.sin(0.1), np.cos(0.1)])
    assert case.value(turned) > case.value(np.array([0.0, 1.0]))


def test_even_units_from_samples(rng):
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0][:3]
    target = Target(lb.Layer(Q, None, lb.absolute), polynomial_top(3, 2, rng=rng))
    found = even_directions(samples(target, 20_000, rng), 3, lb.absolute, starts=2, max_steps=30, rng=rng)
    signs = np.sign(np.sum(found[:, None] * Q[None], axis=2))
    best = np.abs(found @ Q.T).argmax(axis=1)
    assert max_angle(found * signs[np.arange(3), best][:, None], Q[best]) < 0.2
    assert len(set(best.tolist())) == 3


def both_active(correlation: float, t: float) -> float:
    """Pr[both of two unit rows with this correlation exceed t]."""
    def inside(s):
        across = (t - correlation * s) / np.sqrt(1 - correlation**2)
        return np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi) * 0.5 * erfc(across / np.sqrt(2))

    return quad(inside, t, t + 12, epsabs=1e-30)[0]


def test_printed_bound_on_products_is_false_and_the_corrected_one_holds():
    broken = 0
    for correlation in (0.0, 0.3, 0.5, 0.7):
        rows = np.array([[1.0, 0.0], [correlation, np.sqrt(1 - correlation**2)]])
        for t in (2.0, 3.0, 4.0, 5.0, 6.0):
            true = both_active(correlation, t)
            assert true <= product_bound(rows, t)
            broken += true > printed_product_bound(rows, t)
    assert both_active(0.7, 6.0) == pytest.approx(9.7e-12, rel=0.05)
    assert broken >= 2


def test_biased_oracle_has_moments_of_f_over_its_mean(rng):
    """E_b[h] = E[f h]/E[f]: second moments of 60,000 rows; entries have a standard error of about 0.02."""
    source = samples(planted(lb.sigmoid, "bilinear", 3, 3, 3.0, rng), 60_000, rng)
    kept = retained(source, rng=rng)
    mean = source.sum(lambda x, y: (y.sum(axis=0),))[0][0] / source.size
    assert kept.size < source.size
    assert second_moment(kept)[0] == pytest.approx(second_moment(source)[0] / mean, abs=0.1)


def test_biased_oracle_needs_positive_outputs(rng):
    x = rng.standard_normal((100, 3))
    with pytest.raises(lb.AssumptionViolated, match="negative"):
        retained(lb.Samples(x, x[:, 0]), rng=rng)


def test_union_polynomial_is_the_union():
    X = multilinear(4, 4).astype(float)
    assert np.array_equal(union(4)(X), X.any(axis=1).astype(float))
    assert np.array_equal(union_top(X), X.any(axis=1).astype(float))
