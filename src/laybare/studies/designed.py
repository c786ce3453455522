"""Figures 3 and 4 of Ge, Lee & Ma (2018): descent on f′, on G and on F, in the population and with fresh samples; footnote 11.

The paper runs projected SGD on f′ (batch 8192) and SGD on G (batch 262,144), d = m = 50, B* = I, a* = 1, and both converge;
steps, μ and λ are not stated. Here the population objectives are minimised from random starts in more settings, with the smallest
Hessian eigenvalue at every end. The figures show stochastic runs beside (`designed_walks`), on y as it is and on y minus a
polynomial fitted to other samples: that subtraction, which the paper does not have, is worth more than the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.landscape import (
    Objective,
    Steps,
    Teacher,
    descend,
    population_f,
    population_g,
    population_tensor_risk,
    whitened_design,
)
from laybare.networks import unsigned_error
from laybare.planted import gaussian_rows, orthonormal_weights
from laybare.report.plots import LinesFigure
from laybare.studies.designed_walks import HALF, DesignedWalk, stochastic_run, strength
from laybare.studies.study import Settings, Study, StudyResult, every, headings
from laybare.studies.walks import WalkRun, ends, walk_panels

FOUND = 1e-4
"""Largest row error at which a population minimum counts as the truth (D is not I, but rows are scaled)."""

WITHOUT_R = "G, mu=0"
"""The name of G without its term R, for which nothing is claimed."""

Make = Callable[[Teacher], Objective]


class DesignedShape(NamedTuple):
    """A planted problem: dimension, width, ratio of the readouts, and whether rows are orthonormal (or Gaussian)."""

    dim: int
    width: int
    ratio: float
    orthonormal: bool

    def teacher(self, rng: Generator) -> Teacher:
        """Readouts in geometric progression from 1 to `ratio`."""
        rows = orthonormal_weights if self.orthonormal else gaussian_rows
        return Teacher(np.geomspace(1.0, self.ratio, self.width), rows(self.dim, self.width, rng=rng), relu)


class Landing(NamedTuple):
    """One population descent: largest row error, smallest and largest Hessian eigenvalue, saddles left, gradients taken."""

    error: float
    smallest: float
    largest: float
    escapes: int
    evaluations: int


def land(make: Make, shape: DesignedShape, seed: int) -> Landing:
    """Plant, descend from a random start, compare."""
    rng = np.random.default_rng([seed, shape.dim, shape.width, round(shape.ratio), shape.orthonormal])
    teacher = shape.teacher(rng)
    objective = make(teacher)
    found = descend(objective, objective.start(rng), rng=rng, max_steps=5000)
    error = unsigned_error(objective.directions(found.point), teacher.directions)
    return Landing(error, found.order.smallest, found.order.largest, found.escapes, found.evaluations)


def f_prime(teacher: Teacher) -> Objective:
    """f′ of a teacher."""
    return population_tensor_risk(teacher)


def g_with(mu: float) -> Make:
    """G with that μ and λ = 4√6|σ₄|a_max, the least that Theorem B.1 allows."""
    return lambda teacher: population_g(teacher, mu=mu, strength=strength(float(teacher.readout.max())))


def f_with(mu: float) -> Make:
    """F in whitened coordinates with that μ and λ = 4√6|σ₄|/a_min."""
    return lambda teacher: whitened_design(
        teacher.quartic(), teacher.gram(), -1.0, teacher.width, mu=mu, strength=strength(1.0 / float(teacher.readout.min())),
        truth=teacher.directions)


def f_with_ridge(mu: float, ridge: float) -> Make:
    """F in all inputs, as printed, with δ = `ridge`."""
    return lambda teacher: population_f(
        teacher, mu=mu, strength=strength(1.0 / float(teacher.readout.min())), ridge=ridge)


class DesignedCell(NamedTuple):
    """Population descents: an objective by its name, μ and δ, and a planted problem."""

    objective: str
    shape: DesignedShape
    mu: float = 1.0
    ridge: float = 0.0

    @property
    def make(self) -> Make:
        if self.objective == "f'":
            return f_prime
        if self.objective == "G":
            return g_with(self.mu)
        return f_with_ridge(self.mu, self.ridge) if self.ridge else f_with(self.mu)

    @property
    def name(self) -> str:
        mu = "" if self.objective == "f'" else f", mu={self.mu:.2g}"
        return self.objective + mu + (f", delta={self.ridge:g}" if self.ridge else "")


class DesignedGrid(NamedTuple):
    """Population descents, and stochastic runs beside them."""

    descents: tuple[DesignedCell, ...]
    walks: tuple[DesignedWalk, ...]


class DesignedRow(NamedTuple):
    """A row of the table."""

    objective: str
    dim: int
    width: int
    readout_ratio: float
    rows: str
    starts: int
    at_the_truth: int
    smallest_eigenvalue: float
    median_gradients: int


class DesignedRuns(NamedTuple):
    """What both came to."""

    descents: Mapping[DesignedCell, list[Landing]]
    walks: Mapping[DesignedWalk, list[WalkRun]]


def measure(settings: Settings[DesignedGrid]) -> DesignedRuns:
    """The descents from every seed; every kind of stochastic run from the first one alone."""
    grid = settings.grid
    return DesignedRuns(
        every(settings, grid.descents, lambda cell, seed: land(cell.make, cell.shape, seed), stage="landscapes"),
        every(settings.first(1), grid.walks, stochastic_run, stage="stochastic"))


def summary(grid: DesignedGrid, runs: DesignedRuns) -> StudyResult:
    """How many descents ended at the truth, and the stochastic runs beside them."""
    rows = [_row(cell, each) for cell, each in runs.descents.items()]
    walked = {cell.name: each for cell, each in runs.walks.items()}
    panels = walk_panels(walked, "Objective of the batch", logarithmic="")
    figure = LinesFigure(panels, f"Stochastic gradients on {grid.walks[0].objective}", across=2)
    sentence = f"{_counts(rows)}; error (4.1) of stochastic runs at the end: {ends(walked)}."
    return StudyResult(headings(DesignedRow), rows, sentence, figure)


def _row(cell: DesignedCell, found: Sequence[Landing]) -> DesignedRow:
    shape = cell.shape
    return DesignedRow(
        cell.name, shape.dim, shape.width, shape.ratio, "orthonormal" if shape.orthonormal else "Gaussian", len(found),
        sum(end.error < FOUND for end in found), min(end.smallest for end in found),
        int(np.median([end.evaluations for end in found])))


def _counts(rows: Sequence[DesignedRow]) -> str:
    counted = [row for row in rows if row.objective != WITHOUT_R]
    total, found = sum(row.starts for row in counted), sum(row.at_the_truth for row in counted)
    without = ", ".join(
        f"{r.at_the_truth} of {r.starts} at readout ratio {r.readout_ratio:g}" for r in rows if r.objective == WITHOUT_R)
    aside = f" (with mu=0 {without})" if without else ""
    return f"{found} of {total} population descents ended at the truth{aside}"


SHAPES = (
    DesignedShape(10, 10, 1, True), DesignedShape(10, 10, 5, True), DesignedShape(10, 10, 5, False),
    DesignedShape(20, 5, 5, False), DesignedShape(16, 16, 1, True), DesignedShape(16, 16, 5, False))


def _g_cells() -> tuple[DesignedCell, ...]:
    cells = [
        DesignedCell("G", DesignedShape(10, 10, ratio, True), mu) for ratio in (1.0, 5.0, 20.0)
        for mu in sorted({0.0, 0.01 / ratio, 1.0 / ratio, 1.0})]
    general = [SHAPES[2], SHAPES[3], SHAPES[4], SHAPES[5]]
    return (*cells, *(DesignedCell("F", shape) for shape in general), DesignedCell("F", SHAPES[3], ridge=1e-5))


def _f_prime_grid(dim: int, batch: int, steps: Steps) -> DesignedGrid:
    shorter = replace(steps, step=min(steps.step, 2.0 / dim))  # the mean of |z|/2 makes the loss steep along a, like dim
    walks = (
        DesignedWalk("f'", dim, batch, steps, False), DesignedWalk("f'", dim, batch, steps, True),
        DesignedWalk(HALF, dim, batch, shorter, False))
    return DesignedGrid(tuple(DesignedCell("f'", shape) for shape in SHAPES), walks)


def _g_grid(dim: int, large: int, small: int, count: int) -> DesignedGrid:
    steps = Steps(step=0.02, count=count, hold=count // 2, every=count // 8, record=count // 30)
    arms = ((small, False), (large, False), (small, True))
    return DesignedGrid(_g_cells(), tuple(DesignedWalk("G", dim, batch, steps, controlled) for batch, controlled in arms))


F_PRIME = Study(
    "glm-fig3", "Descent on f': population ends in six settings, and projected stochastic gradients, also with |z|/2 for f'",
    "The paper: projected SGD on f' converges to the truth; that it has no spurious minima is a conjecture; |z|/2 works too.",
    _f_prime_grid(10, 2048, Steps(step=0.3, count=1500, hold=800, every=200, record=50)),
    _f_prime_grid(50, 8192, Steps(step=0.3, count=4000, hold=2000, every=500, record=100)), measure, summary, seeds=12)
G_AND_F = Study(
    "glm-fig4", "Descent on G and F: population ends for several mu, and stochastic gradients with fresh samples",
    "The paper: with mu <= 0.01/kappa all minima of G and F are the truth; SGD on G converges with batches of 262,144.",
    _g_grid(10, 8192, 512, 1500), _g_grid(50, 262_144, 8192, 3000), measure, summary, seeds=12)
