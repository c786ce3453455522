"""The score test behind "structure left in the residual": its parts against plain least squares, its level on noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate import fitted_network
from laybare.certificate.certificate import RULES
from laybare.certificate.explanations import (
    _columns,
    _Features,
    _plan,
    _random_units,
    find_residual_structure,
    residual_structure_claim,
    single_feature_gains,
    strongest_alternative,
)
from laybare.certificate.fitted_network import FittedNetwork, evaluate_fit
from laybare.numerics.shapes import Array
from laybare.planted import random_network
from laybare.source.problem import pose_parts


def left_by(features: Array, y: Array) -> float:
    return float(np.sum((y - features @ np.linalg.lstsq(features, y, rcond=None)[0]) ** 2))


def test_gain_of_each_feature_is_that_of_least_squares(rng: np.random.Generator) -> None:
    phi, y = rng.standard_normal((40, 7)), rng.standard_normal((40, 2))
    gains = single_feature_gains(phi.T @ phi, phi.T @ y, 3)
    expected = [left_by(phi[:, :3], y) - left_by(phi[:, [0, 1, 2, j]], y) for j in range(3, 7)]
    assert_allclose(gains, expected, rtol=1e-10)


def refined_state(network: lb.Network, data: lb.Samples) -> FittedNetwork:
    return evaluate_fit(lb.refine(data, network).network, pose_parts(data, data, biases=True))


def test_best_new_unit_comes_first(rng: np.random.Generator) -> None:
    """It explains more of the residual than the last one; and what is left is seen."""
    truth, x = random_network(2, 2, rng=0), rng.standard_normal((400, 2))
    half = lb.Network(lb.Layer(truth.layer.weights[:1], truth.layer.biases[:1]), truth.readout[:1])
    fitted = refined_state(half, lb.Samples(x, truth(x) + 0.01 * rng.standard_normal(400)))
    strongest, units = find_residual_structure(fitted, rng)
    z, y = fitted.used.read(0, 400)
    own = fitted.point.features(z, fitted.point.extended(z) @ fitted.point.units.T)
    losses = [left_by(np.column_stack([own, lb.relu(fitted.point.extended(z) @ unit)]), y) for unit in units]
    assert np.argmin(losses) == 0
    assert np.argmax(losses) == len(losses) - 1
    assert strongest.evidence > RULES.refuting_evidence + np.log10(strongest.tests)


def test_noise_leaves_what_chance_would(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((500, 3))
    fitted = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(500)))
    strongest = find_residual_structure(fitted, rng).strongest
    assert strongest.evidence <= RULES.doubting_evidence + np.log10(strongest.tests)  # beyond it in 1 % at most


def test_products_within_sets_are_those_of_all_columns(rng: np.random.Generator) -> None:
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((500, 3))
    fitted = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(500)))
    plan, (z, y) = _plan(fitted, rng.standard_normal((5, 4))), fitted.used.read(0, 500)
    columns, outputs = _columns(plan, z)
    gram, moment, _ = _Features(plan)(z, y)
    whole, q = columns.T @ columns, plan.own
    assert_allclose(moment, columns.T @ (y - outputs), atol=1e-10)
    assert_allclose(gram[:q], whole[:q], atol=1e-10)
    assert_allclose(np.diag(gram), np.diag(whole), atol=1e-10)
    for chosen in plan.sets.values():
        assert_allclose(gram[np.ix_(q + chosen, q + chosen)], whole[np.ix_(q + chosen, q + chosen)], atol=1e-10)
    assert len(plan.sets) > 3 and np.count_nonzero(gram) < np.count_nonzero(whole)


def looks(seed: int, product: float) -> tuple[bool, bool, bool, bool]:
    """Whether a look at some of the rows is suspicious, whether both are; and whether something is left by either, for
    noise and so much of a product of inputs, in standard deviations of the noise."""
    rng = np.random.default_rng(seed)
    truth, x = random_network(4, 3, rng=rng), rng.standard_normal((9000, 4))
    y = truth(x)
    noise = rng.standard_normal(9000) + product * x[:, 0] * x[:, 1]
    samples = lb.Samples(x, y + 0.1 * y.std() * noise)
    fitted = evaluate_fit(truth, pose_parts(samples, samples, biases=True))  # what its tangents explain is taken out
    units = _random_units(fitted.point, 100, np.random.default_rng(0))
    once = strongest_alternative(fitted, units, fitted.residual_rows).strongest
    twice = find_residual_structure(fitted, np.random.default_rng(0)).strongest
    left = [not residual_structure_claim(one).passed for one in (once, twice)]
    return once.suspicious, twice.suspicious, left[0], left[1]


def test_of_very_many_rows_others_decide_what_seems_suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance shows once, structure twice, and more the second time."""
    monkeypatch.setattr(fitted_network, "ROWS", replace(fitted_network.ROWS, residual_rows=2000))
    nothing, structure = (np.mean([looks(seed, product) for seed in range(60)], axis=0) for product in (0.0, 0.12))
    assert nothing[1] <= nothing[0] / 2 and nothing[0] > 0.0
    assert nothing[3] == 0.0
    assert structure[3] > 1.5 * structure[2] > 0.0


def test_others_are_none_of_the_rows_that_were_looked_at(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(fitted_network, "ROWS", replace(fitted_network.ROWS, residual_rows=100))
    truth, x = random_network(3, 2, rng=1), rng.standard_normal((1000, 3))
    fitted = refined_state(truth, lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(1000)))
    first, others = (part.read(0, part.size)[0] for part in (fitted.residual_rows, fitted.confirmation_rows))
    assert (len(first), len(others)) == (100, 200)
    assert len(np.unique(np.vstack([first, others]), axis=0)) == 300
