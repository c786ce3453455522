"""Closed forms of the high-threshold paper against quadrature: coefficients, exponential and even units, rare products."""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfc, eval_hermitenorm, expit

import laybare as lb
from laybare.networks.polynomials import Polynomial, multilinear
from laybare.theory.high_threshold_forms import (
    EvenCoefficients,
    composed_coefficients,
    empirical_shifted_mean,
    even_coefficients,
    penalised_objective,
    population_correlations,
    printed_product_bound,
    product_bound,
    shifted_mean,
    threshold_coefficient,
)

EXACT = 1e-10
SQUARE = lb.Activation.custom("square", lambda t: t**2, lambda t: 2 * t, degree=2, parity="even")
TOP = Polynomial(multilinear(2, 2), np.array([0.4, 1.0, 0.7, 0.3]))


def phi(t: float) -> float:
    return float(np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi))


@pytest.mark.parametrize("t", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize(
    ("activation", "value"), [(lb.step, lambda a: 1.0), (lb.relu, lambda a: a), (lb.exponential(1), None), (lb.sigmoid, None)],
    ids=lambda part: getattr(part, "name", ""))
def test_hermite_coefficients_against_quadrature(activation, value, order, t):
    function = {"exponential(1)": np.exp, "sigmoid": expit}.get(activation.name, value)
    low = t if value is not None else -12.0
    wanted = quad(lambda g: function(g - t) * eval_hermitenorm(order, g) * phi(g), low, 14.0, epsabs=1e-14, limit=300)[0]
    assert threshold_coefficient(activation, order, t) == pytest.approx(wanted / sqrt(factorial(order)), abs=EXACT)


@pytest.mark.parametrize(
    ("activation", "order", "t"),
    [(lb.step, 4, sqrt(3)), (lb.relu, 4, 1.0), (lb.step, 3, 1.0), (lb.sigmoid, 4, 3.0), (lb.sigmoid, 3, 1.74)],
    ids=lambda part: getattr(part, "name", None))
def test_thresholds_at_which_an_order_shows_nothing(activation, order, t):
    """Signs change there: just below and just above by 0.05."""
    below, above = (threshold_coefficient(activation, order, t + shift) for shift in (-0.05, 0.05))
    assert below * above < 0


@pytest.mark.parametrize("activation", [lb.relu, lb.sigmoid, lb.step], ids=lambda a: a.name)
def test_composed_coefficients_against_quadrature(activation):
    """q₀ = 2X + X³ and q₁ = X - X²/2; the product does not matter. For steps q∘u = q(1) u."""
    top = Polynomial(np.array([[0, 0], [1, 0], [3, 0], [0, 1], [0, 2], [1, 1]]), np.array([5.0, 2.0, 1.0, 1.0, -0.5, 3.0]))
    low = -12.0 if activation.name == "sigmoid" else 1.5
    value = {"relu": lambda a: a, "sigmoid": expit, "step": lambda a: 1.0}[activation.name]

    def expected(q, order):
        return quad(lambda g: q(value(g - 1.5)) * eval_hermitenorm(order, g) * phi(g), low, 14.0, epsabs=1e-14)[0]

    for order in (2, 3, 4):
        wanted = [expected(q, order) / sqrt(factorial(order)) for q in (lambda u: 2 * u + u**3, lambda u: u - u**2 / 2)]
        assert composed_coefficients(top, activation, 1.5, order) == pytest.approx(wanted, abs=EXACT)


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


def test_shifted_mean_against_quadrature(rng):
    weights, z = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.2, -0.1, 0.3])
    x, w = gaussian_grid(3)
    exact = w @ TOP(np.exp((x + z) @ weights.T))
    assert shifted_mean(TOP, weights, z) == pytest.approx(exact, abs=1e-10)
    f = TOP(np.exp(x @ weights.T)) * w * len(x)
    assert empirical_shifted_mean(lb.Samples(x, f), z) == pytest.approx(exact, abs=1e-10)
    step = np.array([1e-5, 0.0, 0.0])
    slope = penalised_objective(TOP, weights, z, 0.3, 0.2)[1][0]
    ahead, behind = (penalised_objective(TOP, weights, z + sign * step, 0.3, 0.2)[0] for sign in (1, -1))
    difference = ahead - behind
    assert slope == pytest.approx(difference / 2e-5, rel=1e-6)


@pytest.mark.parametrize(("sparsity", "size"), [(0.1, 1.0), (1.0, 10.0), (5.0, 50.0)])
def test_theorem_8_objective_is_unbounded_and_has_no_claimed_maximum(sparsity, size):
    """Along a block of s coordinates it exceeds any bound; on (1/s, 4] its slope never passes from + to -: no maximum."""
    weights, s = np.kron(np.eye(2), np.ones((1, 2))), 2
    block = weights[0]
    assert penalised_objective(TOP, weights, 20.0 * block, sparsity, size)[0] > 1e6
    levels = np.linspace(1.0 / s + 1e-6, 4.0, 400)
    slopes = np.array([penalised_objective(TOP, weights, a * block + 1e-12, sparsity, size)[1] @ block for a in levels])
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
