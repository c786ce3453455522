"""The fourth moment T = E[y He₄(x)] as an operator, for objectives that evaluate it many times.

Four contractions are all that the designed objectives of Ge, Lee & Ma (2018) need: T[S, ·, ·] for a symmetric matrix S, and
T[b, b, b, ·], T[S, b, ·], T[b, b, v, ·] for many rows b, v. With q = xᵀSx, C = E[y xxᵀ], y₀ = E[y]:

    T[S, ·, ·]    = E[y q xxᵀ] - tr(S) C - ⟨S, C⟩ I - 2(SC + CS) + y₀(tr(S) I + 2S)
    T[b, b, v, ·] = E[y (b·x)²(v·x) x] - |b|² Cv - 2(b·v) Cb - (bᵀCb) v - 2(bᵀCv) b + y₀(|b|² v + 2(b·v) b)

`Quartic` takes a pass over the data an evaluation, time n·r·d for r rows; `PackedQuartic` forms T once, time n·d⁴/24, and then
evaluates in r·d⁴/4. By operation count the packed one pays if there will be more than about d³/(50 r) evaluations.
Both have the same four methods; results have one entry an output in front.
Source: Ge, Lee & Ma (2018), equations (2.8) and (2.9); the latter has a sign wrong, ours is He₄[v,v,w,w]/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np

from laybare.moments.contracted import weighted_grams
from laybare.moments.packed import PackedMoments, veronese
from laybare.moments.symmetric import smat, svec
from laybare.shapes import Array, Statistic, Sums
from laybare.source.protocol import Source


@dataclass(frozen=True, eq=False)
class Quartic:
    """T by passes over `source`; `mean` (outputs,) is E[y], `second` (outputs, d, d) is E[y xxᵀ]. Made by `quartic`."""

    source: Source
    mean: Array
    second: Array

    def contract(self, matrix: Array) -> Array:
        """T[S, ·, ·], (outputs, d, d)."""
        S, C, eye = matrix, self.second, np.eye(len(matrix))
        trace, level = np.trace(S), np.einsum("ij,oij->o", S, C)[:, None, None]
        low = self.mean[:, None, None] * (trace * eye + 2 * S)
        found: Array = self._mean(_Contract(S)) - trace * C - level * eye - 2 * (S @ C + C @ S) + low
        return found

    def cubes(self, rows: Array) -> Array:
        """T[b, b, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        return self.squares(rows, rows)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[b, b, v, ·] for every row b of `rows` and v of `others`, both (r, d): (outputs, r, d)."""
        B, V, C = rows, others, self.second
        norms, inner = (np.einsum("ri,ri->r", B, each)[:, None] for each in (B, V))
        BC, VC = B @ C, V @ C
        own, cross = (np.einsum("ori,ri->or", BC, each)[..., None] for each in (B, V))
        low = self.mean[:, None, None] * (norms * V + 2 * inner * B)
        found: Array = self._mean(_FourthSquares(B, V)) - norms * VC - 2 * inner * BC - own * V - 2 * cross * B + low
        return found

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[S, b, ·] for every row b of `rows` (r, d), without forming T[S, ·, ·]: (outputs, r, d)."""
        S, B, C = matrix, rows, self.second
        trace, level = np.trace(S), np.einsum("ij,oij->o", S, C)[:, None, None]
        low = self.mean[:, None, None] * (trace * B + 2 * B @ S)
        found: Array = self._mean(_Mixed(S, B)) - trace * B @ C - level * B - 2 * (B @ S @ C + B @ C @ S) + low
        return found

    def _mean(self, statistic: Statistic) -> Array:
        mean: Array = self.source.sum(statistic, stage="fourth moment")[0] / self.source.size
        return mean


def quartic(source: Source) -> Quartic:
    """The fourth moment of `source` as an operator; one pass now, one more an evaluation."""
    second, total = source.sum(_Low(), stage="second moment")
    return Quartic(source, total / source.size, second / source.size)


@dataclass(frozen=True, eq=False)
class PackedQuartic:
    """T as a matrix on packed quadratics, `matrix` (outputs, D₂, D₂): it maps svec(S) to svec(T[S, ·, ·])."""

    dim: int
    matrix: Array

    @classmethod
    def of(cls, moments: PackedMoments) -> PackedQuartic:
        """From packed moments of order 4 or more, however they were estimated."""
        return cls(moments.dim, sqrt(factorial(4)) * moments.flattened(2, 2))

    def contract(self, matrix: Array) -> Array:
        """T[S, ·, ·], (outputs, d, d)."""
        return smat(self.matrix @ svec(matrix))

    def cubes(self, rows: Array) -> Array:
        """T[b, b, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        return self.squares(rows, rows)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[b, b, v, ·] for every row b of `rows` and v of `others`, both (r, d): (outputs, r, d)."""
        slices = smat(veronese(rows, 2) @ self.matrix)
        found: Array = np.einsum("orij,rj->ori", slices, others)
        return found

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[S, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        found: Array = rows @ self.contract(matrix)
        return found


class _Low:
    """Statistic: Σ y xxᵀ and Σ y."""

    def __call__(self, x: Array, y: Array) -> Sums:
        return weighted_grams(x, y.T), y.sum(axis=0)


@dataclass(frozen=True, eq=False)
class _Contract:
    """Statistic: Σ y (xᵀSx) xxᵀ."""

    matrix: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        q = np.einsum("ni,ni->n", x @ self.matrix, x)
        return (weighted_grams(x, y.T * q),)


@dataclass(frozen=True, eq=False)
class _FourthSquares:
    """Statistic: Σ y (b·x)² (v·x) x."""

    rows: Array
    others: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        along = self.rows @ x.T
        across = along if self.others is self.rows else self.others @ x.T
        products = along * along * across
        return (np.stack([(products * weight) @ x for weight in y.T]),)


@dataclass(frozen=True, eq=False)
class _Mixed:
    """Statistic: Σ y (xᵀSx) (b·x) x."""

    matrix: Array
    rows: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        q = np.einsum("ni,ni->n", x @ self.matrix, x)
        along = self.rows @ x.T
        return (np.stack([(along * (weight * q)) @ x for weight in y.T]),)
