"""The score test behind "structure left in the residual": its parts against plain least squares, its level on noise."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate.fitted import State, state_of
from laybare.certificate.structure import SIGMAS, _alone, residual_structure
from laybare.planted import random_network
from laybare.refinement.problem import pose_parts
from laybare.shapes import Array


def left_by(features: Array, y: Array) -> float:
    return float(np.sum((y - features @ np.linalg.lstsq(features, y, rcond=None)[0]) ** 2))


def test_gain_of_each_feature_is_that_of_least_squares(rng: np.random.Generator) -> None:
    phi, y = rng.standard_normal((40, 7)), rng.standard_normal((40, 2))
    gains = _alone(phi.T @ phi, phi.T @ y, 3)
    expected = [left_by(phi[:, :3], y) - left_by(phi[:, [0, 1, 2, j]], y) for j in range(3, 7)]
    assert_allclose(gains, expected, rtol=1e-10)


def refined_state(network: lb.Network, data: lb.Samples) -> State:
    return state_of(lb.refine(data, network).network, pose_parts(data, data, biases=True))


def test_best_new_unit_comes_first(rng: np.random.Generator) -> None:
    """It explains more of the residual than the last one, and the whole explains more than either."""
    truth, x = random_network(2, 2, rng=0), rng.standard_normal((400, 2))
    half = lb.Network(lb.Layer(truth.layer.weights[:1], truth.layer.biases[:1]), truth.readout[:1])
    state = refined_state(half, lb.Samples(x, truth(x) + 0.01 * rng.standard_normal(400)))
    structure = residual_structure(state, rng)
    z, y = state.view.read(0, 400)
    own = state.point.features(z, state.point.extended(z) @ state.point.units.T)
    losses = [left_by(np.column_stack([own, lb.relu(state.point.extended(z) @ unit)]), y) for unit in structure.units]
    assert np.argmin(losses) == 0
    assert np.argmax(losses) == len(losses) - 1
    assert structure.share > 1.0 - min(losses) / left_by(own, y)


def test_noise_leaves_what_chance_would(rng: np.random.Generator) -> None:
    """Share · (N - p) is at most χ² with as many degrees of freedom as new features."""
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((500, 3))
    state = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(500)))
    structure = residual_structure(state, rng)
    free = structure.features
    assert abs(structure.share * state.spare - free) < SIGMAS * np.sqrt(2.0 * free)
