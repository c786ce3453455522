"""How much of the outputs lies in each Hermite order: the moments of that order, squared and added up, without forming them.

For x ~ N(0, I) and y of variance 1, s_k = Σ_{|α|=k} E[y h_α(x)]², h_α orthonormal, is the share of the variance of y that lies in
order k. With K_k(x, x') = Σ_{|α|=k} h_α(x) h_α(x') it is the mean of y y' K_k(x, x') over pairs of different rows, and Mehler's
formula gives the kernels of all orders at once:

    Σ_k t^k K_k = (1 - t²)^(-d/2) exp((t s - t² q)/(1 - t²)),    s = x·x',  q = (|x|² + |x'|²)/2.

Under pure noise an estimate from n rows has standard deviation √(2 D_k)/n, D_k the number of monomials of degree k; a signal adds
that of its first-order part, 2 sd(g)/√n with g_i = mean_j y_i y_j K_k(x_i, x_j). For orders 2 to 4 the linear fit is subtracted
first, which holds most of the variance.
Source: Mehler (1866); Hoeffding (1948) for the spread of a U-statistic.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.blas import single_blas_thread
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.threads import in_order

ORDERS = 4
ROWS, STRIPE = 1500, 64
"""Rows of which all pairs are formed, so many rows with all others at a time: what a core's cache holds."""

SIGMAS = 3.0


class OrderSignal(NamedTuple):
    """Share of the variance of y in an order, the largest over outputs, and the standard deviation that chance has there."""

    order: int
    share: float
    noise: float

    @property
    def seen(self) -> bool:
        """Whether it stands three standard deviations above chance."""
        return self.share > SIGMAS * self.noise


def order_signals(source: Source) -> tuple[OrderSignal, ...]:
    """Shares of orders 1 to 4 for white inputs; a heuristic where they are not normal. Reads the first rows."""
    x, y = source.read(0, min(source.size, ROWS))
    y = (y - y.mean(axis=0)) / np.maximum(y.std(axis=0), np.finfo(float).tiny)
    design = np.column_stack([np.ones(len(x)), x])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    labels = [y] + [rest] * (ORDERS - 1)
    pulled, starts = [np.empty_like(y) for _ in labels], range(0, len(x), STRIPE)

    def stripe(start: int) -> Array:
        """Fills its rows of what is pulled, and returns the squares of its kernels."""
        rows, squares = slice(start, start + STRIPE), np.empty(ORDERS)
        with single_blas_thread():
            for k, kernel in enumerate(kernels_of_orders(x[rows], x)):
                own = np.diagonal(kernel, start)[:, None]
                pulled[k][rows] = kernel @ labels[k] - own * labels[k][rows]
                squares[k] = np.einsum("ij,ij->", kernel, kernel)
        return squares

    squares = np.sum(list(in_order(stripe, starts, source.schedule.threads(len(starts)))), axis=0)
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
