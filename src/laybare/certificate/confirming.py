"""All rows confirm a further unit that some of them found: what it gains beside others that make room for it.

Some rows are enough to look for a place, since a step there costs little, but what they promise is theirs: with n₁ rows for P
numbers much of it is noise. All rows (or many) then say what is left of the promise, by a regression on fixed functions: how the
other units move is known from some rows, and what the new ones may do is freed of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.certificate.further_unit import (
    NEW,
    NEW_SINGLE,
    Linearised,
    MovingStatistic,
    MovingSums,
    Together,
    columns_of_readouts,
    columns_of_rows,
    formed,
    of_length,
)
from laybare.linear_algebra import Precision, inner, solve_spd
from laybare.refinement.normal import InPrecision, Point
from laybare.shapes import Array, Sums


@dataclass(frozen=True, eq=False)
class _FreedStatistic(InPrecision):
    """(x, y) -> Gram matrix of the functions by which new units with such rows (K, p) and readouts (K, m) may change the outputs,
    K·m by their readouts and K·p by their rows, each less Jδ with its δ in `back`; its product with R; R²."""

    point: Point
    rows: Array
    readouts: Array
    back: Array  # (m, q + k·p, K·m + K·p): Jδ of an output is Z times that
    unit: float
    dtype: Precision

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients) + self.rows.size) + int(self.back.shape[2])

    def __call__(self, x: Array, y: Array) -> Sums:
        Z, N, R = formed(self.point, self.rows, self.unit, x, y, self.dtype)
        (K, p), m, count = self.rows.shape, R.shape[1], self.back.shape[2]
        gram, moment = np.zeros((count, count)), np.zeros(count)
        readouts = self.readouts.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            for o in range(m):
                M = Z @ -self.back[o].astype(self.dtype, copy=False)
                M[:, o : K * m : m] += N[:, :K]
                M[:, K * m :] += (N[:, K:].reshape(-1, K, p) * readouts[:, o, None]).reshape(-1, K * p)
                gram += inner(M, M)
                moment += inner(M, R[:, o])
            return gram, moment, np.asarray(np.einsum("no,no->", R, R, dtype=np.float64))


class Sighting(NamedTuple):
    """New units, rows (K, p) and readouts (K, m), the unit that they replace, if any, and what all rows gain by them and by their
    next step, in squares of y in units of `unit`."""

    rows: Array
    readouts: Array
    left_out: int | None = None
    gain: float = 0.0

    @property
    def numbers(self) -> int:
        return int(self.rows.size + self.readouts.size)


def confirmed(some: Together, every: Together, whole: Linearised, tried: Sequence[Sighting]) -> list[Sighting]:
    """What all rows gain by new units that were found on some, and where a step on all rows leads; a pass over either for all.

    How the other units move to make room is taken from some rows, where JᵀJ is known: with n₁ of them for P numbers, what is left
    of the new functions is too large by about n₁ / (n₁ - P), and the gain too small by that. A regression on fixed functions, it
    promises nothing that a refit could not keep to first order.
    """
    point, rows, readouts = some.point, np.vstack([one.rows for one in tried]), np.vstack([one.readouts for one in tried])
    (k, p), (q, m), K = point.units.shape, point.coefficients.shape, len(rows)
    sums = MovingSums(*some.source.sum(MovingStatistic(point, rows, (), some.unit, some.dtype), stage="certificate"))
    cross = np.hstack([
        columns_of_readouts(sums.cross[:, :K], point, np.eye(m)),
        columns_of_rows(sums.cross[:, K:].reshape(-1, K, p), point, readouts)])
    follow = whole.curvature.solve(cross)
    count = follow.shape[1]
    hidden, linear = follow[: k * p].reshape(k, p, count), follow[k * p :].reshape(q, m, count)
    back = np.stack([
        np.vstack([linear[:, o], (hidden * point.coefficients[:k, o, None, None]).reshape(k * p, count)]) for o in range(m)])
    gram, moment, _ = every.source.sum(_FreedStatistic(point, rows, readouts, back, every.unit, every.dtype), stage="certificate")
    gram += np.diag((NEW if every.dtype is np.float64 else NEW_SINGLE) * np.diag(gram))
    own = np.split(np.arange(K), np.cumsum([len(one.rows) for one in tried])[:-1])
    return [_moved(one, gram, moment, numbers, K, point) for one, numbers in zip(tried, own, strict=True)]


def _moved(one: Sighting, gram: Array, moment: Array, own: Array, count: int, point: Point) -> Sighting:
    """A sighting after the step of a regression on its own columns among those of `count` new rows."""
    (K, p), m = one.rows.shape, one.readouts.shape[1]
    columns = np.concatenate([(own[:, None] * m + np.arange(m)).ravel(), (count * m + own[:, None] * p + np.arange(p)).ravel()])
    step = solve_spd(gram[np.ix_(columns, columns)], moment[columns])
    gain = float(moment[columns] @ step)
    if not gain > 0.0:  # NaN for units that overflow, which explain nothing
        return one._replace(gain=0.0)
    move, readouts = step[K * m :].reshape(K, p), step[: K * m].reshape(K, m)  # R is what is left without any new unit
    degree = point.activation.degree
    if degree is None:
        return Sighting(of_length(one.rows + move, one.rows, point), readouts, one.left_out, gain)
    along = np.einsum("kp,kp->k", move, one.rows)[:, None] / np.maximum(np.sum(one.rows**2, axis=1), 1e-300)[:, None]
    rows = one.rows + move - along * one.rows  # along itself a row only makes the readout larger
    lengths = np.linalg.norm(rows[:, : p - point.biases], axis=1)[:, None]
    readouts = (readouts + degree * along * one.readouts) * lengths**degree
    return Sighting(of_length(rows, one.rows, point), readouts, one.left_out, gain)
