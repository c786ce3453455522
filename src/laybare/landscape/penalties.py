"""What keeps the rows of a designed objective from shrinking to nothing: Σⱼ (bⱼᵀM bⱼ - 1)², for M known, estimated or sampled.

M = I for orthonormal weights (G); M = Σ aᵢ bᵢbᵢᵀ = E[y(xxᵀ - I)]/(√2 σ₂) in general (F). The square of a sample mean is too
large by its variance: `SampledPenalty` is the U-statistic ((Σu)² - Σu²)/(n(n-1)) of u = y(|b·x|² - |b|²)/(√2 σ₂) - 1, which is
unbiased for batches of any size.
Source: Ge, Lee & Ma (2018), equations (2.7) and (C.1); the display of F nests the square once too often, and (C.1) leaves out the
constant √2 σ₂ and the -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.landscape.objective import ValueAndGradient
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source


@runtime_checkable
class Penalty(Protocol):
    """A sum over rows of a function of each."""

    def slope(self, rows: Array) -> ValueAndGradient: ...

    def hessian_times(self, rows: Array, direction: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class NormPenalty:
    """Σⱼ (bⱼᵀM bⱼ - 1)² with `metric` M, or |bⱼ|² if it is None."""

    metric: Array | None = None

    def slope(self, rows: Array) -> ValueAndGradient:
        """Value and gradient 4(bᵀMb - 1) Mb."""
        image = self._image(rows)
        excess = np.sum(rows * image, axis=1, keepdims=True) - 1.0
        return ValueAndGradient(float(np.sum(excess**2)), 4.0 * excess * image)

    def hessian_times(self, rows: Array, direction: Array) -> Array:
        """4(bᵀMb - 1) Mv + 8(bᵀMv) Mb."""
        image, turned = self._image(rows), self._image(direction)
        excess = np.sum(rows * image, axis=1, keepdims=True) - 1.0
        return np.asarray(4.0 * excess * turned + 8.0 * np.sum(rows * turned, axis=1, keepdims=True) * image)

    def _image(self, rows: Array) -> Array:
        return rows if self.metric is None else np.asarray(rows @ self.metric)


@dataclass(frozen=True, eq=False)
class SampledPenalty:
    """The U-statistic of Σⱼ (bⱼᵀM bⱼ - 1)² over the rows of `source`; `coefficient` is σ₂. One pass an evaluation.

    Rows b are coordinates in the orthonormal columns of `basis`, if there is one.
    """

    source: Source
    coefficient: float
    basis: Array | None = None

    def slope(self, rows: Array) -> ValueAndGradient:
        """Value ((Σu)² - Σu²)/(n(n-1)) and gradient 2(Σu Σu′ - Σ uu′)/(n(n-1)), summed over rows b."""
        sums = _PenaltySums(*self.source.sum(_UStatistic(self._lifted(rows), None, self._scale), stage="penalty"))
        value = float(np.sum(sums.u**2 - sums.square)) * self._share
        return ValueAndGradient(value, self._lowered(2.0 * self._share * (sums.u[:, None] * sums.slope - sums.mixed)))

    def hessian_times(self, rows: Array, direction: Array) -> Array:
        """2(Σu̇ Σu′ + Σu Σu̇′ - Σ(u̇u′ + uu̇′))/(n(n-1)), with u̇, u̇′ the derivatives along `direction`."""
        statistic = _UStatistic(self._lifted(rows), self._lifted(direction), self._scale)
        sums = _Moved(*self.source.sum(statistic, stage="penalty"))
        change = sums.du[:, None] * sums.slope + sums.u[:, None] * sums.dslope - sums.mixed
        return self._lowered(2.0 * self._share * change)

    def _lifted(self, rows: Array) -> Array:
        return rows if self.basis is None else np.asarray(rows @ self.basis.T)

    def _lowered(self, rows: Array) -> Array:
        return rows if self.basis is None else np.asarray(rows @ self.basis)

    @property
    def _scale(self) -> float:
        return 1.0 / (sqrt(2.0) * self.coefficient)

    @property
    def _share(self) -> float:
        return 1.0 / (self.source.size * (self.source.size - 1.0))


class _PenaltySums(NamedTuple):
    u: Array
    square: Array
    slope: Array
    mixed: Array


class _Moved(NamedTuple):
    u: Array
    du: Array
    slope: Array
    dslope: Array
    mixed: Array


@dataclass(frozen=True, eq=False)
class _UStatistic:
    """Sums over samples for every row b: of u, u², u′, uu′; or, given directions v, of u, u̇, u′, u̇′, u̇u′ + uu̇′."""

    rows: Array
    direction: Array | None
    scale: float

    def __call__(self, x: Array, y: Array) -> Sums:
        B, r = self.rows, self.scale * y
        Z = x @ B.T
        u = r * (Z * Z - np.sum(B * B, axis=1)) - 1.0
        slope = _weighted(r * Z, r, x, B)
        if self.direction is None:
            return _PenaltySums(u.sum(axis=0), np.square(u).sum(axis=0), slope, _weighted(u * r * Z, u * r, x, B))
        V = self.direction
        Y = x @ V.T
        du = 2.0 * r * (Z * Y - np.sum(B * V, axis=1))
        mixed = _weighted(du * r * Z, du * r, x, B) + _weighted(u * r * Y, u * r, x, V)
        return _Moved(u.sum(axis=0), du.sum(axis=0), slope, _weighted(r * Y, r, x, V), mixed)


def _weighted(along: Array, weights: Array, x: Array, rows: Array) -> Array:
    """Σ_n 2 w_n ((b·x_n) x_n - b) for every row b, with `along` = w_n (b·x_n), (n, r), and `weights` (n, r) or (n, 1)."""
    total = np.broadcast_to(weights.sum(axis=0), (len(rows),))
    return np.asarray(2.0 * (along.T @ x - total[:, None] * rows))
