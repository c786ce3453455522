"""Quantities that only the papers' proofs state: each against an exact computation, and the slips in them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import eval_hermitenorm, ndtr
from scipy.stats import multivariate_normal

import laybare as lb
from laybare import landscape, theory
from laybare.assembly.unit_scalars import scalars_by_recurrence
from laybare.moments import khatri_rao_gap, population_moments
from laybare.networks.polynomials import Polynomial, multilinear
from laybare.planted import orthonormal_weights


def test_gap_to_the_linear_part_bounds_what_pairs_add(rng: np.random.Generator) -> None:
    """Lemma 2 of Goel and Panigrahy (2019), corrected: E|Δ| of a bilinear top is |c₁₂| Pr[both active]."""
    for cosine in (0.0, 0.5, 0.7):
        rows, t = np.array([[1.0, 0.0], [cosine, np.sqrt(1 - cosine**2)]]), 2.5
        together = multivariate_normal(cov=rows @ rows.T).cdf([-t, -t])
        top = Polynomial(multilinear(2, 2), np.array([0.0, 1.0, 1.0, -3.0]))
        assert 3.0 * together <= theory.linear_part_gap(rows, t, top)


def test_exponents_of_assumption_3_and_closeness() -> None:
    """p = |W|² is at least 1 for unit rows, where the text has (0, 1]; the gap falls with t, and with it the closeness."""
    rows = np.array([[1.0, 0.0, 0.0], [0.3, np.sqrt(1 - 0.09), 0.0]])
    low, high = (theory.layer_closeness(rows, t) for t in (4.0, 6.0))
    assert low["p"] >= 1.0 and low["p"] == pytest.approx(np.linalg.norm(rows, 2) ** 2)
    assert 3.0 ** -low["eta"] == pytest.approx(theory.gaussian_tail(4.0, np.linalg.norm(rows, 2)))
    assert high["gap"] < low["gap"] and high["closeness to other columns"] < low["closeness to other columns"]


@pytest.mark.parametrize("seed", range(5))
def test_leave_one_out_bound_is_below_the_least_singular_value(seed: int) -> None:
    """Lemma 21 of Ge et al. (2019)."""
    A = np.random.default_rng(seed).standard_normal((12, 5))
    A[:, 0] *= np.sqrt(12) / np.linalg.norm(A[:, 0])
    assert 0 < theory.leave_one_out_bound(A) <= np.linalg.svd(A, compute_uv=False)[-1]


@pytest.mark.parametrize("seed", range(5))
def test_leave_one_out_distance_and_least_singular_value(seed: int) -> None:
    """Definition 2 and Lemma 20 of Ge et al. (2019): d(A) ≥ σ_min(A) ≥ d(A)/√n."""
    A = np.random.default_rng(seed).standard_normal((12, 5))
    distance, least = theory.leave_one_out_distance(A), np.linalg.svd(A, compute_uv=False)[-1]
    assert distance >= least >= distance / np.sqrt(5)
    assert theory.leave_one_out_distance(np.diag([3.0, 2.0])) == pytest.approx(2.0)


@pytest.mark.parametrize("scale", [1.0, 1.4])
@pytest.mark.parametrize("threshold", [2.5, 4.0])
def test_tails_bound_the_mean_activity(threshold: float, scale: float) -> None:
    """Lemmas 10 to 12 of Goel and Panigrahy (2019): E[act(g - t)], g ~ N(0, σ²), is below ρ(t, σ)."""
    for activation, bound in (
            (lb.relu, theory.gaussian_tail), (lb.step, theory.gaussian_tail), (lb.sigmoid, theory.sigmoid_tail)):
        mean = float(activation.hermite(0, scale, -threshold))
        assert 0 < mean <= bound(threshold, scale)


def test_perturbed_weights_are_apart(rng: np.random.Generator) -> None:
    """Lemma 22 of Ge et al. (2019): equal weights, perturbed, 200 times."""
    w, size = np.eye(20)[0], 0.1
    bound = theory.perturbed_angle(1.0, size, 20)
    for _ in range(200):
        a, b = w + size * rng.standard_normal((2, 20))
        assert np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) >= bound > 0


def test_signs_and_first_layer_within_their_margins(rng: np.random.Generator) -> None:
    """Lemmas 13 and 18 of Ge et al. (2019) on inputs ±√d e_i, for which every expectation is an exact mean."""
    d, k = 4, 3
    x = np.concatenate([np.sqrt(d) * np.eye(d), -np.sqrt(d) * np.eye(d)])
    law = theory.InputLaw(radius=np.sqrt(d), least_variance=1.0)
    A, W = orthonormal_weights(k, k, rng=rng), orthonormal_weights(d, k, rng=rng)
    y = np.maximum(x @ W.T, 0.0) @ A.T
    z = np.linalg.inv(A)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    margin, allowed = theory.sign_margin(law, A)
    assert (np.abs(z @ y.mean(axis=0)) >= margin).all()
    moved = z + allowed * np.eye(k)[0]
    assert (np.sign(moved @ y.mean(axis=0)) == np.sign(z @ y.mean(axis=0))).all()
    v, found = (2.0 * (rows @ y.T) @ x / len(x) for rows in (z, moved))
    assert np.linalg.norm(v - found, axis=1).max() <= theory.first_layer_error(law, A, allowed, 0.0)


def test_samples_for_one_unit_grow_as_the_accuracy_squared() -> None:
    """Theorem 8 of Ge et al. (2019)."""
    law = theory.InputLaw(radius=2.0)
    coarse, fine = (theory.single_unit_recovery(law, 4, accuracy)["samples"] for accuracy in (0.1, 0.05))
    assert fine == pytest.approx(4 * coarse)
    with pytest.raises(lb.errors.InvalidInput):
        theory.single_unit_recovery(law, 4, 2.0)


def test_units_of_large_bias_are_lines(rng: np.random.Generator) -> None:
    """Lemma D.13 of Awasthi et al. (2021): the bound holds and is exact for one unit."""
    network = lb.Network(lb.Layer(np.eye(3)[:2], np.array([2.5, -2.5]), lb.relu), np.array([1.0, -2.0]))
    stand_in = theory.linear_stand_in(network, 2.0)
    x = rng.standard_normal((400_000, 3))
    left = np.mean((network(x) - x @ stand_in.slope - stand_in.offset) ** 2)
    assert 0 < left <= stand_in.error
    one = lb.Network(lb.Layer(np.eye(1), np.array([1.0]), lb.relu), np.array([1.0]))
    t = np.linspace(-12, -1, 200_001)
    exact = np.trapezoid((t + 1) ** 2 * np.exp(-(t**2) / 2), t) / np.sqrt(2 * np.pi)
    assert theory.linear_stand_in(one, 0.5).error == pytest.approx(exact, rel=1e-6)
    assert theory.linear_stand_in(one, 2.0).error == 0.0


@pytest.mark.parametrize(("units", "left"), [(lb.relu, 6e-3), (lb.gelu, 3e-5)], ids=["relu", "gelu"])
def test_distance_of_networks_is_that_of_their_moments(units: lb.Activation, left: float) -> None:
    """Proposition B.1 of Awasthi et al. (2021): E(f - g)² = Σ_k |T_k(f) - T_k(g)|²/k!; of ReLU orders up to K leave O(K^-3/2)."""
    f, g = (lb.Network(lb.Layer(np.array([[1.0], [-1.0]]), b, units), a) for a, b in (
        (np.array([1.0, -0.7]), np.array([0.5, -1.0])), (np.array([0.8, 1.2]), np.array([-0.3, 0.4]))))
    t = np.linspace(-12, 12, 400_001)
    exact = np.trapezoid((f(t[:, None]) - g(t[:, None])) ** 2 * np.exp(-(t**2) / 2), t) / np.sqrt(2 * np.pi)
    one, other = (population_moments(each, 12) for each in (f, g))
    parts = np.cumsum([np.sum((one.of(k) - other.of(k)) ** 2) for k in range(13)])
    print(parts, exact)
    assert 0 <= exact - parts[12] < 0.6 * (exact - parts[6]) and exact - parts[12] < left * exact


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("z", [-1.5, 0.0, 0.8])
def test_scalars_from_coefficients_with_errors(first: int, z: float) -> None:
    """Lemmas D.10 and D.11 of Awasthi et al. (2021): γ within ε⁴/(2(1 + B)²) give b within ε|b|/(1 + B) + ε and a within ε."""
    epsilon, B, a = 0.3, 1.5, 1.2
    error = epsilon**4 / (2 * (1 + B) ** 2)
    exact = np.array([(-1.0) ** j * a * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * eval_hermitenorm(j, z)
                      for j in range(first, first + 4)])
    for signs in product((-1.0, 1.0), repeat=4):
        moved = exact + error * np.array(signs)
        found = scalars_by_recurrence(list(moved[:, None]), first)
        assert abs(found.biases[0] - z) <= epsilon * abs(z) / (1 + B) + epsilon and abs(found.readout[0] - a) <= epsilon
        if first == 0:  # for l = 1: two orders
            b = -moved[1] / moved[0]
            assert abs(b - z) <= epsilon
            assert abs(moved[0] * np.sqrt(2 * np.pi) * np.exp(b**2 / 2) - a) <= epsilon


def test_columns_of_products_are_as_independent_as_those_of_a_factor(rng: np.random.Generator) -> None:
    """Claim A.4 of Awasthi et al. (2021) without its 1/√(2k): s_k(U ⊙ V) ≥ s_k(U) times the least length of a column of V."""
    for _ in range(50):
        U, V = rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
        both = np.einsum("ik,jk->ijk", U, V).reshape(18, 4)
        assert _least(both) >= _least(U) * np.linalg.norm(V, axis=0).min() * (1 - 1e-12)
    W = rng.standard_normal((4, 6))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    assert khatri_rao_gap(W, 2) >= khatri_rao_gap(W, 1)


def _least(matrix: np.ndarray) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def test_accuracy_for_signs_has_m_where_the_proof_has_its_root() -> None:
    """Theorem 3.1 of Awasthi et al. (2021): z* = ξΦ(b) has length up to √m, which the printed chain drops."""
    network = lb.random_network(16, 16, biases=0.1, condition=1.0, readout="positive", rng=0)
    bounds = theory.relu_recovery(network, 1e-5)
    assert np.linalg.norm(ndtr(network.layer.biases / np.linalg.norm(network.layer.weights, axis=1))) > 1.9  # not below 1
    assert bounds["printed accuracy for signs"] == pytest.approx(4 * bounds["accuracy of units for their signs"])


def test_near_minima_of_g_are_where_theorem_b_1_says() -> None:
    """Theorem B.1(3), Proposition B.7 of Ge, Lee and Ma (2018): at a minimum, and at a point near it with a known slope."""
    teacher = landscape.Teacher(np.array([1.0, 2.0, 1.5]), np.eye(3), lb.relu)
    parameters = landscape.theorem_b_1(lb.relu, landscape.Bounds(1.0, 2.0), 3)
    g = landscape.population_g(teacher, mu=parameters.mu, strength=parameters.strength)
    exact = landscape.theorem_b_1_nearness(lb.relu, teacher.readout, parameters, 0.0)
    point = np.diag(np.sqrt(exact.lowest))
    assert_allclose(exact.lowest, exact.highest)
    assert np.linalg.norm(g.value_and_gradient(point).gradient) < 1e-12
    moved = point + 1e-6 * np.ones((3, 3))
    slope = float(np.linalg.norm(g.value_and_gradient(moved).gradient))
    near = landscape.theorem_b_1_nearness(lb.relu, teacher.readout, parameters, slope)
    assert np.abs(moved - np.diag(np.diag(moved))).max() <= near.rest
    assert (np.diag(moved) ** 2 <= near.highest).all() and (np.diag(moved) ** 2 >= near.lowest).all()


def test_rho_of_the_square_is_negative() -> None:
    """Zhong et al. (2017), Remark 4.3 has ρ(σ) = 0 for t²; its third term α₀α₂ - α₁² is -4σ²."""
    square = lb.Activation.custom("square", lambda t: t * t, lambda t: 2 * t, parity="even")
    assert square.properties().rho == pytest.approx(-4.0, abs=1e-6)
    assert square.properties(2.0).rho == pytest.approx(-16.0, abs=1e-5)


def test_constant_of_2_6_is_what_other_orders_have() -> None:
    """Theorem 2.2 and equation (2.6) of Ge, Lee and Ma (2018): E[y²] is the sum of all orders, the constant what two leave."""
    teacher = landscape.Teacher(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.6, 0.8]]), lb.relu)
    orders = tuple(range(80))
    whole = landscape.least_risk(teacher, ())
    assert whole == pytest.approx(sum(landscape.order_energy(teacher, k) for k in orders), rel=1e-3)
    left = [landscape.least_risk(teacher, orders[:n]) for n in (20, 40, 80)]
    assert whole > left[0] > left[1] > left[2] > 0
    assert landscape.least_risk(teacher, (2, 4)) == pytest.approx(whole - sum(landscape.order_energy(teacher, k) for k in (2, 4)))
