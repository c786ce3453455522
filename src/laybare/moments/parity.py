"""Do the outputs have parts that the units cannot have? Even units make even functions, odd ones odd functions up to a constant.

Under symmetric inputs E[y x] = 0 for an even y, and E[(y - ȳ)(x² - 1)] = 0 for an odd one. Hotelling's T² tells whether the
average of such vectors differs from 0 by more than chance; noise in y only widens the average's own spread. Where the inputs
themselves have a mean, nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, ndtr

from laybare.activations import Activation
from laybare.errors import AssumptionViolated
from laybare.linear_algebra import inner, solve_spd
from laybare.shapes import Array, Sums
from laybare.source import Source

SIGMAS = 4.0
"""Chance of a false alarm: one in 30,000."""

MOST = 2000
"""Products x·outputs up to which their covariance (32 MB) is formed."""


def check_parity(source: Source, activation: Activation) -> None:
    """Refuse outputs with an odd part for even units, and with an even part for units that are odd up to a constant."""
    if activation.mirror == 0:
        _check(source, activation, squared=False, has="odd", wanted="even")
    elif activation.centre is not None:
        _check(source, activation, squared=True, has="even", wanted="odd up to a constant")


@dataclass(frozen=True, eq=False)
class _ParityProducts:
    """(x, y) -> sums of t, and of t tᵀ, with t = (y - mean)·x or (y - mean)·(x² - 1), the outputs one after another; and of x."""

    mean: Array
    squared: bool
    row_floats: int

    def __call__(self, x: Array, y: Array) -> Sums:
        inputs = x * x - 1.0 if self.squared else x
        t = ((y - self.mean)[:, :, None] * inputs[:, None, :]).reshape(len(x), -1)
        return t.sum(axis=0), inner(t, t), x.sum(axis=0)


def _check(source: Source, activation: Activation, *, squared: bool, has: str, wanted: str) -> None:
    n, p = source.size, source.dim * source.outputs
    if n < 3 * p or p > MOST:
        return
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),), stage="parity")
    first, second, inputs = source.sum(_ParityProducts(total / n, squared, 2 * p), stage="parity")
    mean, spread = first / n, (second - np.outer(first, first) / n) / (n - 1)
    statistic = float(n * mean @ solve_spd(spread, mean)) * (n - p) / (p * (n - 1))
    limit = float(fdtri(p, n - p, ndtr(SIGMAS)))
    centred = float(inputs @ inputs) / n <= chdtri(source.dim, ndtr(-SIGMAS))
    if centred and statistic > limit:
        raise AssumptionViolated(
            f"The outputs have an {has} part (F = {statistic:.3g}, chance stays below {limit:.3g}).",
            f"A network of {activation.name} units without biases is {wanted}: these samples come from another kind.",
            "Give the activation that they come from, or use RandomStart(), which allows biases.",
            statistic=statistic, limit=limit, activation=activation.name)
