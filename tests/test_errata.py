"""Slips in the papers' texts, each with its numbers: what is printed fails, what the code follows holds.

The pages of the methods list them.
"""

from __future__ import annotations

from itertools import product
from math import comb, factorial, sqrt

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss, hermeval
from numpy.testing import assert_allclose

from laybare.activations import power_relu, relu
from laybare.landscape import Bounds, Teacher, algorithm_1, coefficient, population_g, second_order, theorem_2_3, whitening
from laybare.methods.printed.ge_2019 import leading_outputs
from laybare.moments import population_moments
from laybare.networks import Layer, Network
from laybare.planted import orthonormal_weights, random_network
from laybare.source import Samples, Symmetric


def symmetric_rows(rng, rows=40, dim=3):
    """A law of finitely many points, symmetric: expectations are exact sums."""
    half = rng.standard_normal((rows, dim))
    return np.concatenate([half, -half])


# Ge, Kuditipudi, Li and Wang (2019)


@pytest.mark.parametrize(("p", "q"), [(0, 2), (1, 1), (2, 0), (2, 2), (3, 1)])
def test_lemma_6_of_symmetric_inputs_needs_p_of_at_least_1(p, q, rng):
    """Ge et al. (2019), Lemma 6: E[relu(a·x)^p x^q] is ½ E[(a·x)^p x^q] for p + q even, p ≥ 0. At p = 0 it is not."""
    x = symmetric_rows(rng)
    t = x @ rng.standard_normal(3)
    power = np.prod([x[:, i % 3] for i in range(q)], axis=0) if q else np.ones(len(x))
    left, right = np.mean(relu(t) ** p * power), np.mean(t**p * power)
    assert_allclose(left, right if p == 0 else right / 2, rtol=1e-12)
    assert p > 0 or abs(left - right / 2) > 0.1 * abs(left)


def test_equation_11_of_symmetric_inputs_needs_its_bracket(rng):
    """Ge et al. (2019), equation (11): with noise f(u) vanishes at a pure neuron only if E[x⊗x] multiplies both terms.

    Algorithm 3 has the bracket; our copy of (11), which lost others, has not.
    """
    x = symmetric_rows(rng)
    W, A, noise = rng.standard_normal((2, 3)), rng.standard_normal((2, 2)), rng.standard_normal(2)
    x, signs = np.repeat(x, 2, axis=0), np.tile([1.0, -1.0], len(x))  # every input with both signs of one noise: independent
    y = relu(x @ W.T) @ A.T + signs[:, None] * noise
    C = x.T @ x / len(x)
    u = np.linalg.inv(A)[0]
    along, B = y @ u, np.linalg.solve(C, x.T @ (y @ u) / len(x))
    plain = 2 * (x * (along * (x @ B))[:, None]).T @ x / len(x) - (x * (along**2)[:, None]).T @ x / len(x)
    square, odd = np.mean(along**2), 2 * B @ C @ B
    assert_allclose(plain + (square - odd) * C, 0.0, atol=1e-12)
    assert np.abs(plain + square - odd * C).max() > 0.1  # without it the first of the two terms stands alone


def test_first_moment_in_the_proof_of_theorem_6_of_symmetric_inputs(rng):
    """Ge et al. (2019), Theorem 6 and Algorithm 4: E[yxᵀ] is ½ AW E[xxᵀ] by Lemma 6; our copy has 2 AW E[xxᵀ]."""
    x = symmetric_rows(rng)
    W, A = rng.standard_normal((2, 3)), rng.standard_normal((4, 2))
    moment, C = (relu(x @ W.T) @ A.T).T @ x / len(x), x.T @ x / len(x)
    assert_allclose(moment, A @ W @ C / 2, rtol=1e-10)


def test_algorithm_4_of_symmetric_inputs_may_take_all_samples_for_both_steps():
    """Ge et al. (2019), Algorithm 4: halves i ≤ n/2 for P and i ≥ n/2 for the rest share a sample, and need not be halves at all.

    Distance of P from the columns of A over 20 draws of 2000 samples: 0.0174 from halves, 0.0106 from all.
    """
    network = random_network(6, 3, biases=0, outputs=5, rng=2)
    basis = np.linalg.qr(network.readout.T)[0]
    squares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((2000, 6))
        source = Samples(x, network(x) + 0.1 * rng.standard_normal((2000, 5)), law=Symmetric())
        spans = [leading_outputs(part, 3) for part in (source.between(0, 1000), source)]
        squares.append([np.sum((P - basis @ (basis.T @ P)) ** 2) for P in spans])
    half, whole = np.sqrt(np.mean(squares, axis=0))
    assert_allclose([half, whole], [0.0174, 0.0106], rtol=0.01)


# Ge, Lee and Ma (2018)


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_footnote_4_of_landscape_design_lost_a_sign(n):
    """Ge, Lee and Ma (2018), Footnote 4: σ_n of ReLU is (-1)^(n/2+1) (n-3)!!/√(2πn!) for even n, without the sign."""
    double = float(np.prod(np.arange(n - 3, 0, -2))) if n > 2 else 1.0
    printed = double / sqrt(2 * np.pi * factorial(n))
    assert_allclose(coefficient(relu, n), (-1) ** (n // 2 + 1) * printed, rtol=1e-9)


def test_item_2_of_theorem_2_3_has_the_other_sign(rng):
    """Ge, Lee and Ma (2018), Theorem 2.3: a saddle of G has curvature at most -τ₀. Printed is ≥ -τ₀, which B = 0 contradicts."""
    teacher = Teacher(np.array([1.0, 1.5, 2.0]), orthonormal_weights(3, 3, rng=rng), relu)
    chosen = theorem_2_3(Bounds(1.0, 2.0), 3)
    saddle = second_order(population_g(teacher, mu=chosen.mu, strength=chosen.strength), np.zeros((3, 3)), rng=rng)
    assert saddle.gradient_norm == 0.0
    assert saddle.smallest < -chosen.curvature < 0.0


def test_lemma_2_5_of_landscape_design_lost_a_root():
    """Ge, Lee and Ma (2018), Lemma 2.5: rows within δ give readouts within √m δ a_max. Printed is δ a_max.

    Its proof bounds ⟨a*, u⟩, where every |uⱼ| may be δ/√m at once. Nine units turned by 0.1 towards the sum of the others.
    """
    m, turned = 9, 0.1
    rows = np.cos(turned) * np.eye(m) + np.sin(turned) * (1.0 - np.eye(m)) / sqrt(m - 1)
    near = float(np.linalg.norm(rows - np.eye(m), axis=1).max())
    error = float(np.abs(algorithm_1(rows, 0.5 * np.ones(m), 0.5).readout - 1.0).max())
    assert 2.5 * near < error < sqrt(m) * near


def test_equation_c_4_inverts_the_moment(rng):
    """Ge, Lee and Ma (2018), equation (C.4): the whitening W has WWᵀ = M⁻¹; our copy has M."""
    root = rng.standard_normal((4, 4))
    M = root @ root.T
    W = whitening(M, 4)[0]
    assert_allclose(W @ W.T @ M, np.eye(4), atol=1e-8)
    assert np.abs(W @ W.T - M).max() > 0.1


# Awasthi, Tang and Vijayaraghavan (2021)


def gammas(k, beta, z):
    """γ_j = (-1)^j β He_j(z) for j = k, …, k+3."""
    return {j: (-1) ** j * beta * hermeval(z, np.eye(j + 1)[j]) for j in range(k, k + 4)}


@pytest.mark.parametrize(("k", "z"), list(product(range(4), (-1.3, 0.0, 0.4, 1.0, 2.2))))
def test_lemma_4_5_of_general_relu_holds_from_order_0_on(k, z):
    """Awasthi et al. (2021), Lemma 4.5: four consecutive γ tell z and β for k ≥ 0; stated is k ≥ 2, used is k = 0."""
    seen = gammas(k, 0.7, z)
    q = max((k + 1, k + 2), key=lambda j: abs(seen[j]))
    found = -(seen[q + 1] + q * seen[q - 1]) / seen[q]
    assert_allclose(found, z, atol=1e-12)
    assert_allclose((-1) ** q * seen[q] / hermeval(found, np.eye(q + 1)[q]), 0.7, rtol=1e-10)


def test_claim_4_6_of_general_relu_needs_four_orders():
    """Awasthi et al. (2021), Claim 4.6: orders l, l+1, l+2, l+3. The text has l+2 twice.

    At z = 0, l = 2, order l+1 vanishes, so that the lemma divides by order l+2 and needs order l+3; at z = 0.1 it gives -1.2 with
    order l+2 in its place.
    """
    seen, other = gammas(0, 0.7, 0.0), gammas(0, 0.7, 0.1)
    assert seen[1] == 0.0 and seen[2] != 0.0
    assert_allclose(-(seen[3] + 2 * seen[1]) / seen[2], 0.0, atol=1e-15)
    assert_allclose([-(other[j] + 2 * other[1]) / other[2] for j in (3, 2)], [0.1, -1.2], atol=0.003)


@pytest.mark.parametrize("k", range(1, 9))
def test_lemma_4_3_of_general_relu_holds_for_the_next_orders(k):
    """Awasthi et al. (2021), Lemma 4.3: max(|He_k|, |He_{k+1}|) ≥ √(k!/2) fails; for k+1 and k+2 it holds."""
    x = np.linspace(-6.0, 6.0, 200_001)
    values = [np.abs(hermeval(x, np.eye(j + 1)[j])) for j in (k, k + 1, k + 2)]
    bound = sqrt(factorial(k) / 2)
    assert np.maximum(values[0], values[1]).min() < 0.91 * bound
    assert np.maximum(values[1], values[2]).min() >= bound


def test_claims_d_5_d_6_and_d_8_of_general_relu(rng):
    """Awasthi et al. (2021), Claims D.5, D.6 and D.8: two unit vectors from their powers, near rank-one terms, Cramér's bound.

    D.5 holds with √l for √(2l), D.6 with ε for 3ε.
    """
    for order in (2, 3, 4):
        u, v = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in rng.standard_normal((2, 300, 3)))
        c = np.sum(u * v, axis=1)
        assert (np.sqrt(1 - np.abs(c)) >= np.sqrt(1 - np.abs(c) ** order) / sqrt(order) - 1e-12).all()
        alpha, beta = rng.uniform(0.5, 2.0, (2, 300))
        near = u + 0.05 * v
        near /= np.linalg.norm(near, axis=1)[:, None]
        d = np.sum(u * near, axis=1)
        error = np.sqrt(alpha**2 + beta**2 - 2 * alpha * beta * d**order)
        kept = error < alpha / 2
        assert kept.any() and (np.linalg.norm(u - near, axis=1) <= sqrt(2) * error / alpha)[kept].all()
        assert (np.abs(alpha - beta) <= error + 1e-12).all()
    x = np.linspace(-8.0, 8.0, 4001)
    assert all((np.abs(hermeval(x, np.eye(k + 1)[k])) * np.exp(-(x**2) / 2) <= sqrt(factorial(k)) + 1e-9).all() for k in range(9))


# Goel and Panigrahy (2019)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 1), (4, 2), (5, 3)])
def test_fact_5_of_high_threshold_is_a_coefficient(n, m):
    """Goel and Panigrahy (2019), Fact 5: γᵐ(γ² - 1)ᵏ C(n, 2k) (2k)!/k! 2⁻ᵏ, k = (n - m)/2, is that of He_m in He_n(γx).

    Printed is that it is E[h_m(x) h_n(γx)]: that is √(m!/n!) times it, and E[He_m(x) He_n(γx)] is m! times it.
    """
    gamma, k, (x, w) = 1.3, (n - m) // 2, hermegauss(20)
    found = gamma**m * (gamma**2 - 1) ** k * comb(n, 2 * k) * factorial(2 * k) / factorial(k) / 2**k
    mean = w / w.sum() @ (hermeval(x, np.eye(m + 1)[m]) * hermeval(gamma * x, np.eye(n + 1)[n]))
    assert mean == pytest.approx(factorial(m) * found)
    assert mean / sqrt(factorial(m) * factorial(n)) == pytest.approx(sqrt(factorial(m) / factorial(n)) * found)


# Zhong, Song, Jain, Bartlett and Dhillon (2017)


@pytest.mark.parametrize("activation", [relu, power_relu(2)])
def test_assumption_5_3_of_tensor_init_has_one_index_too_few(activation, rng):
    """Zhong et al. (2017), Assumption 5.3(1) means: if M_j ≠ 0 then m_{j,i} ≠ 0 for all units i.

    Printed is m_{i,i}: for unit 3 of ReLU that is order 3, and 0.
    """
    network = Network(Layer(rng.standard_normal((4, 4)), None, activation), np.array([1.0, -1.0, 1.0, 1.0]))
    lengths = np.linalg.norm(network.layer.weights, axis=1)
    for j in (1, 2, 3, 4):
        units = np.array([activation.hermite(j, scale=s) for s in lengths])
        there = bool(np.abs(population_moments(network, 4).tensor(j)).max() > 1e-10)
        assert there == bool(np.abs(units).min() > 1e-10)
    vanishing = 3 if activation is relu else 4
    assert abs(activation.hermite(vanishing, scale=lengths[vanishing - 1])) < 1e-12
