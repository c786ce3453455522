"""The parts by themselves: rounding, lines in boxes, stars with crossings, the book, units measured again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lines_boxes import teacher
from numpy.testing import assert_allclose

import laybare as lb
from laybare.errors import BudgetExhausted
from laybare.lines import AskBox, Patience, Purse, line_through, polish, random_line, read_lines
from laybare.lines.polishing import error_bar, error_bars, factored
from laybare.lines.remeasure import remeasure
from laybare.lines.search import toward
from laybare.networks import sign_free
from laybare.source import representation


@pytest.mark.parametrize(("round_", "name"), [
    (lambda y: y, "float64"), (lambda y: y.astype(np.float32).astype(float), "float32"), (lambda y: y.round(4), "4 decimals")])
def test_what_answers_are_rounded_to_shows_in_the_answers(round_, name, rng):
    assert representation(round_(rng.standard_normal((12, 2)))).kind == name


def test_lines_end_where_the_box_does(rng):
    box = AskBox(np.full(5, -1.0), np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    for _ in range(20):
        line = random_line(5, 1e6, 1.0, box, rng=rng)
        x = line(np.array([line.low, 0.0, line.high]))
        assert (x >= box.low - 1e-12).all() and (x <= box.high + 1e-12).all()
        assert np.isclose(x[[0, 2]][:, None], [box.low, box.high]).any(axis=(1, 2)).all()
    assert_allclose(line_through(np.zeros(2), np.array([3.0, 4.0]), 10.0, 1.0).direction, [0.6, 0.8])


def test_a_purse_counts_keeps_and_ends(rng):
    purse = Purse(lambda x: x.sum(axis=1), budget=10)
    purse.ask(rng.standard_normal((3, 4)), "kinks")
    purse.ask_star(np.ones(4), np.arange(4), np.full(4, 0.5), "gradients")
    assert purse.spent == {"kinks": 3, "gradients": 4} and purse.left == 3
    blocks = list(purse.answers())
    assert_allclose(blocks[1].x, np.ones((4, 4)) + 0.5 * np.eye(4))
    assert_allclose(blocks[1].y[:, 0], 4.5)
    with pytest.raises(BudgetExhausted, match="4 more queries"):
        purse.ask(np.ones((4, 4)), "kinks")
    assert purse.total == 7


def test_lines_alone_are_exact_to_1e_9_and_the_polish_improves_the_worst_unit(rng):
    """The start by itself: no polish has touched it."""
    truth = teacher(10, 20, rng)
    purse = Purse(truth)
    reading = read_lines(purse, 10, rng=rng)
    start = lb.compare(reading.book.sign_free(vector=True), sign_free(truth)).max_error
    assert start < 1e-8 and reading.quiet == 4
    better = polish(purse, reading.book, reading.rounding, precision=1e-12, rng=rng)
    assert lb.compare(better.book.sign_free(vector=True), sign_free(truth)).max_error < min(1e-11, start)
    assert error_bar(better.book) < error_bar(reading.book) and better.misfit < 1.0 and not len(better.surprises)


def test_the_book_is_the_function_and_predicts_its_kinks(rng):
    truth = teacher(6, 5, rng)
    book = read_lines(Purse(truth), 6, rng=rng).book
    x = 3.0 * rng.standard_normal((200, 6))
    assert_allclose(book(x)[:, 0], truth(x), atol=1e-9)
    assert_allclose(book.sign_free(vector=True)(x), truth(x), atol=1e-9)
    p, u = rng.standard_normal(6), rng.standard_normal(6)
    predicted = -(truth.layer.weights @ p + truth.layer.biases) / (truth.layer.weights @ u)
    assert_allclose(np.sort(book.crossings(p, u)), np.sort(predicted), rtol=1e-6)


def test_a_unit_that_is_not_in_the_book_is_found_by_the_next_line(rng):
    truth = teacher(8, 6, rng)
    purse = Purse(truth)
    reading = read_lines(purse, 8, rng=rng)
    lost = replace(reading, book=replace(reading.book, units=reading.book.units.take(np.arange(1, 6))), quiet=0)
    before = purse.total
    found = toward(purse, lost, 10.0 * reading.book.units.normals[0] + reading.book.point, rng=rng)
    assert len(found.book.units) == 6 and purse.total - before < 8 + 25
    assert lb.compare(found.book.sign_free(vector=True), sign_free(truth)).max_error < 1e-8


def test_a_unit_taken_twice_is_one_and_a_unit_taken_back_is_none(rng):
    book = read_lines(Purse(teacher(5, 4, rng)), 5, rng=rng).book
    one = book.units.take(np.array([0]))
    assert len(book.with_units(one).units) == 4
    assert_allclose(book.with_units(one).units.readouts[0], 2.0 * book.units.readouts[0])
    assert len(book.with_units(replace(one, readouts=-one.readouts)).units) == 3


def test_units_measured_again_are_better(rng):
    truth = teacher(40, 12, rng)
    purse = Purse(truth)
    reading = read_lines(purse, 40, Patience(quiet=2), rng=rng)
    before = purse.total
    book = remeasure(purse, reading.book, reading.rounding, precision=1e-14, most=13 * 41)
    assert purse.total - before == 13 * 41
    errors = [lb.compare(b.sign_free(vector=True), sign_free(truth)).max_error for b in (reading.book, book)]
    assert errors[1] < 1e-12 and errors[1] < errors[0] and error_bars(book).max() < error_bars(reading.book).max()


def test_a_matrix_that_rounding_has_made_indefinite_is_factored(rng):
    half = rng.standard_normal((40, 20))
    half /= np.linalg.norm(half, axis=1)[:, None]
    gram = half @ half.T - 2e-14 * np.eye(40)
    lower = np.tril(factored(gram.copy()))
    assert_allclose(lower @ lower.T, gram, atol=1e-12)
