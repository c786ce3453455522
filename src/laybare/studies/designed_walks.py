"""Stochastic gradients on f′ and G with fresh samples of the identity teacher, on y as it is or minus a fitted polynomial."""

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
from laybare.moments import HermiteFit, Residual, fit_hermite, quartic
from laybare.source import Source
from laybare.studies.walks import WalkRun, fresh, identity_teacher, walk

DEGREES = {"f'": 1, "G": 2}
"""Degree of the polynomial that may be subtracted: what the objective has no use for."""


class DesignedWalk(NamedTuple):
    """Stochastic runs: the objective ("f'" or "G"), dimension, samples per step, steps, whether a polynomial is subtracted."""

    objective: str
    dim: int
    batch: int
    steps: Steps
    controlled: bool

    @property
    def name(self) -> str:
        less = {"f'": "minus linear part", "G": "minus quadratic fit"}[self.objective]
        return f"{less if self.controlled else 'y as it is'}, batch {self.batch}"


def strength(largest: float) -> float:
    """λ = 4√6|σ₄| times the largest readout: the least that Theorem B.1 allows."""
    return 4.0 * sqrt(6.0) * abs(coefficient(relu, 4)) * largest


def control(dim: int, degree: int, rng: Generator) -> HermiteFit:
    """The polynomial to subtract, from samples of its own: 20 per coefficient."""
    return fit_hermite(fresh(dim, 20 * (1 + dim + dim * (dim + 1) // 2), relu, rng), degree)


def stochastic_run(cell: DesignedWalk, seed: int) -> WalkRun:
    """Projected SGD on f′, or SGD on G with μ = 1."""
    return _on_f_prime(cell, seed) if cell.objective == "f'" else _on_g(cell, seed)


def _on_f_prime(cell: DesignedWalk, seed: int) -> WalkRun:
    rng = np.random.default_rng([seed, cell.dim, 3])
    fit = control(cell.dim, DEGREES["f'"], rng) if cell.controlled else None

    def stream(step: int) -> Objective:
        return SampledRisk(source=_batch(cell, fit, rng), response=even_response(relu), width=cell.dim)

    start = SampledRisk(source=fresh(cell.dim, 2, relu, rng), response=even_response(relu), width=cell.dim).start(rng)
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
