"""Gradients of pieces with long steps: crossings of kinks of the line are taken off, others are found and asked again."""

from __future__ import annotations

import numpy as np
import pytest
from lines_boxes import teacher
from numpy.testing import assert_allclose

from laybare.lines import Purse, find_kinks, line_through, read_gradients
from laybare.lines import gradients as module
from laybare.lines.straight import LinePoints, Straight
from laybare.source import Rounding


def bends_of(purse, line, rounding):
    def along(t):
        x = line(t)
        y = purse.ask(x, "kinks")
        return LinePoints(y, rounding.sd(x, y))

    ends = []
    for end in (line.low, line.high):
        t = np.sort(np.array([end, 0.95 * end]))
        y, sd = along(t)
        ends.append(Straight(t, y, sd))
    return find_kinks(along, line, ends)


def true_gradients(network, x):
    active = network.layer.before(x) > 0.0
    return (active * network.readout) @ network.layer.weights


@pytest.mark.parametrize("share", [0.003, 0.03, 0.3])
def test_crossings_of_known_kinks_do_not_matter(share, rng, monkeypatch):
    """Steps of a third of the piece cross many hyperplanes: only those across the next kink are asked again.

    Without the correction the checks would repair the gradients too, for more queries.
    """
    monkeypatch.setattr(module, "STEP", share)
    truth, rounding = teacher(8, 12, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    line, purse = line_through(rng.standard_normal(8), rng.standard_normal(8), 300.0, np.sqrt(8.0)), Purse(truth)
    bends = bends_of(purse, line, rounding)
    gradients = read_gradients(purse, None, bends, rounding, np.zeros(len(bends.pieces), dtype=bool), rng=rng)
    assert gradients.good.all()
    assert_allclose(gradients.values[:, :, 0], true_gradients(truth, line(gradients.centres)), atol=1e-8)
    assert purse.spent["gradients"] <= (1.0 + 3.0 * share) * 8 * len(bends.pieces)


def test_a_step_across_a_distant_kink_of_the_line_is_computed_not_repeated(rng):
    """From the piece between t = 0 and 1 the second axis crosses the slanted hyperplane of the kink at t = 10."""
    units = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, -1.0], [1.0, 2000.0, -10.0]])

    def f(x):
        return np.maximum(x @ units[:, :2].T + units[:, 2], 0.0) @ np.array([1.0, -2.0, 0.5])

    rounding = Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    line, purse = line_through(np.zeros(2), np.array([1.0, 0.0]), 300.0, 1.0), Purse(f)
    state = module.Measured(bends_of(purse, line, rounding), 1, np.zeros(4, dtype=bool), rounding)
    for k, step in enumerate((1e-4, 0.02, 1e-4, 1e-4)):
        module._ask(purse, None, state, rounding, k, np.arange(2), steps=np.full(2, step))
        state.asked[k] = True
    values, normals = module._decoded(state)
    assert f(np.array([[0.5, 0.02]])) != f(line(0.5))  # the step does cross it
    assert_allclose(values[1, :, 0], [1.0, 0.0], atol=1e-9)
    assert_allclose(normals, units[:, :2], rtol=1e-9, atol=1e-9)


def test_a_unit_that_the_line_does_not_meet_is_found_by_halving(rng):
    """Its hyperplane is parallel to the line and so near that one step crosses it: only the slope along the line tells."""
    truth, rounding = teacher(20, 4, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    u = rng.standard_normal(20)
    line = line_through(rng.standard_normal(20), u, 300.0, np.sqrt(20.0))
    normal = np.eye(20)[3] - u[3] * u / (u @ u)
    near = float(normal @ line.point) + 0.02

    def f(x):
        return truth(x) + np.maximum(x @ normal - near, 0.0)

    purse = Purse(f)
    bends = bends_of(purse, line, rounding)
    gradients = read_gradients(purse, None, bends, rounding, np.zeros(len(bends.pieces), dtype=bool), rng=rng)
    assert gradients.good.all()
    assert_allclose(gradients.values[:, :, 0], true_gradients(truth, line(gradients.centres)), atol=1e-7)
    assert 20 * len(bends.pieces) < purse.spent["gradients"] < 40 * len(bends.pieces)


def test_known_pieces_cost_nothing(rng):
    truth, rounding = teacher(6, 3, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    active = np.zeros(6)
    line, purse = line_through(active, rng.standard_normal(6), 300.0, np.sqrt(6.0)), Purse(truth)
    bends = bends_of(purse, line, rounding)
    known = np.ones(len(bends.pieces), dtype=bool)
    read_gradients(purse, None, bends, rounding, known, rng=rng)
    assert "gradients" not in purse.spent
