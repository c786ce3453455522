"""Rows in which every number is there."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import DiskArray, Stacked, numeric

Rows: TypeAlias = Array | Stacked | DiskArray

BLOCK = 1 << 16
"""Rows that are looked at a time."""


def complete_rows(x: Rows, y: Rows) -> tuple[Rows, Rows]:
    """Both without the rows that have a NaN in either; as they are, and where they are, if there is none."""
    x, y = numeric("x", x), numeric("y", y)
    if x.shape[0] != y.shape[0]:
        return x, y  # Samples says so
    kept = [_complete(x[start : start + BLOCK], y[start : start + BLOCK]) for start in range(0, x.shape[0], BLOCK)]
    if all(rows.all() for rows in kept):
        return x, y
    if not any(rows.any() for rows in kept):
        raise InvalidInput(
            f"All {x.shape[0]:,} rows miss a number.", "None is left to learn from.", "Fill them in, or leave out columns.",
            rows=x.shape[0])
    starts = range(0, x.shape[0], BLOCK)
    return (
        Stacked([np.asarray(x[start : start + BLOCK])[rows] for start, rows in zip(starts, kept, strict=True)]),
        Stacked([np.asarray(y[start : start + BLOCK])[rows] for start, rows in zip(starts, kept, strict=True)]))


def _complete(x: Array, y: Array) -> Array:
    return np.asarray(~np.isnan(x).any(axis=1) & ~np.isnan(y.reshape(len(y), -1)).any(axis=1))
