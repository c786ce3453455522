"""Standard errors of a fitted network, right whether or not the noise is the same everywhere.

With H = JᵀJ, constrained as in `information.py`, and a least-squares fit, the estimates have the covariance H⁻¹ S H⁻¹ with
S = Σ_n (J_nᵀ r_n)(J_nᵀ r_n)ᵀ (Huber 1967, White 1980): no assumption on the noise but independence from row to row. Where it is
the same everywhere, S = σ² H and this is the Cramér-Rao bound. A fit pulls the residual of a row down by its leverage
h_n = J_n H⁻¹ J_nᵀ: residuals are divided by 1 - h_n (HC3, MacKinnon and White 1985), without which few rows look too certain.
What other minima close by fit as well (`neighbours.py`) comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate.carrying import carried, root_of, standardised
from laybare.certificate.claims import StandardErrors
from laybare.certificate.fitted import State
from laybare.certificate.information import Inverse, constrained_inverse, information
from laybare.certificate.neighbours import Neighbours, looked_for, neighbours_of
from laybare.linear_algebra import Precision, inner
from laybare.networks import Network
from laybare.refinement.normal import (
    InPrecision,
    Point,
    Split,
    Step,
    StepStatistic,
    khatri_rao,
    point_of,
    pre_activations,
    quick_precision,
    step_of,
    with_ones,
)
from laybare.refinement.parts import enough_rows
from laybare.refinement.products import GradientStatistic, joined
from laybare.shapes import Array, Sums
from laybare.source import Source
from laybare.workspace import workspace

LARGEST = 4000
"""Parameters up to which the information matrix is inverted: 128 MB, and a few seconds."""

FILLING_A_NUMBER, FEWEST_FILLING, FILLING = 2, 12_000, 2_000_000_000
"""Rows for S where P² operations for each are many: what is asked are P variances, not a matrix, and 2,000 rows know those to
three per cent, standard errors to half of that."""

WELL_KNOWN = 1e4
"""Norm of the inverse information, its diagonal one, up to which single precision errs by less than a hundredth."""

AWAY = 1.0
"""Standard errors that a network may be off the nearest minimum of the squared error."""

LEAST_REST = 1e-3
"""Least 1 - h: a row that its own unit follows entirely has no residual to speak of."""


class Spread(NamedTuple):
    """Standard errors on the given inputs; the largest of a unit relative to its row or readout, where columns have variance one,
    and which unit that is; the largest step to the minimum in standard errors (0 for an exact fit); the minima close by."""

    errors: StandardErrors
    loosest: float
    unit: int
    away: float
    neighbours: Neighbours


def standard_errors(network: Network, source: Source, noise: float, *, biases: bool, offset: bool) -> StandardErrors:
    """Standard errors at `network` from the inputs of `source`, for noise of standard deviation `noise` in every output.

    For homogeneous activations they refer to unit rows. A parameter that can move without any change at the samples has an
    infinite one. One pass; memory (parameters)², so that networks of more than `LARGEST` parameters get NaN.
    """
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    if _numbers(point) > LARGEST:
        return _shaped(np.full(_numbers(point), np.nan), network, point)
    inverse = constrained_inverse(information(Step(*source.sum(StepStatistic(point), stage="standard errors")), point), point)
    errors = noise * np.sqrt(np.maximum(np.diag(inverse.matrix), 0.0))
    return _shaped(np.where(inverse.open, np.inf, errors), network, point)


def spread_of(state: State, informed: Informed | None, *, rng: Generator) -> Spread:
    """The spread of a fit, from its own residuals; two passes over white rows, and with noise the refits of its neighbours.
    NaN beyond `LARGEST` parameters.

    Everything is done for y in units of its standard deviation, so that no size of y or of a column does harm. `informed` is what
    `inform` says.
    """
    unit, point = float(np.sqrt(state.variance)), _scaled(state)
    if informed is None:
        return Spread(_shaped(np.full(_numbers(point), np.nan), state.network, point), np.nan, 0, 0.0, Neighbours())
    gram, inverse, known = informed
    covariance = _covariance(state, point, unit, inverse) / known
    inverse = inverse._replace(open=inverse.open | ~np.isfinite(covariance).all(axis=1))
    # robust errors vanish where noise does; least squares still errs
    plain = np.sqrt(state.noise) / unit * root_of(inverse.matrix)
    move = inverse.matrix @ _gradient(state, point, unit)
    away = 0.0 if state.exact else _away(move, np.maximum(np.where(inverse.open, np.inf, root_of(covariance)), plain))
    settled = not state.exact and not inverse.open.any() and away <= AWAY
    others = neighbours_of(state, gram, covariance, rng=rng) if settled else Neighbours()
    covariance = covariance + others.covariance(len(covariance)) if len(others.moves) else covariance
    transform = state.problem.transform
    given = _told(carried(covariance, point, transform).errors, inverse.open)
    given[point.units.size :] *= unit
    relative = _relative(*carried(covariance, point, standardised(transform)), inverse.open)
    worst = int(np.argmax(relative)) if len(relative) else 0
    return Spread(_shaped(given, state.network, point), float(relative.max(initial=0.0)), worst, away, others)


class Informed(NamedTuple):
    """The Gram matrix of a step for all used rows, the inverse information, and what a sandwich of that must be divided by."""

    gram: Array
    inverse: Inverse
    known: float = 1.0


def _scaled(state: State) -> Point:
    """The point for y in units of its standard deviation."""
    return state.point.moved(state.point.units, state.point.coefficients / float(np.sqrt(state.variance)))


def informing_gram(state: State) -> Array | None:
    """The Gram matrix of a step on the rows that inform about every number, as if all used rows were like them; nothing beyond
    `LARGEST` parameters. With noise in single precision, where there are many numbers."""
    if _numbers(state.point) > LARGEST:
        return None
    part, rest = state.informing, None if state.exact else state.some_and_rest[1]
    if rest is not None:
        gram = state.gram_on_some + _gram(state, rest, quick_precision(state.point))
    else:
        gram = _gram(state, part, np.float64 if state.exact else quick_precision(state.point))
    gram *= state.view.size / part.size
    return gram


def inform(state: State, gram: Array | None = None) -> Informed | None:
    """What the samples say about every number, for y in units of its standard deviation, by their `informing_gram`; nothing
    beyond `LARGEST` parameters.

    Some of the rows do if they leave no number open, and with noise if the inverse does not blow up what they, or single
    precision, do not know; else all rows are asked, in double precision.

    The mean inverse of a sample covariance of n₁ rows in P dimensions is too large by n₁/(n₁ - P) (Wishart), which is corrected.
    A sandwich whose filling comes from the same rows is too large by that only once.
    """
    gram = informing_gram(state) if gram is None else gram
    if gram is None:
        return None
    point, part = _scaled(state), state.informing
    inverse = constrained_inverse(information(step_of(gram), point), point)
    best = part is state.view and (state.exact or quick_precision(point) is np.float64)
    if best or not (inverse.open.any() if state.exact else inverse.condition >= WELL_KNOWN):
        known = 1.0 if state.exact or part is state.view else 1.0 - state.unknowns / (part.size * part.outputs)
        np.multiply(inverse.matrix, known, out=inverse.matrix)
        return Informed(gram, inverse, known)
    gram = _gram(state, state.view, np.float64)
    return Informed(gram, constrained_inverse(information(step_of(gram), point), point))


def _gram(state: State, view: Source, dtype: Precision) -> Array:
    return Step(*view.sum(StepStatistic(state.point, dtype), stage="standard errors")).gram


def _gradient(state: State, point: Point, unit: float) -> Array:
    """Jᵀr of all used rows, y in units of `unit`, in the order of the information; one pass. Single precision errs by a millionth
    of a standard error."""
    _, *parts = state.view.sum(GradientStatistic(state.point, state.precision), stage="standard errors")
    rows, coefficients = joined(state.point, Split(*parts))
    return np.concatenate([rows.ravel() / unit**2, coefficients.ravel() / unit])


@dataclass(frozen=True, eq=False)
class _Sandwich(InPrecision):
    """(z, y) -> H⁻¹ Σ_n s_n s_nᵀ H⁻¹ with s_n = J_nᵀ r_n / (1 - h_n), y in so many of `unit`; h_n: mean leverage of its outputs.

    With one output H⁻¹ J_nᵀ, which the leverages need, is all: its squares are added up, each row weighted. `dtype` is the
    precision of products inside a block. Of each unit by itself unless `whole`: zero elsewhere.
    """

    point: Point
    inverse: Array
    unit: float
    dtype: Precision
    whole: bool = True

    @property
    def row_floats(self) -> int:
        return 4 * _numbers(self.point)

    @property
    def sum_floats(self) -> int:
        return _numbers(self.point) ** 2

    def __call__(self, x: Array, y: Array) -> Sums:
        point, n = self.point, len(x)
        k, p = point.units.shape
        q, m = point.coefficients.shape
        C, X1 = point.coefficients.astype(self.dtype, copy=False), with_ones(point, x, self.dtype)
        H, S = point.activation.value_and_slope(pre_activations(point, X1))
        F = np.hstack([H, *([X1[:, -1:]] if point.offset else []), *([X1[:, :-1]] if point.linear else [])])
        R = (y / self.unit).astype(self.dtype, copy=False) - F @ C
        whole = self.inverse.astype(self.dtype, copy=False)
        J, V, lever = *workspace("scores", (2, n, k * p + q * m), self.dtype), np.zeros(n)
        rows, rest = J[:, : k * p], J[:, k * p :].reshape(n, q, m)
        for o in range(m):  # of one output alone, then the scores of all in the same place
            khatri_rao(S * C[:k, o], X1[:, :p], rows)
            rest[:], rest[:, :, o] = 0.0, F
            np.matmul(J, whole, out=V)
            lever += np.einsum("np,np->n", V, J, dtype=np.float64) / m
        R = R / np.maximum(1.0 - lever, LEAST_REST)[:, None].astype(self.dtype)
        if m == 1:
            V *= R
        else:
            khatri_rao(S * (R @ C[:k].T), X1[:, :p], rows)
            np.multiply(F[:, :, None], R[:, None, :], out=rest)
            np.matmul(J, whole, out=V)
        return (inner(V, V).astype(np.float64, copy=False) if self.whole else _unit_blocks(V, point),)


def _unit_blocks(V: Array, point: Point) -> Array:
    """VᵀV of the numbers of each unit, and of those that belong to none."""
    (k, p), (q, m) = point.units.shape, point.coefficients.shape
    blocks = np.zeros((k * p + q * m,) * 2)
    for j in range(k):
        row, readout = slice(j * p, (j + 1) * p), slice(k * p + j * m, k * p + (j + 1) * m)
        blocks[row, row], blocks[row, readout] = V[:, row].T @ V[:, row], V[:, row].T @ V[:, readout]
        blocks[readout, row], blocks[readout, readout] = blocks[row, readout].T, V[:, readout].T @ V[:, readout]
    rest = slice(k * (p + m), None)
    blocks[rest, rest] = V[:, rest].T @ V[:, rest]
    return blocks


def _covariance(state: State, point: Point, unit: float, inverse: Inverse) -> Array:
    """H⁻¹ S H⁻¹; for an exact fit, whose residuals are rounding, σ² H⁻¹."""
    if state.exact:
        return np.asarray(state.noise / unit**2 * inverse.matrix)
    numbers = _numbers(point)
    rows = max(FILLING_A_NUMBER * numbers, min(FEWEST_FILLING, FILLING // numbers**2))
    part = enough_rows(state.informing, rows)  # rows that H knows: what it is too large by, it is for these
    statistic = _Sandwich(
        point, inverse.matrix, unit, state.precision if inverse.condition < WELL_KNOWN else np.float64,
        whole=looked_for(state, numbers))
    (covariance,) = part.sum(statistic, stage="robust errors")
    return np.asarray(covariance * (state.view.size / part.size))


def _away(move: Array, errors: Array) -> float:
    known = np.isfinite(errors) & (errors > 0.0)
    return float(np.max(np.abs(move[known]) / errors[known], initial=0.0))


def _relative(errors: Array, point: Point, loose: Array) -> Array:
    """For every unit: the standard error of its row over the row, or of its readout over the readout, whichever is larger."""
    k, p = point.units.shape
    errors = _told(errors, loose)
    rows, rest = errors[: k * p].reshape(k, p), errors[k * p :].reshape(point.coefficients.shape)[:k]
    parts = ((rows, point.units), (rest, point.coefficients[:k]))
    sizes = [np.linalg.norm(error, axis=1) / np.maximum(np.linalg.norm(part, axis=1), 1e-300) for error, part in parts]
    return np.asarray(np.maximum(*sizes))


def _told(errors: Array, loose: Array) -> Array:
    """Errors, infinite for numbers that are open and for those whose error overflowed: NaN would pass for "not looked at"."""
    return np.where(loose | ~np.isfinite(errors), np.inf, errors)


def _numbers(point: Point) -> int:
    return int(point.units.size + point.coefficients.size)


def _shaped(errors: Array, network: Network, point: Point) -> StandardErrors:
    k, p = point.units.shape
    rows = errors[: k * p].reshape(k, p)
    rest = errors[k * p :].reshape(point.coefficients.shape)
    offset = rest[k] if point.offset else np.zeros(rest.shape[1])
    biases = rows[:, -1] if point.biases else np.zeros(k)
    return StandardErrors(
        rows[:, : network.dim], biases, rest[:k].reshape(network.readout.shape), offset.reshape(np.shape(network.offset)))
