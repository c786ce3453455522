"""The primitives by themselves: rounding, lines in boxes, queries, the model, units measured again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lines_boxes import teacher
from numpy.testing import assert_allclose

import laybare as lb
from laybare.errors import BudgetExhausted
from laybare.lines.line import line_through, random_line
from laybare.lines.model_fit import cholesky_with_jitter, fit_to_answers, largest_error_bar, unit_error_bars
from laybare.lines.query import QueryBox, QueryContext, QueryCounter
from laybare.lines.remeasure import remeasure_units
from laybare.lines.single_layer import Patience, ReaderOptions, check_line_through, read_single_layer
from laybare.networks import sign_free
from laybare.source import detect_grid


@pytest.mark.parametrize(("round_", "name"), [
    (lambda y: y, "float64"), (lambda y: y.astype(np.float32).astype(float), "float32"), (lambda y: y.round(4), "4 decimals")])
def test_what_answers_are_rounded_to_shows_in_the_answers(round_, name, rng):
    assert detect_grid(round_(rng.standard_normal((12, 2)))).kind == name


def test_lines_end_where_the_box_does(rng):
    box = QueryBox(np.full(5, -1.0), np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    for _ in range(20):
        line = random_line(5, 1e6, 1.0, box, rng=rng)
        x = line(np.array([line.low, 0.0, line.high]))
        assert (x >= box.low - 1e-12).all() and (x <= box.high + 1e-12).all()
        assert np.isclose(x[[0, 2]][:, None], [box.low, box.high]).any(axis=(1, 2)).all()
    assert_allclose(line_through(np.zeros(2), np.array([3.0, 4.0]), 10.0, 1.0).direction, [0.6, 0.8])


def test_queries_are_counted_stored_and_end_with_the_budget(rng):
    queries = QueryCounter(lambda x: x.sum(axis=1), budget=10)
    queries.ask(rng.standard_normal((3, 4)), "kinks")
    queries.ask_stencil(np.ones(4), np.arange(4), np.full(4, 0.5), "gradients")
    assert queries.spent == {"kinks": 3, "gradients": 4} and queries.left == 3
    blocks = list(queries.answers())
    assert_allclose(blocks[1].x, np.ones((4, 4)) + 0.5 * np.eye(4))
    assert_allclose(blocks[1].y[:, 0], 4.5)
    with pytest.raises(BudgetExhausted, match="4 more queries"):
        queries.ask(np.ones((4, 4)), "kinks")
    assert queries.total == 7


def test_lines_alone_are_exact_to_1e_9_and_the_fit_improves_the_worst_unit(rng):
    """The start by itself, before any fit."""
    truth = teacher(10, 20, rng)
    queries = QueryCounter(truth)
    state = read_single_layer(queries, 10, rng=rng)
    start = lb.compare(state.model.sign_free(vector=True), sign_free(truth)).max_error
    assert start < 1e-8 and state.quiet == 4
    better = fit_to_answers(QueryContext(queries, state.rounding, rng), state.model, precision=1e-12)
    assert lb.compare(better.model.sign_free(vector=True), sign_free(truth)).max_error < min(1e-11, start)
    assert largest_error_bar(better.model) < largest_error_bar(state.model) and better.rms < 1.0
    assert not len(better.contradictions)


def test_the_model_is_the_function(rng):
    truth = teacher(6, 5, rng)
    model = read_single_layer(QueryCounter(truth), 6, rng=rng).model
    x = 3.0 * rng.standard_normal((200, 6))
    assert_allclose(model(x)[:, 0], truth(x), atol=1e-9)
    assert_allclose(model.sign_free(vector=True)(x), truth(x), atol=1e-9)


def test_a_unit_that_is_not_in_the_model_is_found_by_the_next_line(rng):
    truth = teacher(8, 6, rng)
    queries = QueryCounter(truth)
    state = read_single_layer(queries, 8, rng=rng)
    lost = replace(state, model=replace(state.model, units=state.model.units.take(np.arange(1, 6))), quiet=0)
    before = queries.total
    found = check_line_through(queries, lost, 10.0 * state.model.units.normals[0] + state.model.point, rng=rng)
    assert len(found.model.units) == 6 and queries.total - before < 8 + 25
    assert lb.compare(found.model.sign_free(vector=True), sign_free(truth)).max_error < 1e-8


def test_a_unit_taken_twice_is_one_and_a_unit_taken_back_is_none(rng):
    model = read_single_layer(QueryCounter(teacher(5, 4, rng)), 5, rng=rng).model
    one = model.units.take(np.array([0]))
    assert len(model.with_units(one).units) == 4
    assert_allclose(model.with_units(one).units.readouts[0], 2.0 * model.units.readouts[0])
    assert len(model.with_units(replace(one, readouts=-one.readouts)).units) == 3


def test_units_measured_again_are_better(rng):
    truth = teacher(40, 12, rng)
    queries = QueryCounter(truth)
    state = read_single_layer(queries, 40, ReaderOptions(patience=Patience(quiet_lines=2)), rng=rng)
    before = queries.total
    context = QueryContext(queries, state.rounding, rng)
    model = remeasure_units(context, state.model, precision=1e-14, max_queries=13 * 41)
    assert queries.total - before == 13 * 41
    errors = [lb.compare(m.sign_free(vector=True), sign_free(truth)).max_error for m in (state.model, model)]
    assert errors[1] < 1e-12 and errors[1] < errors[0] and unit_error_bars(model).max() < unit_error_bars(state.model).max()


def test_a_matrix_that_rounding_has_made_indefinite_is_factored(rng):
    half = rng.standard_normal((40, 20))
    half /= np.linalg.norm(half, axis=1)[:, None]
    gram = half @ half.T - 2e-14 * np.eye(40)
    lower = np.tril(cholesky_with_jitter(gram.copy()))
    assert_allclose(lower @ lower.T, gram, atol=1e-12)
