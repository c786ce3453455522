"""A source whose outputs are what a model leaves unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.shapes import Array
from laybare.source.protocol import Rows
from laybare.source.views import Derived

CHUNK_ROWS = 4096
"""Rows at which the model is evaluated at once: hidden layers of a few hundred units stay in cache, and memory is bounded."""


@dataclass(frozen=True, eq=False)
class Residual(Derived):
    """`origin` with y - model(x) in place of y; `model` maps x (n, d) to (n, outputs), or to (n,) for one output.

    Nothing is stored: the model is evaluated a few thousand rows at a time as they are read.
    """

    model: Callable[[Array], Array]

    def changed(self, x: Array, y: Array) -> Rows:
        left = np.empty(y.shape)
        for at in range(0, len(x), CHUNK_ROWS):
            some = slice(at, at + CHUNK_ROWS)
            np.subtract(y[some], self.model(x[some]).reshape(y[some].shape), out=left[some])
        return Rows(x, left)
