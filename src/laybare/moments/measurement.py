"""A moment is a statistic and the way its sums are read. Every moment can be measured with its noise, within a limit of memory.

`measure_with_noise` cuts each block of rows in two halves whose sums are kept apart, in one pass. For the half-sample estimates A
and B, (A+B)/2 is the estimate, and (A-B)/2 is nearly a draw from the distribution of its error: mean zero, variance σ²/n, the
same correlations between entries. No knowledge of the noise is needed; for Hermite moments of order 3 and more it tracks the norm
of the true error within about 25 %. It fails if neighbouring rows are dependent. Halves are runs of rows, so that pairs (x, -x)
side by side stay together.

Two assumptions are tested by such averages: are the inputs N(0, I), and have the outputs the parity of the units? Normality. For
x ~ N(0, I) every projection u·x has E He₃ = E He₄ = 0, and averages of He_k/√k! have standard deviation n^-½. Moment methods read
weights from E[y He_k(x)]; such moments of x itself would be mistaken for weights. Axes show inputs with independent entries that
are not Gaussian, random directions show mixtures. A projection pursuit would find more; this is one pass.

Parity. Even units make even functions, odd ones odd functions up to a constant. Under symmetric inputs E[y x] = 0 for an even y,
and E[(y - ȳ)(x² - 1)] = 0 for an odd one. Hotelling's T² compares the average of such vectors with chance; noise in y only widens
its spread. Where the inputs themselves have a mean, nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator
from scipy.special import chdtri, fdtri, ndtr

from laybare.activations import Activation
from laybare.errors import AssumptionViolated, BudgetExhausted, InvalidInput, TooFewSamples
from laybare.numerics.checks import show_bytes
from laybare.numerics.linear_algebra import inner, solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Moment(Protocol[T_co]):
    """A statistic, and how its sums over `size` rows are read: into an array or packed moments, which can be subtracted.

    Reading should be linear in the averages, or nearly so where they vary little.
    """

    def __call__(self, x: Array, y: Array) -> Sums: ...

    def read(self, sums: Sums, size: int) -> T_co: ...


@dataclass(frozen=True, eq=False)
class Measurement(Generic[T]):
    """A moment and its noise: the half-difference of two half-sample estimates, of the same shape as the value."""

    value: T
    noise: T


def measure(source: Source, moment: Moment[T], *, stage: str = "moments") -> T:
    """The moment, estimated from all rows in one pass."""
    return moment.read(source.sum(moment, stage=stage), source.size)


def measure_with_noise(source: Source, moment: Moment[T], *, stage: str = "moments") -> Measurement[T]:
    """The moment and its split-half noise, in one pass."""
    *sums, rows = source.sum(Halves(moment), stage=stage)
    first, second = sums[: len(sums) // 2], sums[len(sums) // 2 :]
    if rows.min() == 0:
        raise TooFewSamples(
            f"{source.size} samples leave one half empty.", "The noise of a moment is the difference of two halves.",
            "Give at least two samples.", size=source.size)
    halves: list[Any] = [moment.read(tuple(half), int(size)) for half, size in zip((first, second), rows, strict=True)]
    whole = moment.read(tuple(one + two for one, two in zip(first, second, strict=True)), int(rows.sum()))
    share = float(rows[0] / rows.sum())  # nearly 1/2, where the factor is 1/2
    return Measurement(whole, (halves[0] - halves[1]) * float(np.sqrt(share * (1 - share))))


@dataclass(frozen=True, eq=False)
class Halves:
    """Statistic: another statistic on the first and on the second half of every block, and the number of rows of each."""

    statistic: Moment[Any]

    @property
    def row_floats(self) -> int:
        return int(getattr(self.statistic, "row_floats", 0))

    def __call__(self, x: Array, y: Array) -> Sums:
        middle = (len(x) + 1) // 2
        first, second = self.statistic(x[:middle], y[:middle]), self.statistic(x[middle:], y[middle:])
        return (*first, *second, np.array([middle, len(x) - middle]))


MEMORY_LIMIT = 2 << 30
"""Bytes that one result may take. Convention: 2 GiB, a quarter of the memory of a small laptop."""


def check_memory(floats: int, what: str, instead: str, limit: int = MEMORY_LIMIT) -> None:
    """Refuse `what` if its `floats` numbers take more than `limit` bytes; `instead` says what to use."""
    needed = 8 * floats
    if needed > limit:
        size, most = show_bytes(needed), show_bytes(limit)
        raise BudgetExhausted(f"{what} would take {size}.", f"The limit is {most}.", instead, bytes=needed, limit=limit)


def check_order(order: int, most: int = 12) -> None:
    """Refuse orders that are negative or so high that the rounding of He_k exceeds any signal (k! at k = 12 is 5e8)."""
    if not 0 <= order <= most:
        raise InvalidInput(
            f"Moments of order {order} were asked for.", f"Orders count from 0, and above {most} rounding drowns them.",
            "Ask for an order of 8 or less.", order=order)


@dataclass(frozen=True, kw_only=True)
class NormalityOptions:
    """Projections that are tested, and the departures that are allowed."""

    axes: int = 100  # coordinate axes, at most. Checked by `pytest tests/moments/test_normality.py`.
    random_directions: int = 50  # Checked by `pytest tests/moments/test_normality.py`.
    max_sigmas: float = 6.0
    """Standard deviations of chance that are allowed at large n; chance reached 4.4 in 400 draws of n = 20,000.
    Checked by `pytest tests/moments/test_normality.py`."""
    tail_factor: float = 10.0
    """`max_sigmas` times 1 + tail_factor/√n is allowed, because averages of He₄ have long tails: chance reached 5.2 and 11.9 at
    n = 1000 and 100. Checked by `pytest tests/moments/test_normality.py`."""
    harmless_size: float = 0.05
    """|E He_k|/√k! that spoils no start. Checked by `pytest tests/moments/test_normality.py`."""
    mild_size: float = 0.24
    """The same of uniform and logistic inputs; Laplace has 0.61. Derived: E He₄ = -1.2 of a uniform law, over √4!."""
    mild_margin: float = 2.0
    """Times what chance may reach at which these must stand for the test to tell them from normal ones. Convention: clearly."""


@dataclass(frozen=True, kw_only=True)
class ParityOptions:
    """Level and cost of the parity test."""

    max_sigmas: float = 4.0  # Derived: one false alarm in 30,000.
    most_products: int = 2000  # inputs times outputs up to which the test is made. Derived: their covariance takes 32 MB.
    samples_per_product: int = 3  # the test is skipped below. Checked by `pytest tests/moments/test_parity.py`.


NORMALITY, PARITY = NormalityOptions(), ParityOptions()


class Normality(NamedTuple):
    """Largest |E He_k(u·x)|/√k! over k = 3, 4 and the directions u, and the same in standard deviations of chance."""

    size: float
    sigmas: float

    @property
    def allowed(self) -> float:
        """Standard deviations that chance explains (sigmas/size is √n)."""
        return NORMALITY.max_sigmas * (1.0 + NORMALITY.tail_factor * self.size / max(self.sigmas, 1e-300))

    @property
    def plausible(self) -> bool:
        """Whether chance explains it, or it does no harm."""
        return self.sigmas <= self.allowed or self.size <= NORMALITY.harmless_size

    @property
    def decided(self) -> bool:
        """Whether uniform inputs would have shown, so that what chance explains is normal to that extent."""
        chance = self.allowed * self.size / max(self.sigmas, 1e-300)
        return self.size <= NORMALITY.harmless_size or NORMALITY.mild_margin * chance <= NORMALITY.mild_size


def normality(source: Source, *, rng: Generator) -> Normality:
    """Departure of white inputs from N(0, I), in one pass."""
    rows = rng.standard_normal((NORMALITY.random_directions, source.dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    (total,) = source.sum(_Projections(np.vstack([np.eye(source.dim)[: NORMALITY.axes], rows])), stage="normality")
    size = float(np.abs(total).max()) / source.size
    return Normality(size, size * sqrt(source.size))


@dataclass(frozen=True, eq=False)
class _Projections:
    """Statistic: Σ He₃(u·x)/√6 and Σ He₄(u·x)/√24 for every direction u."""

    directions: Array

    @property
    def row_floats(self) -> int:
        return 4 * len(self.directions)

    def __call__(self, x: Array, y: Array) -> Sums:
        t = x @ self.directions.T
        squares = t * t
        third = np.einsum("nr,nr->r", squares - 3.0, t) / sqrt(6.0)
        fourth = (np.einsum("nr,nr->r", squares, squares) - 6.0 * squares.sum(axis=0) + 3.0 * len(x)) / sqrt(24.0)
        return (np.concatenate([third, fourth]),)


def check_parity(source: Source, activation: Activation) -> None:
    """Refuse outputs with an odd part for even units, and with an even part for units that are odd up to a constant."""
    if activation.mirror == 0:
        _check_parity(source, activation, squared=False, has="odd", wanted="even")
    elif activation.centre is not None:
        _check_parity(source, activation, squared=True, has="even", wanted="odd up to a constant")


@dataclass(frozen=True, eq=False)
class _ParityProducts:
    """(x, y) -> sums of t, and of t tᵀ, with t = (y - mean)·x or (y - mean)·(x² - 1), the outputs one after another; and of x."""

    mean: Array
    squared: bool
    row_floats: int

    def __call__(self, x: Array, y: Array) -> Sums:
        inputs = x * x - 1.0 if self.squared else x
        t = ((y - self.mean)[:, :, None] * inputs[:, None, :]).reshape(len(x), -1)
        return t.sum(axis=0), inner(t, t), x.sum(axis=0)


def _check_parity(source: Source, activation: Activation, *, squared: bool, has: str, wanted: str) -> None:
    n, p = source.size, source.dim * source.outputs
    if n < PARITY.samples_per_product * p or p > PARITY.most_products:
        return
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),), stage="parity")
    first, second, inputs = source.sum(_ParityProducts(total / n, squared, 2 * p), stage="parity")
    mean, spread = first / n, (second - np.outer(first, first) / n) / (n - 1)
    statistic = float(n * mean @ solve_spd(spread, mean)) * (n - p) / (p * (n - 1))
    limit = float(fdtri(p, n - p, ndtr(PARITY.max_sigmas)))
    centred = float(inputs @ inputs) / n <= chdtri(source.dim, ndtr(-PARITY.max_sigmas))
    if centred and statistic > limit:
        raise AssumptionViolated(
            f"The outputs have an {has} part (F = {statistic:.3g}, chance stays below {limit:.3g}).",
            f"A network of {activation.name} units without biases is {wanted}: these samples come from another kind.",
            "Give the activation that they come from, or use RandomStart(), which allows biases.",
            statistic=statistic, limit=limit, activation=activation.name)
