"""A source seen through a few directions of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from laybare.shapes import Array
from laybare.source.protocol import Law, Rows
from laybare.source.views import Derived


@dataclass(frozen=True, eq=False)
class Projected(Derived):
    """`origin` with inputs x·basis in place of x; `basis` (dim, r), orthonormal, so that white Gaussian inputs stay so."""

    basis: Array

    @property
    def dim(self) -> int:
        return int(self.basis.shape[1])

    @property
    def law(self) -> Law:
        return self.origin.law.white()

    def changed(self, x: Array, y: Array) -> Rows:
        return Rows(x @ self.basis, y)
