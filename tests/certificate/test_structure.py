"""The score test behind "structure left in the residual": its parts against plain least squares, its level on noise."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate.alternatives import _columns, _Features, _plan, gains_alone
from laybare.certificate.fitted import State, state_of
from laybare.certificate.structure import CHANCE, SUSPECT, what_is_left
from laybare.planted import random_network
from laybare.refinement.problem import pose_parts
from laybare.shapes import Array


def left_by(features: Array, y: Array) -> float:
    return float(np.sum((y - features @ np.linalg.lstsq(features, y, rcond=None)[0]) ** 2))


def test_gain_of_each_feature_is_that_of_least_squares(rng: np.random.Generator) -> None:
    phi, y = rng.standard_normal((40, 7)), rng.standard_normal((40, 2))
    gains = gains_alone(phi.T @ phi, phi.T @ y, 3)
    expected = [left_by(phi[:, :3], y) - left_by(phi[:, [0, 1, 2, j]], y) for j in range(3, 7)]
    assert_allclose(gains, expected, rtol=1e-10)


def refined_state(network: lb.Network, data: lb.Samples) -> State:
    return state_of(lb.refine(data, network).network, pose_parts(data, data, biases=True))


def test_best_new_unit_comes_first(rng: np.random.Generator) -> None:
    """It explains more of the residual than the last one; and what is left is seen."""
    truth, x = random_network(2, 2, rng=0), rng.standard_normal((400, 2))
    half = lb.Network(lb.Layer(truth.layer.weights[:1], truth.layer.biases[:1]), truth.readout[:1])
    state = refined_state(half, lb.Samples(x, truth(x) + 0.01 * rng.standard_normal(400)))
    most, units = what_is_left(state, rng)
    z, y = state.view.read(0, 400)
    own = state.point.features(z, state.point.extended(z) @ state.point.units.T)
    losses = [left_by(np.column_stack([own, lb.relu(state.point.extended(z) @ unit)]), y) for unit in units]
    assert np.argmin(losses) == 0
    assert np.argmax(losses) == len(losses) - 1
    assert most.evidence > CHANCE + np.log10(most.tests)


def test_noise_leaves_what_chance_would(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((500, 3))
    state = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(500)))
    most = what_is_left(state, rng).most
    assert most.evidence <= SUSPECT + np.log10(most.tests)  # beyond it in one of a hundred cases at most


def test_products_within_sets_are_those_of_all_columns(rng: np.random.Generator) -> None:
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((500, 3))
    state = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(500)))
    plan, (z, y) = _plan(state, rng.standard_normal((5, 4))), state.view.read(0, 500)
    columns, outputs = _columns(plan, z)
    gram, moment, _ = _Features(plan)(z, y)
    whole, q = columns.T @ columns, plan.own
    assert_allclose(moment, columns.T @ (y - outputs), atol=1e-10)
    assert_allclose(gram[:q], whole[:q], atol=1e-10)
    assert_allclose(np.diag(gram), np.diag(whole), atol=1e-10)
    for chosen in plan.sets.values():
        assert_allclose(gram[np.ix_(q + chosen, q + chosen)], whole[np.ix_(q + chosen, q + chosen)], atol=1e-10)
    assert len(plan.sets) > 3 and np.count_nonzero(gram) < np.count_nonzero(whole)
