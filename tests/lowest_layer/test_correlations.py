"""Correlations with delta and its derivatives: closed forms in the plane against differences, slabs and ascent on samples."""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin, tan

import numpy as np
import pytest
from high_threshold_targets import planted, samples
from scipy.integrate import quad
from scipy.special import ndtr

import laybare as lb
from laybare.lowest_layer.printed.searches import measure_jumps
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.networks import max_angle
from laybare.networks.polynomials import Polynomial
from laybare.theory.high_threshold_forms import delta_prime_at_origin, density, step_unit_slope

P = Polynomial(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([0.3, 1.0, 0.8, -0.4]))


def along_line(s: float, angles: list[float], t: float, weight) -> float:
    """∫ weight(X(s, r)) φ(r) dr over the line z·x = s in the plane, exactly: X changes where r passes (t - s cos α)/sin α."""
    cuts = sorted([-np.inf, *((t - s * cos(a)) / sin(a) for a in angles), np.inf])
    total = 0.0
    for low, high in pairwise(cuts):
        middle = np.clip((max(low, -50.0) + min(high, 50.0)) / 2, -50, 50)
        X = np.array([[float(s * cos(a) + middle * sin(a) > t) for a in angles]])
        total += float(weight(X)) * (ndtr(high) - ndtr(low))
    return total


def c1(s: float, angles: list[float], t: float) -> float:
    return float(density(s)) * along_line(s, angles, t, lambda X: P(X)[0])


def difference(function, at: float, h: float = 2e-3) -> float:
    """Fourth-order central difference with one step of Richardson: error below 1e-11 here."""
    def central(h):
        return (8 * (function(at + h) - function(at - h)) - function(at + 2 * h) + function(at - 2 * h)) / (12 * h)

    return (16 * central(h / 2) - central(h)) / 15


@pytest.mark.parametrize("s", [0.4, 1.3, 2.2])
def test_slope_of_c1_with_the_corrected_factor(s):
    """Claim 4: cot with two independent densities; ∂P/∂X_i is known at the one point of the plane where both planes meet."""
    angles, t = [0.7, -1.9], 1.1
    gradients = []
    for i, a in enumerate(angles):
        r, other = (t - s * cos(a)) / sin(a), angles[1 - i]
        X = np.zeros((1, 2))
        X[0, 1 - i] = float(s * cos(other) + r * sin(other) > t)
        gradients.append(P.gradient(X)[0, i])
    wanted = sum(g * step_unit_slope(abs(a), t, s) for g, a in zip(gradients, angles, strict=True)) - s * c1(s, angles, t)
    assert difference(lambda v: c1(v, angles, t), s) == pytest.approx(wanted, abs=1e-10)


def test_joint_density_goes_with_the_cosine():
    """cot α φ(s) φ((t - s cos α)/sin α) = cos α times the joint density of (z·x, w·x) at (s, t)."""
    angle, t, s = 0.6, 1.4, 0.9
    cov = np.array([[1.0, cos(angle)], [cos(angle), 1.0]])
    v = np.array([s, t])
    joint = np.exp(-v @ np.linalg.solve(cov, v) / 2) / (2 * pi * np.sqrt(np.linalg.det(cov)))
    assert step_unit_slope(angle, t, s) == pytest.approx(cos(angle) * joint, abs=1e-12)


@pytest.mark.parametrize("angle", [0.4, 1.2, 2.4])
def test_slope_at_the_origin_keeps_its_sign(angle):
    def c(s):
        return float(density(s) * ndtr(s / tan(angle)))

    assert difference(c, 0.0) == pytest.approx(delta_prime_at_origin(angle), abs=1e-10)


@pytest.mark.parametrize("other", [1.2, 2.0])
def test_jump_at_a_step_unit(other):
    """C₂ at z = w₀: φ(t) E[∂P/∂X₀ | w₀·x = t] + O(ε), the error halves with ε."""
    t = 1.5

    def c(s):
        inactive = along_line(s, [other], t, lambda X: P(np.column_stack([np.full(1, float(s > t)), X]))[0])
        return float(density(s)) * inactive

    limit = float(density(t)) * along_line(t, [other], t, lambda X: P.gradient(np.column_stack([np.ones(1), X]))[0, 0])
    errors = [c(t + e) - c(t - e) - limit for e in (1e-2, 5e-3, 2.5e-3)]
    assert abs(errors[0]) < 0.02
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1) and errors[1] / errors[2] == pytest.approx(2.0, abs=0.1)


def test_jump_of_the_slope_at_a_relu_unit():
    """C₃ at z = w₀ for ReLU: φ(t) E[∂P/∂X₀ | w₀·x = t]; Lemma 19's further terms cancel in the difference."""
    t, a = 1.2, 1.1

    def conditional(s, function):
        def at(r):
            return function(np.array([[max(s - t, 0.0), max(s * cos(a) + r * sin(a) - t, 0.0)]])) * float(density(r))

        kink = (t - s * cos(a)) / sin(a)
        return quad(at, -12, kink, epsabs=1e-13)[0] + quad(at, kink, 12, epsabs=1e-13)[0]

    def slope(s, h=1e-4):
        return (float(density(s + h)) * conditional(s + h, lambda X: P(X)[0])
                - float(density(s - h)) * conditional(s - h, lambda X: P(X)[0])) / (2 * h)

    limit = float(density(t)) * conditional(t, lambda X: P.gradient(X)[0, 0])
    errors = [slope(t + e) - slope(t - e) - limit for e in (2e-2, 1e-2, 5e-3)]
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1) and errors[1] / errors[2] == pytest.approx(2.0, abs=0.1)
    assert abs(2 * errors[2] - errors[1]) < 1e-4


def test_slabs_see_a_unit_and_nothing_elsewhere(rng):
    target = planted(lb.step, "union", 3, 1, 1.5, rng, condition=1.0)
    source = samples(target, 200_000, rng)
    w = target.layer.weights[0]
    aside = np.linalg.svd(w[None])[2][1]
    seen, not_seen = (lb.lowest_layer.slab_correlations(source, z, 1.5, 0.05) for z in (w, aside))
    assert seen.second == pytest.approx(float(density(1.5)), abs=0.02)  # s.e. of a slab of 0.05 is 0.004
    assert abs(not_seen.second) < 0.03


def test_second_slab_difference_sees_a_relu_unit(rng):
    target = planted(lb.relu, "cubic", 3, 1, 1.5, rng, condition=1.0)
    source = samples(target, 400_000, rng)
    level = float(target(np.zeros((1, 3)))[0])
    found = lb.lowest_layer.slab_correlations(source, target.layer.weights[0], 1.5, 0.05, level).third
    slope = float(target.top.coefficients[1])
    assert found == pytest.approx(slope * float(density(1.5)), rel=0.4)  # a fifth is lost to ε = 0.05, a tenth to noise


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_of_the_jump(order, rng):
    source = samples(planted(lb.relu, "cubic", 4, 2, 1.0, rng), 2000, rng)
    z = rng.standard_normal(4)
    z /= np.linalg.norm(z)
    aside = rng.standard_normal(4)
    aside -= (aside @ z) * z

    def at(step=0.0, raised=0.0):
        moved = z + step * aside
        places = HalfSpaces(moved[None] / np.linalg.norm(moved), np.array([1.2 + raised]))
        return measure_jumps(source, places, np.array([0.4]), order=order)

    assert at().slopes[0] @ aside == pytest.approx((at(1e-5).values[0] - at(-1e-5).values[0]) / 2e-5, rel=1e-6)
    assert at().lifts[0] == pytest.approx((at(0.0, 1e-5).values[0] - at(0.0, -1e-5).values[0]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_ascent_with_delta_stays_at_a_unit_and_gets_closer(angle, rng):
    """The width falls with n: from 0.3 rad or from the truth 0.012 ± 0.006 rad after it (20 seeds); width 0.3 walked away."""
    target = planted(lb.step, "union", 5, 5, 2.0, rng)
    source = samples(target, 40_000, rng)
    w = target.layer.weights[0]
    aside = rng.standard_normal(5)
    aside -= (aside @ w) * w
    start = cos(angle) * w + sin(angle) * aside / np.linalg.norm(aside)
    found = lb.lowest_layer.DeltaAscent()(source, HalfSpaces(start[None], np.array([2.0])), rng=rng)
    print(f"from {angle} rad: {max_angle(found.weights, w[None]):.4f} rad, threshold {found.thresholds[0]:.3f}")
    assert max_angle(found.weights, w[None]) < 0.06
    assert found.thresholds[0] == pytest.approx(2.0, abs=0.06)


def test_slab_of_no_width_is_refused(rng):
    source = samples(planted(lb.step, "union", 3, 1, 1.0, rng, condition=1.0), 100, rng)
    with pytest.raises(lb.errors.InvalidInput, match="width of a slab"):
        lb.lowest_layer.slab_correlations(source, np.eye(3)[0], 1.0, 0.0)
