"""The parts of HighThreshold by themselves: baselines, profiles, half-spaces, lines, joint fits, tops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from high_threshold_targets import planted, samples
from scipy.special import ndtr, ndtri
from sklearn.linear_model import LinearRegression

import laybare as lb
from laybare.lowest_layer.active_rows import find_baseline, fit_unit_lines, label_active_rows, read_active_rows
from laybare.lowest_layer.layer_start import PROFILE, Profile, ThirdMoments, probit_estimate, slab_estimate
from laybare.lowest_layer.printed.searches import TrialRules, refine_estimate
from laybare.lowest_layer.smooth_route import with_positive_thresholds
from laybare.lowest_layer.tops import JointModel, MonomialTop, RegressorTop, fit_joint, held_out_r2, joint_model_at
from laybare.lowest_layer.union_fit import (
    Annealing,
    HalfSpaces,
    RepairLimits,
    count_mismatch,
    fit_half_spaces,
    repair_union,
    union_loss,
)
from laybare.networks import max_angle
from laybare.networks.polynomials import Polynomial, monomials, multilinear, with_powers
from laybare.planted import threshold_layer


def turned(weights: np.ndarray, angle: float, rng: np.random.Generator) -> np.ndarray:
    """Every row turned by `angle` towards a random side."""
    aside = rng.standard_normal(weights.shape)
    aside -= np.sum(aside * weights, axis=1, keepdims=True) * weights
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    return np.cos(angle) * weights + np.sin(angle) * aside


def test_gradient_of_a_polynomial(rng):
    exponents = with_powers(multilinear(3, 3), 3)
    top, X, h = Polynomial(exponents, rng.standard_normal(len(exponents))), rng.standard_normal((4, 3)), 1e-6
    for j, e in enumerate(h * np.eye(3)):
        assert top.gradient(X)[:, j] == pytest.approx((top(X + e) - top(X - e)) / (2 * h), abs=1e-7)


def test_monomials_are_products_of_powers(rng):
    X = rng.standard_normal((5, 2))
    assert monomials(np.array([[0, 0], [2, 1], [0, 3]]), X) == pytest.approx(
        np.column_stack([np.ones(5), X[:, 0] ** 2 * X[:, 1], X[:, 1] ** 3]))


def test_baseline_is_the_tie(rng):
    source = samples(planted(lb.relu, "cubic", 5, 5, 2.0, rng), 4000, rng)
    found = find_baseline(source)
    silent = float(source.y[np.argmin(np.abs(source.x).sum(axis=1))])
    assert found.exact and found.value[0] == silent
    assert found.silent == np.mean(source.y == silent)


def test_baseline_of_noisy_outputs(rng):
    """Bulk of 4000 rows: centre within 4 s.e. of c₀, and the spread within 10 % (its s.e. is 1.5 %, the units add a little)."""
    target = planted(lb.relu, "cubic", 5, 5, 2.0, rng)
    found = find_baseline(samples(target, 4000, rng, noise=0.01))
    level = float(target(np.zeros((1, 5)))[0])
    assert not found.exact
    assert found.value[0] == pytest.approx(level, abs=1e-3)
    assert found.noise[0] == pytest.approx(0.01, rel=0.1)


def test_often_active_units_are_refused(rng):
    with pytest.raises(lb.errors.AssumptionViolated, match="most frequent output holds"):
        find_baseline(samples(planted(lb.step, "cubic", 5, 5, 0.5, rng), 4000, rng))


def exact_profile(angle: float, t: float, floor: float) -> Profile:
    centres = PROFILE.low + (np.arange(PROFILE.bins) + 0.5) * (PROFILE.high - PROFILE.low) / PROFILE.bins
    rows = 1e6 * np.exp(-(centres**2) / 2)
    rate = floor + (1 - floor) * ndtr((centres * np.cos(angle) - t) / np.sin(angle))
    return Profile(centres, rows[None], (rows * rate)[None])


@pytest.mark.parametrize("angle", [0.05, 0.1, 0.3, 0.6])
def test_probit_with_a_floor_reads_angle_and_threshold(angle):
    edge = probit_estimate(exact_profile(angle, 2.0, 0.08), 0)
    assert edge.tangent == pytest.approx(np.tan(angle), rel=0.01)
    assert edge.threshold == pytest.approx(2.0, abs=0.005) and edge.floor == pytest.approx(0.08, abs=0.005)


def test_tangent_between_two_rates_is_exact():
    """(t₂ - t₁)/(Φ⁻¹(0.6) - Φ⁻¹(0.4)) = tan α where Φ((s cos α - t)/sin α) is 0.4 and 0.6."""
    angle, t = 0.3, 2.0
    low, high = ((t + np.sin(angle) * ndtri(rate)) / np.cos(angle) for rate in (0.4, 0.6))
    assert (high - low) / (ndtri(0.6) - ndtri(0.4)) == pytest.approx(np.tan(angle), abs=1e-12)


def test_slabs_overestimate_small_angles():
    """A slab of 0.1 is wider than the edge at 0.03 rad; with no floor the estimate is right at large angles."""
    assert slab_estimate(exact_profile(0.6, 2.0, 0.0), 0).tangent == pytest.approx(np.tan(0.6), rel=0.1)
    assert slab_estimate(exact_profile(0.03, 2.0, 0.0), 0, 0.1).tangent > 1.3 * np.tan(0.03)


def test_random_search_reduces_the_angle(rng):
    """From 0.2 rad with the probit; accepted steps shrink the estimate, and with it the angle."""
    target = planted(lb.step, "union", 5, 5, 2.0, rng)
    source = samples(target, 20_000, rng)
    start = turned(target.layer.weights[:1], 0.2, rng)[0]
    activity = label_active_rows(source, find_baseline(source))
    found = refine_estimate(activity, start, TrialRules(max_trials=15), estimate=probit_estimate, rng=rng)
    assert max_angle(found.direction[None], target.layer.weights[:1]) < 0.2
    assert all(later < before for before, later in pairwise(found.tangents))


def test_gradient_of_the_union_loss(rng):
    rows, x = rng.standard_normal((3, 5)), np.column_stack([rng.standard_normal((40, 4)), np.ones(40)])
    active = rng.random(40) < 0.4
    for tau in (0.5, 0.02):
        loss, slope = union_loss(rows, x, active, tau)
        assert np.isfinite(loss)
        for i, j in ((0, 0), (1, 3), (2, 4)):
            e = np.zeros_like(rows)
            e[i, j] = 1e-6
            difference = union_loss(rows + e, x, active, tau)[0] - union_loss(rows - e, x, active, tau)[0]
            assert slope[i, j] == pytest.approx(difference / 2e-6, rel=1e-4, abs=1e-6)


def test_union_loss_stays_finite_far_from_the_boundary():
    x = np.array([[40.0, 1.0], [-40.0, 1.0]])
    loss, slope = union_loss(np.array([[1.0, 0.0]]), x, np.array([False, True]), 0.002)
    assert np.isfinite(loss) and np.isfinite(slope).all() and slope[0, 0] > 0


def test_union_fit_error_falls_like_one_over_n():
    """Mean log angle over 4 seeds at 5000 and 40,000 rows: the exponent was -1.11 ± 0.13 over 6 other blocks of seeds."""
    logs = []
    for rows in (5000, 40_000):
        angles = []
        for seed in range(4):
            rng = np.random.default_rng([seed, 3])
            target = planted(lb.step, "union", 3, 3, 1.5, rng)
            source = samples(target, rows, rng)
            start = HalfSpaces(turned(target.layer.weights, 0.1, rng), np.full(3, 1.4))
            found = fit_half_spaces(label_active_rows(source, find_baseline(source)), start)
            angles.append(max_angle(found.weights, target.layer.weights))
        logs.append(np.mean(np.log(angles)))
    assert abs((logs[1] - logs[0]) / np.log(8) + 1.11) < 0.52


def test_missing_unit_is_found_among_uncovered_rows(rng):
    """One row of the start points nowhere; without repair the mismatch stays above 5 in 1000."""
    target = planted(lb.step, "union", 5, 5, 2.0, rng)
    source = samples(target, 20_000, rng)
    activity = label_active_rows(source, find_baseline(source))
    weights = target.layer.weights.copy()
    weights[0] = -weights[0]
    bad = HalfSpaces(weights, np.full(5, 2.0))
    assert count_mismatch(activity, bad).share > 5e-3
    covered = repair_union(activity, bad, Annealing(), RepairLimits(6, 5e-4, may_add=False), rng=rng)
    assert covered.mismatch.share < 5e-4
    assert max_angle(covered.spaces.weights, target.layer.weights) < 0.05


def test_lines_are_exact_from_a_rough_start(rng):
    target = planted(lb.relu, "cubic", 5, 5, 2.0, rng)
    source = samples(target, 10_000, rng)
    rule = find_baseline(source)
    start = HalfSpaces(turned(target.layer.weights, 0.2, rng), np.full(5, 1.8))
    found = fit_unit_lines(read_active_rows(source, rule), rule, start)
    assert found.exact
    assert max_angle(found.spaces.weights, target.layer.weights) < 1e-12
    assert found.spaces.thresholds == pytest.approx(np.full(5, 2.0), abs=1e-11)
    assert np.sort(found.slopes) == pytest.approx(np.sort(target.top.coefficients[1:6]), abs=1e-11)


def test_lines_under_a_deep_top_are_not_called_exact(rng):
    target = planted(lb.relu, "deep", 5, 5, 2.0, rng)
    source = samples(target, 10_000, rng)
    rule = find_baseline(source)
    found = fit_unit_lines(read_active_rows(source, rule), rule, HalfSpaces(target.layer.weights, np.full(5, 2.0)))
    assert not found.exact


def test_third_moments_are_close(rng):
    """Step units, d = 5, n = 40,000: 0.115 ± 0.025 rad over 20 seeds; 0.3 is more than 7 sigmas away."""
    target = planted(lb.step, "cubic", 5, 5, 2.0, rng)
    source = samples(target, 40_000, rng)
    found = ThirdMoments()(label_active_rows(source, find_baseline(source)), 5, rng=rng)
    assert max_angle(found.weights, target.layer.weights) < 0.3
    assert (found.first > 0).all() and (found.second > 0).all()


def test_joint_fit_is_exact_from_a_rough_start(rng):
    target = planted(lb.sigmoid, "bilinear", 4, 3, 3.0, rng)
    source = samples(target, 4000, rng)
    start = joint_model_at(source, turned(target.layer.weights, 0.15, rng), np.full(3, 3.7), multilinear(3, 2), lb.sigmoid)
    found = fit_joint(source, start)
    assert found.trace.loss < 1e-24
    assert max_angle(found.joint.rows[:, :-1], target.layer.weights) < 1e-10
    assert found.joint.top.coefficients == pytest.approx(target.top.coefficients, rel=1e-7)


@pytest.mark.parametrize("activation", [lb.sigmoid, lb.tanh], ids=lambda a: a.name)
def test_turned_units_give_the_same_function(activation, rng):
    rows = np.column_stack([rng.standard_normal((3, 4)), [1.0, -0.5, 2.0]])
    joint = JointModel(rows, Polynomial(multilinear(3, 2), rng.standard_normal(7)), activation)
    down, x = with_positive_thresholds(joint), rng.standard_normal((20, 4))
    assert (down.rows[:, -1] < 0).all()
    assert down(x) == pytest.approx(joint(x), abs=1e-12)


def test_tops_predict_held_out_rows(rng):
    target = planted(lb.relu, "bilinear", 5, 3, 1.0, rng)
    used, fresh = samples(target, 8000, rng), samples(target, 2000, rng)
    polynomial = MonomialTop().fit(used, target.layer)
    assert held_out_r2(fresh, target.layer, polynomial) == pytest.approx(1.0, abs=1e-9)
    linear = RegressorTop(LinearRegression()).fit(used, target.layer)
    assert 0.8 < held_out_r2(fresh, target.layer, linear) < 0.9999


def test_regressor_without_fit_is_refused(rng):
    target = planted(lb.relu, "cubic", 5, 3, 1.5, rng)
    with pytest.raises(lb.errors.InvalidInput, match="fit"):
        RegressorTop(3.0).fit(samples(target, 100, rng), target.layer)


def test_layers_have_the_condition_that_was_asked_for(rng):
    layer = threshold_layer(10, 10, lb.relu, 2.0, condition=3.0, rng=rng)
    assert np.linalg.cond(layer.weights) <= 3.0
    assert np.linalg.norm(layer.weights, axis=1) == pytest.approx(np.ones(10))
