"""Facets by ray bisection: all digits, small facets, budgets, noise."""

from __future__ import annotations

import numpy as np
import pytest
from high_threshold_targets import planted, union_top

import laybare as lb
from laybare.lowest_layer import FacetSearch
from laybare.lowest_layer.by_queries import calibrate, density_ratio, draw_proposal
from laybare.networks import max_angle
from laybare.planted import PlantedTarget, polynomial_top, threshold_layer

EXACT = 1e-10


@pytest.mark.parametrize("kind", ["cubic", "deep", "union"])
@pytest.mark.parametrize("activation", [lb.step, lb.relu], ids=lambda a: a.name)
def test_layer_to_twelve_digits(activation, kind, rng):
    if activation == lb.relu and kind == "union":
        kind = "bilinear"
    target = planted(activation, kind, 8, 8, 3.0, rng, condition=None)
    oracle = lb.Oracle(target, 8, budget=30_000)
    found = lb.recover_layer(oracle, lb.HighThreshold(activation=activation), 8)
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found.thresholds == pytest.approx(np.full(8, 3.0), abs=1e-9)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert oracle.spent <= 30_000


@pytest.mark.parametrize("t", [2.0, 6.0])
def test_width_need_not_be_told(t, rng):
    target = planted(lb.relu, "cubic", 8, 5, t, rng, condition=None)
    found = lb.recover_layer(lb.Oracle(target, 8, budget=30_000))
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found.top is not None and found.top.r2 > 0.98


def test_facet_under_a_tiny_solid_angle_is_found(rng):
    """A unit with threshold 60 beside units with threshold 1: a random ray meets it once in 10¹² or so, a null ray at once."""
    layer = lb.Layer(np.eye(4), np.array([-1.0, -1.0, -1.0, -60.0]), lb.step)
    found = lb.recover_layer(lb.Oracle(PlantedTarget(layer, union_top), 4, budget=20_000), lb.HighThreshold(activation=lb.step))
    assert found.layer.width == 4
    assert np.sort(found.thresholds) == pytest.approx([1.0, 1.0, 1.0, 60.0], rel=1e-9)


def test_dependent_rows_are_found_too(rng):
    """Five half-spaces in three dimensions: only three are independent."""
    layer = threshold_layer(3, 3, lb.step, 2.0, rng=rng)
    more = lb.Layer(np.vstack([layer.weights, -layer.weights[:2]]), -np.full(5, 2.0), lb.step)
    found = lb.recover_layer(lb.Oracle(PlantedTarget(more, union_top), 3, budget=20_000), lb.HighThreshold(activation=lb.step))
    assert found.layer.width == 5
    assert max_angle(found.layer.weights, more.weights) < EXACT


def test_active_centre_is_refused(rng):
    """Three units with thresholds that the origin exceeds; few draws have the same ones active."""
    layer = lb.Layer(np.eye(3), np.full(3, 0.1), lb.step)
    with pytest.raises(lb.errors.AssumptionViolated, match="centre of the inputs"):
        lb.recover_layer(lb.Oracle(PlantedTarget(layer, polynomial_top(3, rng=rng)), 3), lb.HighThreshold(activation=lb.step))


def test_other_laws_than_white(rng):
    """Correlated inputs with a mean: the facets are those on the inputs as they are."""
    target = planted(lb.relu, "cubic", 4, 3, 3.0, rng)
    A = rng.standard_normal((4, 4)) + 2 * np.eye(4)
    law = lb.Gaussian(0.1 * np.ones(4), A @ A.T)
    found = lb.recover_layer(lb.Oracle(target, 4, law=law, budget=30_000), width=3)
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found.thresholds == pytest.approx(np.full(3, 3.0), abs=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_inputs_in_any_unit(unit, rng):
    target = planted(lb.relu, "cubic", 4, 3, 3.0, rng)
    oracle = lb.Oracle(lambda x: target(x / unit), 4, law=lb.Gaussian(0.0, unit**2), budget=30_000)
    found = lb.recover_layer(oracle, lb.HighThreshold(top=None), 3)
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found.thresholds == pytest.approx(np.full(3, 3.0 * unit), rel=1e-9)
    assert found.certificate.verdict == "verified", found.certificate.explain()


def test_several_outputs(rng):
    target = planted(lb.relu, "cubic", 5, 4, 2.0, rng)
    other = polynomial_top(4, 2, rng=rng)
    oracle = lb.Oracle(lambda x: np.column_stack([target(x), other(target.layer(x))]), 5, budget=30_000)
    found = lb.recover_layer(oracle, width=4)
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found(np.zeros((3, 5))).shape == (3, 2)


def test_budget_that_does_not_suffice(rng):
    target = planted(lb.step, "union", 8, 8, 3.0, rng)
    with pytest.raises(lb.errors.BudgetExhausted, match=r"facets were found .* Grant about"):
        lb.recover_layer(lb.Oracle(target, 8, budget=3000), lb.HighThreshold(activation=lb.step), 8)


def test_more_facets_than_there_are(rng):
    target = planted(lb.step, "union", 5, 3, 2.0, rng)
    with pytest.raises(lb.errors.NotSeparated, match="3 of 4 facets"):
        lb.recover_layer(lb.Oracle(target, 5, budget=30_000), lb.HighThreshold(activation=lb.step), 4)


def test_smooth_units_have_no_facets(rng):
    target = planted(lb.sigmoid, "bilinear", 5, 3, 2.0, rng)
    with pytest.raises(lb.errors.AssumptionViolated, match="Near the centre"):
        lb.recover_layer(lb.Oracle(target, 5, budget=30_000), lb.HighThreshold(activation=lb.step), 3)


def test_constant_function_has_no_facets():
    with pytest.raises(lb.errors.AssumptionViolated, match="No ray"):
        lb.recover_layer(lb.Oracle(lambda x: np.ones(len(x)), 3, budget=30_000))


def test_noise_is_told_from_rounding(rng):
    target = planted(lb.relu, "cubic", 5, 5, 2.0, rng)
    clean = calibrate(lb.Oracle(target, 5), rng)
    noisy = calibrate(lb.Oracle(lambda x: target(x) + 0.01 * rng.standard_normal(len(x)), 5), rng)
    assert not clean.noise.any() and 0.0 < clean.tol < 1e-13
    assert noisy.noise[0] == pytest.approx(0.01, rel=0.4)  # 64 answers: 9 % s.e., 4 sigmas


@pytest.mark.parametrize("activation", [lb.step, lb.relu], ids=lambda a: a.name)
def test_noisy_queries_by_importance_sampling(activation, rng):
    """t = 3, where plain samples of this number fail: 0.003-0.01 rad over 10 seeds."""
    target = planted(activation, "cubic", 5, 5, 3.0, rng)
    oracle = lb.Oracle(lambda x: target(x) + 0.01 * rng.standard_normal(len(x)), 5, budget=20_000)
    found = lb.recover_layer(oracle, lb.HighThreshold(activation=activation), 5)
    assert max_angle(found.layer.weights, target.layer.weights) < 0.05
    assert found.certificate.verdict != "verified"  # noise is never passed over in silence
    assert oracle.spent <= 20_000


def test_weights_of_the_proposal_average_to_one(rng):
    """E_q[φ/q] = 1; 200,000 draws with weights below 10: s.e. below 0.01."""
    centres = 2.0 * np.eye(3)
    z = draw_proposal(centres, 200_000, 3, rng)
    assert np.mean(1.0 / density_ratio(z, centres)) == pytest.approx(1.0, abs=0.04)


def test_queries_can_be_switched_off(rng):
    target = planted(lb.relu, "cubic", 5, 5, 2.0, rng)
    oracle = lb.Oracle(target, 5, budget=12_000)
    found = lb.recover_layer(oracle, lb.HighThreshold(queries=None), 5)
    assert max_angle(found.layer.weights, target.layer.weights) < EXACT
    assert found.samples_used == 12_000


def test_same_seed_same_bits(rng):
    target = planted(lb.step, "union", 5, 5, 2.0, rng)
    method = lb.HighThreshold(activation=lb.step, queries=FacetSearch(random_rays=5))
    one, two = (lb.recover_layer(lb.Oracle(target, 5, budget=20_000), method, 5, rng=3).layer.weights for _ in range(2))
    assert np.array_equal(one, two)


def test_a_box_is_not_left_and_what_bends_inside_is_found(rng):
    """Three units: two cut the box, the third sleeps in all of it; the oracle refuses any point outside."""
    layer = lb.Layer(np.array([[1.0, 0.5, 0.0], [-0.3, 1.0, 0.2], [0.0, 0.0, 1.0]]), np.array([-0.7, -0.9, -9.0]), lb.relu)
    target = PlantedTarget(layer, polynomial_top(3, 2, rng=rng))
    asked = []

    def watched(x):
        asked.append(np.abs(x).max())
        return target(x)

    found = lb.recover_layer(lb.Oracle(watched, 3, box=(-1.0, 1.0), budget=20_000))
    assert max(asked) <= 1.0
    unit = layer.weights[:2] / np.linalg.norm(layer.weights[:2], axis=1, keepdims=True)
    assert found.layer.width == 2 and max_angle(found.layer.weights, unit) < EXACT
    assert found.certificate.verdict == "verified", found.certificate.explain()
