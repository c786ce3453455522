"""Levels of exactness: ordered, far enough apart, and of the size that measured gaps rest on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from laybare.numerics import levels


def test_amplitudes_rise_by_at_least_eight():
    ladder = [levels.EPS, levels.LAST_BITS, levels.GRAM, levels.ROUNDING, levels.NOISELESS, levels.SOLVED]
    assert all(above >= 8 * below for below, above in pairwise(ladder))


@pytest.mark.parametrize(
    ("level", "size"),
    [("FLOOR_LOSS", 1e-31), ("START_LOSS", 1e-29), ("DIGITS_LOSS", 1e-27), ("GRAM_LOSS", 1e-26), ("ROUNDING_LOSS", 1e-24),
     ("NOISELESS_LOSS", 1e-18), ("SOLVED_LOSS", 1e-12), ("SINGLE_LOSS", 1e-6)])
def test_losses_are_squares_of_the_orders_that_were_measured(level, size):
    assert size / 3 < getattr(levels, level) < 3 * size


def test_solved_and_stuck_fits_lie_on_either_side():
    """Solved fits end below 1e-28 and stuck ones above 1e-6 in relative loss (`laybare reproduce overwide`)."""
    assert 1e-28 < levels.ROUNDING_LOSS < levels.NOISELESS_LOSS < levels.SOLVED_LOSS < 1e-6
