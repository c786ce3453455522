"""Laws of the inputs, and their whitening.

Laws of the inputs: Gaussian, symmetric about 0, uniform in a box, or unknown; and the box that queries never leave.

Mean, second moment and whitening of the inputs, in passes that lose no digits to a large mean.

Let S be the covariance, D the diagonal matrix of standard deviations and R = D⁻¹ S D⁻¹ the correlations. We whiten by
z = (x - mean) D⁻¹ R^(-1/2). Scaling the columns first makes the accuracy independent of their units; the symmetric root then
keeps every z_i as close to its own standardised x_i as whitening allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from numpy.random import Generator
from scipy.linalg import qr

from laybare.errors import InvalidInput, TooFewSamples
from laybare.numerics.checks import as_reals, check_memory, show_value
from laybare.numerics.linear_algebra import inner
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Affine, Law, Source

SMALLEST_CORRELATION_EIGENVALUE = 1e-12
"""Smaller eigenvalues of the correlations count as zero. Derived: at this value the spread is 1e-6 of the usual one, and
whitening, which divides by it, leaves about ten of sixteen digits."""

DEPENDENCE_SHARE = 1e-4
"""Smallest coefficient, relative to the largest, of a column in a linear dependence that an error message names.
Checked by `pytest tests/source/test_whitening.py`."""


def whitening_map(source: Source, *, centred: bool = True) -> Affine:
    """The whitening map of the law of `source`; if not centred, by the second moment about 0."""
    transform = source.law.whitening(source)
    if centred or not transform.mean.any():
        return transform
    origin = np.zeros(source.dim)
    return Affine(origin, inverse_root(second_moment(source, origin), input_names(source)))


def input_mean(source: Source) -> Array:
    """Mean of the inputs; one pass. Differences to the first row are summed, so that the mean of a constant column is exact."""
    first = source.read(0, 1).x[0].copy()

    def differences(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.sum(x - first, axis=0),)

    (total,) = source.sum(differences, stage="input mean")
    mean: Array = first + total / source.size
    return mean


def second_moment(source: Source, mean: Array) -> Array:
    """Mean of (x - mean)(x - mean)ᵀ, divided by n; one pass."""
    if source.size <= source.dim:
        raise TooFewSamples(
            f"{source.size} sample{'s' * (source.size > 1)} in dimension {source.dim}.",
            "The covariance is singular, so they cannot be whitened.",
            f"Give more than {source.dim} samples (ten times as many for a usable estimate), or give the law with its mean and "
            "covariance.", samples=source.size, dim=source.dim, needed=source.dim + 1)

    def gram(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):  # `inverse_root` raises if it is not finite
            centred = x - mean
            return (inner(centred, centred),)

    (total,) = source.sum(gram, stage="input covariance")
    moment: Array = total / source.size
    return moment


def inverse_root(cov: Array, names: Sequence[str] = ()) -> Array:
    """The matrix D⁻¹ R^(-1/2) that whitens rows (see the module); the error for a singular covariance names its columns."""
    variances = np.diag(cov)
    if not np.isfinite(cov).all():
        columns = np.flatnonzero(~np.isfinite(cov).all(axis=0))
        raise InvalidInput(
            f"The covariance of the inputs overflows ({_list_columns(columns, names)}).",
            "Squares of numbers above 1e154 overflow.",
            "Give such columns in another unit: divide them by their standard deviation.", columns=columns.tolist())
    constant = np.flatnonzero(~(variances > 0))
    if len(constant):
        raise InvalidInput(
            f"{_list_columns(constant, names)} {'is' if len(constant) == 1 else 'are'} constant "
            f"(variance {variances[constant[0]]:g}).",
            "A direction without spread cannot be whitened, and weights along it cannot be distinguished from biases.",
            f"Leave such columns out{_how_to_drop(constant, names)}.", columns=constant.tolist())
    spread = np.sqrt(variances)
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    null = vectors[:, values < SMALLEST_CORRELATION_EIGENVALUE]
    if null.size:
        columns = _dependent(null)
        raise InvalidInput(
            f"{_list_columns(columns, names)} are linearly dependent (smallest eigenvalue of the correlations {values[0]:.1e}).",
            "Weights along a direction without spread cannot be determined.",
            f"Leave out one of these columns ({null.shape[1]} in all must go){_how_to_drop(columns[-1:], names)}.",
            columns=columns.tolist(), eigenvalue=float(values[0]))
    root: Array = (vectors / np.sqrt(values)) @ vectors.T / spread[:, None]
    return root


def input_names(source: Source) -> tuple[str, ...]:
    """Names of the inputs, if the source or what it is a view of has them."""
    while not hasattr(source, "columns") and hasattr(source, "origin"):
        source = source.origin
    names: tuple[str, ...] = getattr(getattr(source, "columns", None), "inputs", ())
    return names if len(names) == source.dim else ()


def _dependent(null: Array) -> Array:
    """Columns of the sparsest linear dependence: the sparsest row of the echelon form of the null space."""
    *_, pivots = qr(null.T, mode="economic", pivoting=True)
    pivots = pivots[: null.shape[1]]
    involved = np.abs(null @ np.linalg.inv(null[pivots])) > DEPENDENCE_SHARE
    columns: Array = np.flatnonzero(involved[:, np.argmin(involved.sum(axis=0))])
    return columns


def _how_to_drop(columns: Array, names: Sequence[str]) -> str:
    return f", of a file with drop={','.join(names[column] for column in columns)!r}" if names else ""


def _list_columns(columns: Array, names: Sequence[str]) -> str:
    shown = [names[column] if names else str(column) for column in columns[:6]] + (["..."] if len(columns) > 6 else [])
    return f"Column {shown[0]}" if len(shown) == 1 else f"Columns {', '.join(shown[:-1])} and {shown[-1]}"


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Normal inputs.

    Parameters
    ----------
    mean : array (dim,), or one number for all coordinates, optional; None: estimated from the data
    cov : array (dim, dim), or one number for the variance of independent coordinates, optional; None: estimated

    Gaussian(0, 1) is the standard normal law in any dimension.
    """

    mean: Array | float | int | None = None
    cov: Array | float | int | None = None

    def __post_init__(self) -> None:
        mean = None if self.mean is None else _numbers("mean", self.mean, (0, 1))
        cov = None if self.cov is None else _numbers("cov", self.cov, (0, 2))
        if cov is not None:
            _check_covariance(cov)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", cov)

    def __repr__(self) -> str:
        given = {name: value for name, value in (("mean", self.mean), ("cov", self.cov)) if value is not None}
        shown = (f"{name}=" + (f"{value:g}" if np.ndim(value) == 0 else f"{np.shape(value)}") for name, value in given.items())
        return f"Gaussian({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and _same(self.mean, other.mean) and _same(self.cov, other.cov)

    def __hash__(self) -> int:
        return hash((self.mean is None, self.cov is None))

    def check(self, dim: int) -> None:
        """Raise InvalidInput for a mean or covariance of another dimension."""
        for name, given in (("mean", self.mean), ("cov", self.cov)):
            shape = np.asarray(0.0 if given is None else given).shape
            if shape and shape[0] != dim:
                raise InvalidInput(
                    f"The law's {name} has shape {shape}.", f"The inputs have dimension {dim}.",
                    f"Give a {name} for {dim} coordinates, or one number for all of them.", dim=dim, shape=shape)

    def whitening(self, source: Source) -> Affine:
        """The map to the standard normal law; mean and covariance are estimated if not given (one pass each)."""
        dim = source.dim
        mean = input_mean(source) if self.mean is None else np.broadcast_to(self.mean, (dim,)).astype(float)
        if self.cov is None:
            return Affine(mean, inverse_root(second_moment(source, mean), input_names(source)))
        return Affine(mean, self._inverse_root if np.ndim(self.cov) else np.eye(dim) / np.sqrt(self.cov))

    def white(self) -> Law:
        """The standard normal law."""
        return Gaussian(0.0, 1.0)

    def complete(self) -> Law:
        """With mean 0 and covariance I where they are not given."""
        return Gaussian(0.0 if self.mean is None else self.mean, 1.0 if self.cov is None else self.cov)

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs (rows, dim); mean 0 and covariance I where they are not given."""
        x: Array = rng.standard_normal((rows, dim))
        if self.cov is not None:
            x = x @ self._factor.T if np.ndim(self.cov) else x * np.sqrt(self.cov)
        if self.mean is not None:
            x += self.mean
        return x

    @cached_property
    def _factor(self) -> Array:
        factor: Array = np.linalg.cholesky(np.asarray(self.cov))
        return factor

    @cached_property
    def _inverse_root(self) -> Array:
        cov = np.asarray(self.cov)
        return np.eye(len(cov)) if np.array_equal(cov, np.eye(len(cov))) else inverse_root(cov)


class _LawClass:
    """A class of laws, of any dimension, which whitening keeps and from which nothing can be drawn."""

    def check(self, dim: int) -> None:
        """Any dimension is accepted."""

    def white(self) -> Law:
        """The same class."""
        return cast(Law, self)

    def complete(self) -> Law:
        """Raises InvalidInput: there is no single law to draw from."""
        _no_sampler(type(self).__name__.lower())

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Raises InvalidInput: there is no single law to draw from."""
        _no_sampler(type(self).__name__.lower())


@dataclass(frozen=True)
class Symmetric(_LawClass):
    """Inputs with x and -x equally likely. Whitening by the second moment about 0 keeps the symmetry."""

    def whitening(self, source: Source) -> Affine:
        """By the estimated second moment about 0; one pass."""
        origin = np.zeros(source.dim)
        return Affine(origin, inverse_root(second_moment(source, origin), input_names(source)))


@dataclass(frozen=True)
class Unknown(_LawClass):
    """Nothing is assumed about the inputs. Whitening is by their estimated mean and covariance."""

    def whitening(self, source: Source) -> Affine:
        """By the estimated mean and covariance; two passes."""
        mean = input_mean(source)
        return Affine(mean, inverse_root(second_moment(source, mean), input_names(source)))


def as_law(given: Any) -> Law:
    """A law, given as an object, a class or a name: "gaussian", "normal" (N(0, I), nothing estimated), "symmetric", "unknown"."""
    known: dict[str, Any] = {
        "gaussian": Gaussian, "normal": lambda: Gaussian(0.0, 1.0), "symmetric": Symmetric, "unknown": Unknown}
    if isinstance(given, type) and given in known.values():
        return cast(Law, given())
    if isinstance(given, str) and given.lower() in known:
        return cast(Law, known[given.lower()]())
    if isinstance(given, type) or not all(hasattr(given, verb) for verb in ("whitening", "check", "draw")):
        raise InvalidInput(
            f"The law of the inputs is {show_value(given)}.", "It says what is assumed about them.",
            "Give lb.Gaussian(), lb.Symmetric() or lb.Unknown(), or their names.", law=given)
    return cast(Law, given)


def _no_sampler(name: str) -> NoReturn:
    raise InvalidInput(
        f"The law of the inputs is {name}.", "Inputs cannot be drawn from it.",
        "Give inputs=, a function (rng, n) -> x of shape (n, dim), or a Gaussian law.", law=name)


def _numbers(name: str, given: Any, ndims: tuple[int, int]) -> Array:
    reals = as_reals(f"The {name}", given)
    check_memory(f"The {name} of shape {reals.shape}", reals.size)
    array = np.array(reals, dtype=np.float64)
    if array.ndim not in ndims or not array.size or not np.isfinite(array).all():
        raise InvalidInput(
            f"The {name} has shape {array.shape}" + (" and is not finite." if not np.isfinite(array).all() else "."),
            f"It is one finite number or an array of {ndims[1]} dimension{'s' * (ndims[1] > 1)}.",
            "Give mean (dim,) and cov (dim, dim), or numbers.", shape=array.shape)
    array.setflags(write=False)
    return array


def _check_covariance(cov: Array) -> None:
    if cov.ndim == 0 and cov <= 0:
        raise InvalidInput(f"The variance is {cov}.", "Inputs need spread.", "Give a positive number.", variance=float(cov))
    if cov.ndim == 2 and (cov.shape[0] != cov.shape[1] or not np.allclose(cov, cov.T, rtol=1e-10, atol=0)):
        raise InvalidInput(
            f"The covariance of shape {cov.shape} is not symmetric.", "A covariance is.",
            "Give (cov + cov.T) / 2 if rounding did it.", shape=cov.shape)
    if cov.ndim == 2:
        inverse_root(cov)


def _same(left: Any, right: Any) -> bool:
    return left is right or (left is not None and right is not None and np.array_equal(left, right))


class Span(NamedTuple):
    """The part of a line inside a box, from `start` to `stop`; empty if start > stop."""

    start: float
    stop: float


@dataclass(frozen=True, eq=False)
class Box:
    """All x with low <= x <= high, coordinate by coordinate; `low` and `high` (dim,), finite, low < high."""

    low: Array
    high: Array

    @classmethod
    def of(cls, given: Any, dim: int) -> Box:
        """From (low, high), two numbers or two arrays; raises InvalidInput if that is not a box in this dimension."""
        try:
            if isinstance(given, str | bytes):
                raise TypeError("text")
            low, high = (np.array(np.broadcast_to(np.asarray(as_reals("end", end), dtype=np.float64), (dim,))) for end in given)
        except Exception as error:  # whatever an object does when it is taken apart
            raise InvalidInput(
                f"The box {show_value(given)} cannot be read ({error}).", f"It bounds inputs of dimension {dim}.",
                f"Give (low, high): two numbers, or two arrays of shape ({dim},).", dim=dim) from None
        wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
        if len(wrong):
            at = int(wrong[0])
            raise InvalidInput(
                f"The box goes from {low[at]:g} to {high[at]:g} in coordinate {at}.",
                "Inputs are drawn inside it, so every side must be finite and positive.",
                "Give finite ends with low < high; leave out inputs that must not change.", coordinate=at)
        low.setflags(write=False)
        high.setflags(write=False)
        return cls(low, high)

    @property
    def middle(self) -> Array:
        """The centre of the box."""
        return self.low + (self.high - self.low) / 2

    def outside(self, x: Array) -> Array:
        """Indices of the rows of x outside of the box."""
        return np.flatnonzero(~((x >= self.low) & (x <= self.high)).all(axis=1))

    def check(self, x: Array) -> None:
        """Raise InvalidInput for points outside."""
        rows = self.outside(x)
        if len(rows):
            row, axis = int(rows[0]), int(np.argmax((x[rows[0]] < self.low) | (x[rows[0]] > self.high)))
            raise InvalidInput(
                f"Point {row} has {x[row, axis]:g} in coordinate {axis} (counted from 0); {len(rows)} of {len(x)} points lie "
                "outside of the box.", f"The box allows {self.low[axis]:g} to {self.high[axis]:g} there; no query may leave it.",
                "Ask inside, or give a larger box.", row=row, coordinate=axis, outside=len(rows))

    def span(self, point: Array, direction: Array) -> Span:
        """All t for which point + t · direction lies inside."""
        moving = direction != 0
        if ((point < self.low) | (point > self.high))[~moving].any():
            return Span(np.inf, -np.inf)
        ends = np.sort([(end - point)[moving] / direction[moving] for end in (self.low, self.high)], axis=0)
        return Span(float(ends[0].max(initial=-np.inf)), float(ends[1].min(initial=np.inf)))


@dataclass(frozen=True, eq=False)
class Uniform:
    """Independent inputs, each uniform between the ends of its coordinate.

    It covers the whole box and is whitened exactly; after whitening it is symmetric about 0. (A truncated Gaussian is neither
    normal nor, in many dimensions, close to the middle of the box.)
    """

    box: Box

    def check(self, dim: int) -> None:
        """Raise InvalidInput for a box of another dimension."""
        if len(self.box.low) != dim:
            raise InvalidInput(
                f"The box has {len(self.box.low)} coordinates.", f"The inputs have dimension {dim}.",
                "Give a box of that dimension.", dim=dim)

    def whitening(self, source: Source) -> Affine:
        """By the mean and variance of the law; no pass over the data."""
        return Affine(self.box.middle, np.diag(np.sqrt(12.0) / (self.box.high - self.box.low)))

    def white(self) -> Law:
        """Symmetric about 0."""
        return Symmetric()

    def complete(self) -> Law:
        """Nothing is left to estimate."""
        return self

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs (rows, dim); clipped, since rounding may lead just outside."""
        x: Array = self.box.low + (self.box.high - self.box.low) * rng.random((rows, dim))
        return np.clip(x, self.box.low, self.box.high, out=x)
