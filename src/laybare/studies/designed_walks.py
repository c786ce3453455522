"""Stochastic gradients on f′ and G with fresh samples of the identity teacher, on y as it is or minus a fitted polynomial.

Footnote 11 of Ge, Lee and Ma (2018) says that γ(z) = |z|/2 works in place of σ₂h₂ + σ₄h₄ too, and shows nothing: it is run
here. It is the even part of ReLU, all orders of it; the odd part z/2 is noise to it.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.landscape import (
    Objective,
    SampledRisk,
    Steps,
    coefficient,
    even_response,
    orthogonal_design,
    population_g,
)
from laybare.landscape.batches import Response
from laybare.moments import HermiteFit, Residual, fit_hermite, quartic
from laybare.source import Source
from laybare.studies.walks import WalkRun, fresh, identity_teacher, walk

HALF = "|z|/2"
"""The name of the squared loss with γ(z) = |z|/2."""

RESPONSES: dict[str, Response] = {
    "f'": even_response(relu), HALF: Response(lambda t: 0.5 * np.abs(t), lambda t: 0.5 * np.sign(t), np.zeros_like)}
"""γ of the objectives that are squared losses."""

DEGREES = {"f'": 1, HALF: 0, "G": 2}
"""Degree of the polynomial that may be subtracted: what the objective has no use for."""


class DesignedWalk(NamedTuple):
    """Stochastic runs: the objective ("f'", HALF or "G"), dimension, samples per step, steps, if a polynomial is subtracted."""

    objective: str
    dim: int
    batch: int
    steps: Steps
    controlled: bool

    @property
    def name(self) -> str:
        less = "y minus quadratic fit" if DEGREES[self.objective] > 1 else "y minus linear part"
        return f"{self.objective}, {less if self.controlled else 'y as it is'}, batch {self.batch}"


def strength(largest: float) -> float:
    """λ = 4√6|σ₄| times the largest readout: the least that Theorem B.1 allows."""
    return 4.0 * sqrt(6.0) * abs(coefficient(relu, 4)) * largest


def control(dim: int, degree: int, rng: Generator) -> HermiteFit:
    """The polynomial to subtract, from samples of its own: 20 per coefficient."""
    return fit_hermite(fresh(dim, 20 * (1 + dim + dim * (dim + 1) // 2), relu, rng), degree)


def stochastic_run(cell: DesignedWalk, seed: int) -> WalkRun:
    """Projected SGD on f′ or the loss with |z|/2, or SGD on G with μ = 1."""
    return _on_g(cell, seed) if cell.objective == "G" else _on_squares(cell, seed)


def _on_squares(cell: DesignedWalk, seed: int) -> WalkRun:
    rng = np.random.default_rng([seed, cell.dim, 3])
    response = RESPONSES[cell.objective]
    fit = control(cell.dim, DEGREES[cell.objective], rng) if cell.controlled else None

    def stream(step: int) -> Objective:
        return SampledRisk(source=_batch(cell, fit, rng), response=response, width=cell.dim)

    start = SampledRisk(source=fresh(cell.dim, 2, relu, rng), response=response, width=cell.dim).start(rng)
    return walk(stream, start, cell.steps, lambda point: point[:, 1:])


def _on_g(cell: DesignedWalk, seed: int) -> WalkRun:
    rng = np.random.default_rng([seed, cell.dim, 4])
    fit = control(cell.dim, DEGREES["G"], rng) if cell.controlled else None

    def stream(step: int) -> Objective:
        return orthogonal_design(quartic(_batch(cell, fit, rng)), -1.0, cell.dim, cell.dim, mu=1.0, strength=strength(1.0))

    start = population_g(identity_teacher(cell.dim, relu), mu=1.0, strength=1.0).start(rng)
    return walk(stream, start, cell.steps, lambda point: point)


def _batch(cell: DesignedWalk, fit: HermiteFit | None, rng: Generator) -> Source:
    samples = fresh(cell.dim, cell.batch, relu, rng)
    return samples if fit is None else Residual(samples, fit)
