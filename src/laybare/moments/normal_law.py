"""Do the inputs look like N(0, I)? Third and fourth Hermite moments of one-dimensional projections.

For white x ~ N(0, I) every projection u·x has E He₃ = E He₄ = 0, and averages of He_k/√k! have standard deviation n^-½. Moment
methods read network weights out of E[y He_k(x)]; what x itself has of such moments is mistaken for weights. Axes show inputs
with independent entries that are not Gaussian, random directions show mixtures. A projection pursuit would find more; this is
one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

AXES, RANDOM = 100, 50
"""Directions that are looked at."""

SIGMAS, TAILS = 6.0, 10.0
"""Chance reached 4.4, 5.2 and 11.9 in 400 draws of n = 20,000, 1000 and 100: averages of He₄ have long tails. 6 (1 + 10/√n) is
allowed."""

HARMLESS = 0.05
"""Size of E He_k/√k! that spoils no start: uniform inputs have 0.24, those of a logistic law 0.24, of Laplace's 0.61."""


class Normality(NamedTuple):
    """Largest |E He_k(u·x)|/√k! over k = 3, 4 and the directions u, and the same in standard deviations of chance."""

    size: float
    sigmas: float

    @property
    def plausible(self) -> bool:
        """Whether chance may have done it, or it does no harm; σ/size is √n."""
        return self.sigmas <= SIGMAS * (1.0 + TAILS * self.size / max(self.sigmas, 1e-300)) or self.size <= HARMLESS


def normality(source: Source, *, rng: Generator) -> Normality:
    """Departure of white inputs from N(0, I), in one pass."""
    rows = rng.standard_normal((RANDOM, source.dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    (total,) = source.sum(_Projections(np.vstack([np.eye(source.dim)[:AXES], rows])), stage="normality")
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
