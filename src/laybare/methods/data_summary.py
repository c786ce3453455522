"""What the data show before any method has run: the law of the inputs, and how much of the outputs lies in each Hermite order.

For x ~ N(0, I) and y of variance 1, s_k = Σ_{|α|=k} E[y h_α(x)]², h_α orthonormal, is the share of the variance of y that lies in
order k. With K_k(x, x') = Σ_{|α|=k} h_α(x) h_α(x') it is the mean of y y' K_k(x, x') over pairs of different rows, and Mehler's
formula gives the kernels of all orders at once, without forming a moment:

    Σ_k t^k K_k = (1 - t²)^(-d/2) exp((t s - t² q)/(1 - t²)),    s = x·x',  q = (|x|² + |x'|²)/2.

Under pure noise an estimate from n rows has standard deviation √(2 D_k)/n, D_k the number of monomials of degree k; a signal adds
that of its first-order part, 2 sd(g)/√n with g_i = mean_j y_i y_j K_k(x_i, x_j). For orders 2 to 4 the linear fit is subtracted
first, which holds most of the variance.
Source: Mehler (1866); Hoeffding (1948) for the spread of a U-statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate import Claim
from laybare.methods.symmetric_neurons import symmetry_claim
from laybare.moments import Normality, SecondMoment, measure_with_noise, normality
from laybare.numerics.linear_algebra import inner
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import single_blas_thread
from laybare.source import Source
from laybare.source.threads import map_in_order

ORDERS = 4
"""Hermite orders whose signal is measured. Derived: those that methods read weights from."""


@dataclass(frozen=True, kw_only=True)
class SummaryOptions:
    """Rows of the summary, and how far a signal stands above noise."""

    max_rows: int = 20_000  # a summary takes a second whatever the number of rows. Checked by `laybare reproduce choose`.
    pair_rows: int = 1500  # rows of which all pairs are formed. Checked by `pytest tests/methods/choosing`.
    stripe: int = 64  # rows paired with all others at a time. Convention: the cache of a core.
    order_sigmas: float = 3.0  # standard deviations of a signal in an order. Convention: one false alarm in 700.
    rows_per_term: int = 4  # of the polynomial that is tried. Derived: half of them fit it, half of them judge it.
    max_products: int = 1 << 23  # numbers in its design. Convention: 64 MB, a tenth of a second.
    rounding: float = 1e-9  # relative residual of an exact polynomial. Derived: rounding times the condition of random rows.
    eigenvalue_margin: float = 3.0  # over the largest one of noise, to have a sign. Checked by `pytest tests/methods/choosing`.


SUMMARY = SummaryOptions()


class OrderSignal(NamedTuple):
    """Share of the variance of y in an order, the largest over outputs, and the standard deviation that chance has there."""

    order: int
    share: float
    noise: float

    @property
    def seen(self) -> bool:
        """Whether it stands three standard deviations above chance."""
        return self.share > SUMMARY.order_sigmas * self.noise


def order_signals(source: Source) -> tuple[OrderSignal, ...]:
    """Shares of orders 1 to 4 for white inputs; a heuristic where they are not normal. Reads the first rows."""
    x, y = source.read(0, min(source.size, SUMMARY.pair_rows))
    y = (y - y.mean(axis=0)) / np.maximum(y.std(axis=0), np.finfo(float).tiny)
    design = np.column_stack([np.ones(len(x)), x])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    labels = [y] + [rest] * (ORDERS - 1)
    pulled, starts = [np.empty_like(y) for _ in labels], range(0, len(x), SUMMARY.stripe)

    def stripe(start: int) -> Array:
        """Fills its rows of what is pulled, and returns the squares of its kernels."""
        rows, squares = slice(start, start + SUMMARY.stripe), np.empty(ORDERS)
        with single_blas_thread():
            for k, kernel in enumerate(kernels_of_orders(x[rows], x)):
                own = np.diagonal(kernel, start)[:, None]
                pulled[k][rows] = kernel @ labels[k] - own * labels[k][rows]
                squares[k] = np.einsum("ij,ij->", kernel, kernel)
        return squares

    squares = np.sum(list(map_in_order(stripe, starts, source.schedule.threads(len(starts)))), axis=0)
    return tuple(
        max((_signal(k + 1, *pair, squares[k]) for pair in zip(labels[k].T, pulled[k].T, strict=True)), key=lambda one: one.share)
        for k in range(ORDERS))


def kernels_of_orders(x: Array, others: Array) -> list[Array]:
    """K_1, ..., K_4 of all pairs of a row of `x` and one of `others`: the coefficients of exp(a₁t + a₂t² + a₃t³ + a₄t⁴)."""
    d = x.shape[1]
    s, q = x @ others.T, 0.5 * (np.sum(x * x, axis=1)[:, None] + np.sum(others * others, axis=1))
    a, b = 0.5 * d - q, 0.25 * d - q
    second = s * s
    fourth = b + second + a * a / 2.0 + second * a / 2.0 + second * second / 24.0
    return [s, a + second / 2.0, s + s * a + s * second / 6.0, fourth]


def _signal(order: int, y: Array, pulled: Array, squares: float) -> OrderSignal:
    """From Σ_j K(x_i, x_j) y_j without j = i, and the sum of all K²."""
    n = len(y)
    each = y * pulled / (n - 1.0)
    chance = float(y @ y) * sqrt(2.0 * float(squares)) / n**3
    spread = 4.0 * float(each.var()) / n - chance * chance  # of pure noise: 2 chance² - chance²
    return OrderSignal(order, float(each.mean()), sqrt(max(chance * chance, spread)))


class DataSummary(NamedTuple):
    """What was seen.

    `constant`: share of the rows with the most frequent label. `orders`: the signal in Hermite orders 1 to 4. `positive` and
    `negative`: eigenvalues of the second moment with either sign that stand above its noise (one output). `residual`: share of
    the variance of y that no linear function explains. `odd`: a sentence, if the outputs are
    labels of two classes or a polynomial.
    """

    size: int
    dim: int
    outputs: int
    normal: Normality
    symmetric: Claim | None
    constant: float
    orders: tuple[OrderSignal, ...]
    positive: int
    negative: int
    residual: float
    odd: str = ""

    @property
    def biased(self) -> bool:
        """Whether ReLU-like units must have biases: without, their third moment vanishes under every symmetric law."""
        return self.orders[2].seen


def summarise_data(white: Source, given: Source, *, rng: Generator) -> DataSummary:
    """Summarise white rows, and the same (or some more) as they were given; three passes, five for several outputs.

    The symmetry of x is tested for several outputs only: with one no method needs it.
    """
    some = white if white.size <= SUMMARY.max_rows else white.split(SUMMARY.max_rows / white.size, rng=rng).first.kept()
    symmetric = symmetry_claim(given.take(some.size).whitened(centred=False)) if given.outputs > 1 else None
    signs = _count_signs(some) if white.outputs == 1 and white.size > 2 else (0, 0)
    return DataSummary(
        given.size, white.dim, white.outputs, normality(some, rng=rng), symmetric, _largest_tie(some), order_signals(some),
        *signs, _nonlinear_share(some), name_labels(given) or _name_polynomial(some))


def _largest_tie(source: Source) -> float:
    y = source.read(0, min(source.size, SUMMARY.max_rows)).y
    labels = y[:, 0] if y.shape[1] == 1 else y  # rows are compared as bytes, which takes ten times as long
    return float(np.unique(labels, axis=0, return_counts=True)[1].max()) / len(y)


def name_labels(source: Source) -> str:
    """A sentence for outputs that have two values only, as labels of two classes do; nothing for others."""
    values = np.unique(source.read(0, min(source.size, SUMMARY.max_rows)).y)
    if source.outputs != 1 or len(values) != 2:
        return ""
    low, high = values
    first = "" if (low, high) == (0.0, 1.0) else "Write them as 0 and 1. "
    return (
        f"All outputs are {low:g} or {high:g}: labels of two classes. Least squares fits their mean by a network, which is "
        f'seldom one. {first}Use loss="bernoulli" for the log odds.')


def _name_polynomial(source: Source) -> str:
    """A sentence for outputs that a polynomial of degree 2, fitted to half of the rows, predicts on the others to rounding."""
    terms = (source.dim + 1) * (source.dim + 2) // 2
    rows = SUMMARY.rows_per_term * terms
    if rows > source.size or rows * terms > SUMMARY.max_products:
        return ""
    x, y = source.read(0, rows)
    i, j = np.triu_indices(source.dim)
    design = np.column_stack([np.ones(rows), x, x[:, i] * x[:, j]])
    used, fresh = slice(0, rows, 2), slice(1, rows, 2)
    rest = y[fresh] - design[fresh] @ np.linalg.lstsq(design[used], y[used], rcond=None)[0]
    if not np.all(np.sum(rest**2, axis=0) <= SUMMARY.rounding**2 * np.sum((y - y.mean(axis=0)) ** 2, axis=0)):
        return ""
    return (
        "The outputs are a polynomial of degree 2 in the inputs, to rounding: no network of the usual units. Fit its "
        "coefficients by least squares.")


def _count_signs(source: Source) -> tuple[int, int]:
    moment = measure_with_noise(source, SecondMoment(), stage="second moment")
    values = np.linalg.eigvalsh(moment.value[0])
    edge = SUMMARY.eigenvalue_margin * float(np.abs(np.linalg.eigvalsh(moment.noise[0])).max(initial=0.0))
    return int(np.sum(values > edge)), int(np.sum(values < -edge))


def _nonlinear_share(source: Source) -> float:
    """The largest over outputs; y is centred by its first row, so that a large mean does no harm."""
    first = source.read(0, 1).y[0].copy()

    def products(x: Array, y: Array) -> Sums:
        columns = np.column_stack([np.ones(len(x)), x])
        return inner(columns, columns), inner(columns, y - first), np.sum((y - first) ** 2, axis=0)

    gram, moment, squares = source.sum(products, stage="linear fit")
    explained = np.sum(moment * np.linalg.lstsq(gram, moment, rcond=None)[0], axis=0)
    whole = squares - moment[0] ** 2 / source.size
    return float(np.clip((squares - explained) / np.maximum(whole, np.finfo(float).tiny), 0.0, 1.0).max())
