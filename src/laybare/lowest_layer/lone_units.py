"""What a unit that is active alone does to the output: a step keeps it at one level, any other unit makes it rise.

The active set is the same for step units as for ReLU units, whatever lies above them: it cannot tell an activation. The outputs
of rows in which one unit is active can. Under steps they tie at P(0, …, 1, …, 0); under units that rise from zero they do not.
Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lowest_layer.activity import Baseline
from laybare.lowest_layer.local_lines import MARGINS, active_rows, rows_of_units
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array, Sums
from laybare.source import Source

CLEAR = MARGINS[-1]
"""How far below their thresholds all other units must be for a unit to count as alone: further than boundaries are wrong."""


class LoneRows(NamedTuple):
    """Fresh rows in which one unit is active, and how many of them have that unit's level as output."""

    rows: int
    tied: int

    @property
    def share(self) -> float:
        """Share of rows that tie; NaN if there are none."""
        return self.tied / self.rows if self.rows else float("nan")


def lone_rows(used: Source, fresh: Source, rule: Baseline, spaces: HalfSpaces) -> LoneRows:
    """Count on `fresh` the rows that tie at levels read off `used`: medians, which are the level if more than half tie there."""
    rows = active_rows(used, rule)
    levels = np.array([
        np.median(rows.y[mine], axis=0) if mine.any() else np.full(used.outputs, np.nan)
        for mine in rows_of_units(spaces, rows.x, CLEAR)])

    def count(x: Array, y: Array) -> Sums:
        active = rule.active(y)
        mine = np.array(rows_of_units(spaces, x[active], CLEAR))
        gaps = np.abs(y[active] - levels[mine.argmax(axis=0)])
        tied = (gaps <= rule.tol).all(axis=1)
        alone = mine.any(axis=0)
        return np.asarray(alone.sum()), np.asarray((tied & alone).sum())

    alone, tied = fresh.sum(count, stage="lone units")
    return LoneRows(int(alone), int(tied))
