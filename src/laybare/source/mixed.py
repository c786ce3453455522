"""A source whose outputs are linear combinations of the outputs of another."""

from __future__ import annotations

from dataclasses import dataclass

from laybare.shapes import Array
from laybare.source.protocol import Rows
from laybare.source.views import Derived


@dataclass(frozen=True, eq=False)
class Mixed(Derived):
    """`origin` with y @ matrix in place of y; `matrix` is (outputs, new outputs)."""

    matrix: Array

    @property
    def outputs(self) -> int:
        return int(self.matrix.shape[1])

    def changed(self, x: Array, y: Array) -> Rows:
        return Rows(x, y @ self.matrix)
