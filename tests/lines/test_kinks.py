"""Kinks of a line: every one, once, for about five queries each, whatever the function is off the line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.kinks import _Gap, _next_point, end_piece, find_kinks
from laybare.lines.line import Line, LinearPiece, LineValues, intersect, on_same_line, separation


def linear(t, f, sd=1e-15):
    t = np.asarray(t, dtype=float)
    return LinearPiece(t, f(t), np.full(len(t), sd))


def zigzag(kinks, jumps):
    """A piecewise-linear function of t with two outputs."""
    return lambda t: np.maximum(t[:, None] - kinks, 0.0) @ np.column_stack([jumps, np.cos(jumps)])


def read(f, reach=1e4, sd=lambda t, y: 2e-16 * (np.abs(y).max(axis=1) + np.abs(t) + 1.0), max_queries=100_000):
    line, asked = Line(np.zeros(1), np.ones(1), -reach, reach, 1.0), []

    def along(t):
        asked.append(len(t))
        y = f(t)
        return LineValues(y, sd(t, y))

    ends = []
    for t in (np.array([-reach, -0.9 * reach]), np.array([0.9 * reach, reach])):
        y, spread = along(t)
        ends.append(LinearPiece(t, y, spread))
    return find_kinks(along, line, ends, max_queries=max_queries), sum(asked)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
def test_every_kink_is_found_once_for_about_five_queries(count, rng):
    kinks, jumps = np.sort(rng.standard_cauchy(count)), rng.uniform(0.1, 1.0, count) * rng.choice([-1.0, 1.0], count)
    profile, queries = read(zigzag(kinks, jumps))
    assert len(profile.kinks) == count and len(profile.pieces) == count + 1
    assert_allclose([kink.t for kink in profile.kinks], kinks, atol=1e-9)
    assert_allclose(np.array([kink.jump[0] for kink in profile.kinks]), jumps, atol=1e-9)
    assert queries <= 7 * count + 6


def test_two_kinks_whose_outer_lines_meet_outside_of_both_are_two(rng):
    """Asking where the outer lines meet would confirm one kink there: f agrees with the prediction."""
    f = zigzag(np.array([1.0, 2.0]), np.array([1.0, -0.6]))
    profile, _ = read(f)
    assert_allclose([kink.t for kink in profile.kinks], [1.0, 2.0], atol=1e-10)


def test_two_kinks_alone_on_a_long_line_are_two():
    """The pieces beside them are as long as the line: how near kinks may be is no share of that."""
    profile, _ = read(zigzag(np.array([1.0, 1.3]), np.array([0.8, 0.8])), reach=3e5)
    assert_allclose([kink.t for kink in profile.kinks], [1.0, 1.3], atol=1e-9)


def test_three_jumps_that_nearly_add_up_to_zero_do_not_close_the_gap():
    kinks, jumps = np.array([-0.5, -0.4, 1.4]), np.array([0.28, 0.30, -0.579])
    profile, _ = read(zigzag(kinks, jumps), sd=lambda t, y: 1e-7 * (1.0 + np.abs(y).max(axis=1)), reach=40.0)
    assert_allclose([kink.t for kink in profile.kinks], kinks, atol=1e-3)


def test_kinks_of_very_different_scale_are_found_on_one_line():
    kinks = np.array([-3e3, -1.0, -0.999, 0.0, 1e-4, 500.0])
    profile, queries = read(zigzag(kinks, np.ones(6)))
    assert_allclose([kink.t for kink in profile.kinks], kinks, atol=1e-8, rtol=1e-10)
    assert queries < 50


def test_a_parabola_has_no_last_kink():
    def parabola(t):
        return np.column_stack([np.where(np.abs(t) < 5.0, t**2, 10.0 * np.abs(t) - 25.0)] * 2)

    with pytest.raises(AssumptionViolated):
        read(parabola, reach=100.0, max_queries=600)


def test_a_piece_knows_how_well_it_knows():
    line = linear([0.0, 1.0], lambda t: np.column_stack([2.0 * t + 1.0]), sd=1e-3)
    assert_allclose(line.sd_at(0.5), 1e-3 / np.sqrt(2.0))
    assert_allclose(line.sd_at(100.0) / line.sd_at(50.0), 199.0 / 99.0, rtol=1e-3)
    assert line.contains(100.0, np.array([201.0 + 0.3]), 1e-3) and not line.contains(0.5, np.array([2.3]), 1e-3)


def test_fits_keep_their_digits_far_from_the_origin():
    """Weights that differ by 1e22 and values of 1e6 must not spoil the exact points."""
    t = np.array([-3e5, -2.8e5, -3.0])
    piece = LinearPiece(t, (7.0 * t + 0.1)[:, None], np.array([1e-10, 1e-10, 1e-15]))
    assert abs(piece.value(-3.0)[0] - (7.0 * -3.0 + 0.1)) < 1e-14


def test_intersection_and_separation():
    left, right = linear([0.0, 1.0], lambda t: t[:, None]), linear([3.0, 4.0], lambda t: (5.0 - t)[:, None])
    assert_allclose(intersect(left, right).t, 2.5)
    assert separation(left, right) > 1e10 and not on_same_line(left, right)
    assert on_same_line(left, linear([5.0, 6.0], lambda t: t[:, None]))


@pytest.mark.parametrize("end", [0.0, -1e-14])
def test_an_end_without_room_is_refused_before_anything_is_asked(end):
    """A line that begins at a boundary: its last three points would coincide."""
    with pytest.raises(NotSeparated, match="began at a boundary"):
        end_piece(lambda t: pytest.fail("asked"), Line(np.zeros(1), np.ones(1), end, 1.0, 0.2), end)


def test_points_in_one_place_tell_a_value_and_no_slope():
    one = LinearPiece(np.full(2, 0.3), np.full((2, 1), 7.0), np.full(2, 1e-9))
    assert one.value(0.3) == 7.0 and one.sd_at(0.3) < 1e-9 and one.sd_at(0.4) == np.inf
    assert on_same_line(one, linear([0.3, 0.5, 0.9], lambda t: 7.0 + 2.0 * (t[:, None] - 0.3)))
    assert not on_same_line(one, linear([0.3, 0.5, 0.9], lambda t: 8.0 + 2.0 * (t[:, None] - 0.3)))


@pytest.mark.parametrize("width", [1e-14, 1e-3])
def test_nothing_more_is_asked_in_a_gap_that_is_narrower_than_rounding(width):
    """A second place beside a point of such a gap would be the point itself, and be asked for ever."""
    line, at = Line(np.zeros(1), np.ones(1), -10.0, 10.0, 1.0), 3.0
    left, right = linear([0.0, at], np.abs), linear([at + width, 5.0], lambda t: 2.0 * t)
    gap = _Gap([(at + 0.5 * width, np.array([at + 1e-10]), 1e-15)])
    place = _next_point(line, left, right, gap)
    assert gap.closed == (width < 1e-12)
    assert (place is None) == gap.closed
