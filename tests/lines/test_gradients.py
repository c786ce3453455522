"""Gradients of pieces with long steps: crossings of kinks of the line are taken off, others are found and asked again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lines_boxes import teacher
from numpy.testing import assert_allclose

from laybare.lines import gradients as module
from laybare.lines.gradients import GradientMeasurement, measure_gradients
from laybare.lines.kinks import answers_along, find_kinks
from laybare.lines.line import LinearPiece, line_through
from laybare.lines.query import QueryContext, QueryCounter
from laybare.source import Rounding


def profile_of(context, line):
    along, ends = answers_along(context, line), []
    for end in (line.low, line.high):
        t = np.sort(np.array([end, 0.95 * end]))
        y, sd = along(t)
        ends.append(LinearPiece(t, y, sd))
    return find_kinks(along, line, ends)


def true_gradients(network, x):
    active = network.layer.before(x) > 0.0
    return (active * network.readout) @ network.layer.weights


@pytest.mark.parametrize("share", [0.003, 0.03, 0.3])
def test_crossings_of_known_kinks_do_not_matter(share, rng, monkeypatch):
    """Steps of a third of the piece cross many hyperplanes: only those across the next kink are asked again.

    Without the correction the checks would repair the gradients too, for more queries.
    """
    monkeypatch.setattr(module, "GRADIENT", replace(module.GRADIENT, step=share))
    truth, rounding = teacher(8, 12, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    line, queries = line_through(rng.standard_normal(8), rng.standard_normal(8), 300.0, np.sqrt(8.0)), QueryCounter(truth)
    context = QueryContext(queries, rounding, rng)
    profile = profile_of(context, line)
    gradients = measure_gradients(context, None, profile, np.zeros(len(profile.pieces), dtype=bool))
    assert gradients.consistent.all()
    assert_allclose(gradients.values[:, :, 0], true_gradients(truth, line(gradients.centres)), atol=1e-8)
    assert queries.spent["gradients"] <= (1.0 + 3.0 * share) * 8 * len(profile.pieces)


def test_a_step_across_a_distant_kink_of_the_line_is_computed_not_repeated(rng):
    """From the piece between t = 0 and 1 the second axis crosses the slanted hyperplane of the kink at t = 10."""
    units = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, -1.0], [1.0, 2000.0, -10.0]])

    def f(x):
        return np.maximum(x @ units[:, :2].T + units[:, 2], 0.0) @ np.array([1.0, -2.0, 0.5])

    rounding = Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    line, queries = line_through(np.zeros(2), np.array([1.0, 0.0]), 300.0, 1.0), QueryCounter(f)
    context = QueryContext(queries, rounding, rng)
    state = GradientMeasurement(context, None, profile_of(context, line), np.zeros(4, dtype=bool))
    for k, step in enumerate((1e-4, 0.02, 1e-4, 1e-4)):
        state.ask(k, np.arange(2), np.full(2, step))
        state.asked[k] = True
    values, normals = state.solve()
    assert f(np.array([[0.5, 0.02]])) != f(line(0.5))  # the step does cross it
    assert_allclose(values[1, :, 0], [1.0, 0.0], atol=1e-9)
    assert_allclose(normals, units[:, :2], rtol=1e-9, atol=1e-9)


def test_a_unit_that_the_line_does_not_meet_is_found_by_bisection(rng):
    """Its hyperplane is parallel to the line and so near that one step crosses it: only the slope along the line tells."""
    truth, rounding = teacher(20, 4, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    u = rng.standard_normal(20)
    line = line_through(rng.standard_normal(20), u, 300.0, np.sqrt(20.0))
    normal = np.eye(20)[3] - u[3] * u / (u @ u)
    near = float(normal @ line.point) + 0.02

    def f(x):
        return truth(x) + np.maximum(x @ normal - near, 0.0)

    queries = QueryCounter(f)
    context = QueryContext(queries, rounding, rng)
    profile = profile_of(context, line)
    gradients = measure_gradients(context, None, profile, np.zeros(len(profile.pieces), dtype=bool))
    assert gradients.consistent.all()
    assert_allclose(gradients.values[:, :, 0], true_gradients(truth, line(gradients.centres)), atol=1e-7)
    assert 20 * len(profile.pieces) < queries.spent["gradients"] < 40 * len(profile.pieces)


def test_known_pieces_cost_nothing(rng):
    truth, rounding = teacher(6, 3, rng), Rounding("float64", 2.0**-53, 2.0**-54, inner=4e-16, steepness=2.0)
    active = np.zeros(6)
    line, queries = line_through(active, rng.standard_normal(6), 300.0, np.sqrt(6.0)), QueryCounter(truth)
    context = QueryContext(queries, rounding, rng)
    profile = profile_of(context, line)
    measure_gradients(context, None, profile, np.ones(len(profile.pieces), dtype=bool))
    assert "gradients" not in queries.spent
