"""How much the outputs vary: the unit of every relative loss."""

from __future__ import annotations

import numpy as np

from laybare.shapes import Array, Sums
from laybare.source import Source


def total_variation(source: Source) -> float:
    """Sum of squares of y about its mean; one pass, about the first row, so that a large mean does no harm."""
    first = source.read(0, 1).y[0].copy()

    def powers(x: Array, y: Array) -> Sums:
        centred = y - first
        return centred.sum(axis=0), np.einsum("no,no->o", centred, centred)

    total, squares = source.sum(powers, stage="variance")
    return float(np.sum(np.maximum(squares - total**2 / source.size, 0.0)))
