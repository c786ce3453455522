"""The oracle of appendix B.7: samples that are kept with a probability proportional to f ≥ 0.

Under it E_b[h] = E[f h]/E[f], so moments of f are averages over kept rows with y = 1, scaled. It helps against rare activity; it
needed more samples than plain ones with their linear part subtracted (t = 3, 5, 8, sigmoid units), so no default uses it.
Source: Goel and Panigrahy (2019), appendix B.7, Theorem 13.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated
from laybare.shapes import Array, Sums
from laybare.source import Samples, Source
from laybare.source.relabelled import Relabelled
from laybare.source.selection import closest_rows

MOST_ROWS = 200_000


def retained(source: Source, *, rng: Generator, limit: int = MOST_ROWS) -> Source:
    """Rows kept with probability y/max(y), with y = 1: a source whose moments are those of f over E[f]."""

    def extremes(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum(y[:, 0] < 0)),)

    (negative,) = source.sum(extremes, stage="signs of y")
    if source.outputs > 1 or negative:
        raise AssumptionViolated(
            f"{source.outputs} outputs, {int(negative)} of them negative.",
            "Rows are kept with a probability proportional to one output, which must not be negative.",
            "Give one output, and subtract its smallest value.", negative=int(negative))
    highest = float(closest_rows(source, lambda x, y: -y[:, 0], 1).y[0, 0])
    kept = closest_rows(source, lambda x, y: np.where(rng.random(len(x)) * highest < y[:, 0], 0.0, np.inf), limit)
    return Relabelled(Samples(kept.x, kept.x[:, 0], law=source.law), lambda y: np.ones(len(y)))
