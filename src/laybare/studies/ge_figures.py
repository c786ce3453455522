"""Rows and drawings of the figures of Ge et al. (2019): three curves, the errors of W, of A and of the outputs.

The first row of panels has the three curves of the paper's own practical variant, as the paper draws them; below, every quantity
has a row of its own, with all arms. Over the dimension errors are root normalised, √(error/dimension), as in Figure 2 right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.studies.ge_arms import ARMS, PRACTICAL

DIMENSION = "n = 10,000"
"""The panel whose axis is the dimension."""

LEAST = 1e-32
"""What a logarithmic axis shows of zero."""


class SymmetricRow(NamedTuple):
    """A row of the table: means over the runs; the root means are √(error/dimension)."""

    panel: str
    value: float
    arm: str
    runs: int
    error_of_W: float
    error_of_A: float
    mse_of_outputs: float
    root_mean_W: float
    root_mean_A: float
    all_numbers_exact: int
    median_s: float

    def quantity(self, name: str) -> float:
        """What is drawn of a curve."""
        if self.panel == DIMENSION:
            return {"W": self.root_mean_W, "A": self.root_mean_A, "MSE": float(np.sqrt(self.mse_of_outputs))}[name]
        return {"W": self.error_of_W, "A": self.error_of_A, "MSE": self.mse_of_outputs}[name]


QUANTITIES = ("W", "A", "MSE")


def drawn(rows: Sequence[SymmetricRow], axis: str, meaning: str) -> LinesFigure:
    """The paper's panels with the paper's three curves, and the same quantities for every arm."""
    panels = list(dict.fromkeys(row.panel for row in rows))
    own = {(panel, arm): [row for row in rows if (row.panel, row.arm) == (panel, arm)] for panel in panels for arm in ARMS}
    first = [_panel(p, axis, "practical variant", [_line(q, q, own[p, PRACTICAL]) for q in QUANTITIES]) for p in panels]
    rest = [_panel(p, axis, q, [_line(arm, q, own[p, arm]) for arm in ARMS]) for q in QUANTITIES for p in panels]
    return LinesFigure([*first, *rest], meaning, across=len(panels))


def _panel(panel: str, axis: str, what: str, lines: Sequence[Curve]) -> Panel:
    title = f"{panel}: {what}"
    if panel == DIMENSION:
        return Panel(title, "dimension", "root normalised error", lines, "y")
    return Panel(title, axis, "error", lines, "xy")


def _line(name: str, quantity: str, rows: Sequence[SymmetricRow]) -> Curve:
    return Curve(name, [row.value for row in rows], [max(row.quantity(quantity), LEAST) for row in rows])
