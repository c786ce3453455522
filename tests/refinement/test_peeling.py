"""Units that a fit has missed, found in the moments of its residual."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.refinement.peeling import BIASES, missing_units
from laybare.refinement.pruning import without

from .conftest import full_point, planted


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_missing_unit_is_the_first_candidate(outputs, rng):
    """All units but one are right, so the residual is that unit: direction within 0.1 rad, bias to the nearest of the grid."""
    problem = planted(8, 6, 20_000, rng, outputs=outputs)
    full = full_point(problem.truth)
    left_out = int(np.argmin(np.abs(problem.truth.layer.biases)))
    part = without(full, np.delete(np.arange(6), left_out))
    row = missing_units(problem.source, part, 1)[0]
    true = problem.truth.layer.rows[left_out]
    cosine = row[:-1] @ true[:-1]
    assert abs(cosine) > np.cos(0.1)
    assert abs(row[-1] * np.sign(cosine) - true[-1]) < 0.75 * (BIASES[1] - BIASES[0])


def test_models_without_biases_get_rows_without_biases(rng):
    from laybare.refinement.normal import point_of

    problem = planted(6, 3, 3000, rng, biases=0.0)
    point = without(point_of(problem.truth, biases=False, offset=True, linear=False), np.array([0, 1]))
    assert missing_units(problem.source, point, 2).shape == (2, 6)


def test_candidates_turn_with_the_inputs(rng):
    """Equivariance: rotating all inputs rotates the candidates (up to sign)."""
    problem = planted(5, 4, 4000, rng)
    x, y = problem.source.read(0, 4000)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    part = without(full_point(problem.truth), np.array([0, 1, 2]))
    turned_layer = lb.Layer(problem.truth.layer.weights @ Q.T, problem.truth.layer.biases, lb.relu)
    turned = without(full_point(lb.Network(turned_layer, problem.truth.readout)), np.array([0, 1, 2]))
    law = problem.source.law
    first = missing_units(lb.Samples(x, y, law=law), part, 2)
    second = missing_units(lb.Samples(x @ Q.T, y, law=law), turned, 2)
    for a, b in zip(first, second, strict=True):
        assert abs(abs((a[:-1] @ Q.T) @ b[:-1]) - 1.0) < 1e-8
