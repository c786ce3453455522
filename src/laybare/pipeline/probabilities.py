"""A box for a classifier: where its probabilities are certain to rounding, nothing is left of its log-odds."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.source import GRAIN, Oracle

WIDEST, NARROWER, ROWS = 2.0, 8, 8
"""Half the side of the widest box, in standard deviations of the inputs; how often it is halved; corners that are looked at."""

CERTAIN = 12.0
"""Log-odds beyond which a probability in float64 keeps fewer than eleven digits of them."""


def away_from_certainty(oracle: Oracle, *, rng: Generator) -> Oracle:
    """The same oracle inside of a box where no class is certain, if it gives probabilities and has no box; ROWS queries a try.

    Lines reach far out, where the probabilities of every network are 0 or 1.
    """
    if oracle.box is not None or oracle.link == "identity" or oracle.budget - oracle.spent < 2 * ROWS * NARROWER:
        return oracle
    if oracle.spent == 0:
        oracle.ask(oracle.typical(1), purpose="first look", gaps=True)
    if oracle.taken_as == "identity":
        return oracle
    x = oracle.typical(GRAIN)
    middle, side = x.mean(axis=0), WIDEST * x.std(axis=0)
    for _ in range(NARROWER):
        corners = middle + side * rng.choice([-1.0, 1.0], size=(ROWS, oracle.dim))
        odds = oracle.ask(corners, purpose="first look", gaps=True)
        if np.isfinite(odds).all() and np.abs(odds).max() < CERTAIN:
            break
        side = side / 2.0
    return oracle.inside((middle - side, middle + side))
