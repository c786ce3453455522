"""Gauss-Newton on everything that was paid for, each answer with the weight of its own rounding.

All answers are equations in the parameters of the book,

    f(x) = c + v·(x - p) + Σᵢ aᵢ relu(zᵢ),      zᵢ = nᵢ·(x - p) - hᵢ,

and the book is so near that it tells for every answer which units are active. Rows of the Jacobian: aᵢ (x - p) and -aᵢ for active
units, relu(zᵢ) for the readouts, (x - p) and 1; a unit's length is fixed (nᵢ·δnᵢ = 0). The inverse of the normal matrix gives the
error bars, and they say how many fresh random queries the wanted precision needs: steps of a gradient are short, and answers
to random points tie them to the size of the whole function.

The normal equations are scaled by columns and solved for corrections only: their own rounding is then of no account.
Cost n p² for p = width (dim + 1 + outputs) + (dim + 1) outputs parameters; beyond `DENSE` of them it is not done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.random import Generator

from laybare.lines.asking import Answers, Purpose, Purse
from laybare.lines.book import Book
from laybare.shapes import Array
from laybare.source.rounding import Rounding

DENSE = 2600
"""Parameters up to which the normal matrix is formed: 54 MB, two seconds."""

STEPS, FITTED, OUTLYING = 15, 2.0, 30.0
"""Most steps of a fit, the misfit at which it is done, and where an answer counts less. With float64 answers the first step is
the last; with coarse answers some points are on the wrong side of a kink at first."""

PRIOR = 10.0
"""A parameter that the answers leave open stays where it is within so many of its earlier error bars."""

BATCH = 0.06
"""Fresh queries of the first batch, relative to the number of parameters; later ones are larger."""

COARSE_GROWTH = 2
"""Fresh queries of a batch relative to those before it, if the answers are coarse: these need many, and every fit takes time."""

SURE = 3.0
"""Error bars that the wanted precision has room for."""

FEWEST_FREE, ALLOWANCE = 20, 2.0
"""Answers beyond the parameters before their scatter says how large rounding is, and a factor to be on the safe side."""

LEAST_SHARE = 0.01
"""Answers may be free of rounding by chance (all of them zero, for instance): error bars do not shrink below this."""

MISFIT = 10.0
"""Misfit in standard deviations with which a book may still be the function."""

SURPRISE = 30.0
"""Standard deviations beyond which a fresh answer contradicts the book: a unit is missing, and the fit must wait."""


@dataclass(frozen=True, eq=False)
class PolishResult:
    """The book after the fit, its misfit in standard deviations of rounding (root mean square and largest), and fresh queries.

    `surprises` (n, dim) are fresh points whose answers contradict the book; the fit has then stopped before them.
    """

    book: Book
    misfit: float
    worst: float
    fresh: int
    surprises: Array

    @property
    def plausible(self) -> bool:
        """Whether the answers agree with the book, as far as was looked at: a wrong unit gives thousands of deviations."""
        return not self.misfit > MISFIT


def parameters(book: Book) -> int:
    """Free numbers of the book, one for each unit's length among them."""
    dim, outputs = book.gradient.shape
    return int(len(book.units) * (dim + 1 + outputs) + (dim + 1) * outputs)


def error_bars(book: Book) -> Array:
    """For every unit the largest standard deviation of its normal (as a vector), its distance, its relative readout."""
    units = book.units
    size = np.maximum(np.abs(units.readouts).max(axis=1, initial=0.0), 1e-300)
    normals = np.sqrt(units.normals.shape[1]) * units.normal_sd
    return np.asarray(np.max([normals, units.distance_sd / (1.0 + units.distances), units.readout_sd / size], axis=0))


def error_bar(book: Book) -> float:
    """The largest of them."""
    return float(error_bars(book).max()) if len(book.units) else book.gradient_sd


def polish(
    purse: Purse, book: Book, rounding: Rounding, *, precision: float, fresh_share: float = 1.2, spread: float = 1.0,
    reserve: int = 0, rng: Generator,
) -> PolishResult:
    """Fit the book to all answers; ask fresh points until its error bars are below `precision`, or the share is used up.

    `reserve` queries of the budget are left for others.
    """
    p = parameters(book)
    none = np.empty((0, len(book.point)))
    if p > DENSE or not len(book.units):
        return PolishResult(book, np.nan, np.nan, 0, none)
    asked, most = 0, int(fresh_share * p)
    fitted = _fit(purse, book, rounding)
    while SURE * error_bar(fitted.book) > precision and asked < most and fitted.plausible:
        batch = min(max(8, int(BATCH * p), asked // 2 if rounding.fine else COARSE_GROWTH * asked), most - asked)
        if purse.left is not None:
            batch = min(batch, purse.left - reserve)
        if batch < 1:
            break
        fresh = _ask_aimed(purse, fitted.book, batch, 2.0 * spread, rng)
        asked += batch
        surprises = contradictions(fresh, fitted.book, rounding)
        if len(surprises):
            return replace(fitted, fresh=asked, surprises=surprises)
        fitted = _fit(purse, fitted.book, rounding)
    return replace(fitted, fresh=asked)


def ask_random(purse: Purse, book: Book, count: int, spread: float, purpose: Purpose, rng: Generator) -> Answers:
    """Fresh points: Gaussian, or uniform in the box."""
    dim = len(book.point)
    if purse.box is None:
        x = spread * rng.standard_normal((count, dim))
    else:
        x = purse.box.low + (purse.box.high - purse.box.low) * rng.random((count, dim))
    return Answers(x, purse.ask(x, purpose))


def _ask_aimed(purse: Purse, book: Book, count: int, spread: float, rng: Generator) -> Answers:
    """Fresh points for the polish: half of them random, half around the units with the largest error bars, wherever these are."""
    units = book.units
    if purse.box is not None:
        return ask_random(purse, book, count, spread, "polish", rng)
    bars = error_bars(book)
    worst = rng.choice(len(units), size=count // 2, p=bars / bars.sum())
    away = spread * rng.standard_normal((count, len(book.point)))
    reach = units.distances[worst] + 1.0
    feet = book.point + units.normals[worst] * units.distances[worst, None]
    x = np.vstack([feet + away[: count // 2] * reach[:, None], away[count // 2 :]])
    return Answers(x, purse.ask(x, "polish"))


def contradictions(fresh: Answers, book: Book, rounding: Rounding) -> Array:
    """The points (n, dim) among fresh ones whose answers the book does not predict."""
    return np.asarray(fresh.x[misfits(fresh, book, rounding) > SURPRISE])


def misfits(fresh: Answers, book: Book, rounding: Rounding) -> Array:
    """Differences of answers and predictions, (n,), in standard deviations of the two together."""
    sd = np.hypot(rounding.sd(fresh.x, fresh.y), book.sd(fresh.x))
    return np.asarray(np.abs(fresh.y - book(fresh.x)).max(axis=1) / sd)


def _fit(purse: Purse, book: Book, rounding: Rounding) -> PolishResult:
    blocks = list(purse.answers())
    x, y = np.vstack([block.x for block in blocks]), np.vstack([block.y for block in blocks])
    weight = 1.0 / rounding.sd(x, y)
    misfit, prior = _misfit(book, x, y, weight), _bars(book)
    for _ in range(STEPS):
        moved = _step(book, x, y, _robust(book, x, y, weight), prior)
        now, before = _misfit(moved, x, y, weight), misfit
        if now[0] <= 1.5 * misfit[0]:
            book, misfit = _rescaled(moved, now[0], y.size), now
        if now[0] < FITTED or now[0] > 0.95 * before[0]:
            break
    return PolishResult(book, *misfit, 0, np.empty((0, x.shape[1])))


def _robust(book: Book, x: Array, y: Array, weight: Array) -> Array:
    """Weights with less for answers that are far off: a point on the wrong side of a kink says nothing until it is put right."""
    off = np.abs(y - book(x)).max(axis=1) * weight
    return np.asarray(weight * np.minimum(1.0, OUTLYING / np.maximum(off, 1e-300)))


def _rescaled(book: Book, misfit: float, answers: int) -> Book:
    """Error bars by what the answers scatter, if there are enough of them: the level of rounding is taken generously before."""
    free = answers - parameters(book) + len(book.units)
    if free < FEWEST_FREE:
        return book
    share = np.clip(ALLOWANCE * misfit * float(np.sqrt(answers / free)), LEAST_SHARE, 1.0)
    units = book.units
    smaller = replace(
        units, normal_sd=share * units.normal_sd, distance_sd=share * units.distance_sd, readout_sd=share * units.readout_sd)
    return replace(book, units=smaller, gradient_sd=share * book.gradient_sd)


def _misfit(book: Book, x: Array, y: Array, weight: Array) -> tuple[float, float]:
    off = np.abs(y - book(x)) * weight[:, None]
    return float(np.sqrt(np.mean(off**2))), float(off.max())


def _bars(book: Book) -> Array:
    """Error bars in the order of the parameters, (p,)."""
    units, (dim, outputs) = book.units, book.gradient.shape
    parts = [np.repeat(units.normal_sd, dim), units.distance_sd, np.tile(units.readout_sd, outputs)]
    return np.concatenate([*parts, np.full(outputs * (dim + 1), book.gradient_sd)])


def _step(book: Book, x: Array, y: Array, weight: Array, prior: Array) -> Book:
    """One Gauss-Newton step, with new error bars."""
    A, b = _normal_equations(book, x, y, weight)
    A[np.diag_indices(len(A))] += 1.0 / np.maximum(PRIOR * prior, 1e-140) ** 2
    _fix_lengths(A, book.units.normals)
    scale = 1.0 / np.sqrt(np.diag(A))
    A *= scale[:, None]
    A *= scale
    factor = factored(A)
    delta = scale * scipy.linalg.cho_solve((factor, True), scale * b, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return _moved(book, delta, scale * np.sqrt(np.maximum(np.diag(inverse), 0.0)))


def factored(A: Array) -> Array:
    """Lower Cholesky factor of a matrix with unit diagonal, or of a little more where rounding has made it indefinite."""
    more = 1e-15
    while True:
        A[np.diag_indices(len(A))] += more
        try:
            return np.asarray(scipy.linalg.cho_factor(A, lower=True, check_finite=False)[0])
        except np.linalg.LinAlgError:
            more *= 10.0


def _normal_equations(book: Book, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    rest = (y - book(x)).T * weight
    p = parameters(book)
    A, b = np.zeros((p, p)), np.zeros(p)
    for o in range(len(rest)):
        J = _jacobian(book, x, o)
        J *= weight[:, None]
        A += J.T @ J
        b += J.T @ rest[o]
    return A, b


def _fix_lengths(A: Array, normals: Array) -> None:
    """Weight on nᵢ·δnᵢ, the direction that changes nothing: a unit's length against its readout."""
    k, dim = normals.shape
    diagonal = np.diag(A)
    for i in range(k):
        part = slice(i * dim, (i + 1) * dim)
        A[part, part] += float(diagonal[part].max()) * np.outer(normals[i], normals[i])


def _jacobian(book: Book, x: Array, output: int) -> Array:
    """(n, p) of one output: normals, distances, readouts, gradient, value."""
    units, away = book.units, x - book.point
    n, dim = x.shape
    k, outputs = units.readouts.shape
    z = away @ units.normals.T - units.distances
    J = np.zeros((n, parameters(book)))
    slope = (z > 0.0) * units.readouts[:, output]
    np.multiply(slope[:, :, None], away[:, None, :], out=J[:, : k * dim].reshape(n, k, dim))
    at = k * (dim + 1)
    J[:, k * dim : at] = -1.0 * slope
    J[:, at + output * k : at + (output + 1) * k] = np.maximum(z, 0.0)
    tail = at + outputs * k + output * (dim + 1)
    J[:, tail : tail + dim] = away
    J[:, tail + dim] = 1.0
    return J


def _moved(book: Book, delta: Array, sd: Array) -> Book:
    units = book.units
    k, dim = units.normals.shape
    outputs = units.readouts.shape[1]
    cuts = np.cumsum([k * dim, k, k * outputs])
    normals, distances, readouts, tail = np.split(delta, cuts)
    normal_sd, distance_sd, readout_sd, tail_sd = np.split(sd, cuts)
    rows = units.normals + normals.reshape(k, dim)
    lengths = np.linalg.norm(rows, axis=1)
    fresh = replace(
        units, normals=rows / lengths[:, None], distances=(units.distances + distances) / lengths,
        readouts=(units.readouts + readouts.reshape(outputs, k).T) * lengths[:, None],
        normal_sd=normal_sd.reshape(k, dim).max(axis=1, initial=0.0), distance_sd=distance_sd,
        readout_sd=readout_sd.reshape(outputs, k).max(axis=0))
    affine = tail.reshape(outputs, dim + 1)
    return replace(
        book, units=fresh, gradient=book.gradient + affine[:, :-1].T, value=book.value + affine[:, -1],
        gradient_sd=float(tail_sd.reshape(outputs, dim + 1)[:, :-1].max()))
