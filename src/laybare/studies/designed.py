"""Figures 3 and 4 of Ge, Lee & Ma (2018): descent on f′, on G and on F, in the population and with fresh samples.

The paper runs projected SGD on f′ (batch 8192) and SGD on G (batch 262,144), d = m = 50, B* = I, a* = 1, and both converge;
steps, μ and λ are not stated. Here the population objectives are minimised from random starts in more settings, with the smallest
Hessian eigenvalue at every end. The figures show stochastic runs beside, on y as it is and on y minus a polynomial fitted to
other samples: that subtraction, which the paper does not have, is worth more than the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.errors import InvalidInput
from laybare.landscape import (
    Objective,
    SampledRisk,
    Steps,
    Teacher,
    Walked,
    coefficient,
    descend,
    even_response,
    orthogonal_design,
    population_f,
    population_g,
    population_tensor_risk,
    stochastic_descent,
    whitened_design,
)
from laybare.landscape.objective import unit_rows
from laybare.moments import HermiteFit, Residual, fit_hermite, quartic
from laybare.networks import landscape_error, unsigned_error
from laybare.planted import gaussian_rows, orthonormal_weights
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Array, Event
from laybare.source import Gaussian, Samples, Source
from laybare.studies.squared_loss import identity_teacher
from laybare.studies.study import Cell, Outcome, Settings, Study

FOUND = 1e-4
"""Largest row error at which a population minimum counts as the truth (D is not I, but rows are scaled)."""

WITHOUT_R = "G, mu=0"
"""The name of G without its term R, for which nothing is claimed."""

Make = Callable[[Teacher], Objective]


class Shape(NamedTuple):
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


def land(make: Make, shape: Shape, seed: int) -> Landing:
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
    return lambda teacher: population_g(teacher, mu=mu, strength=_strength(float(teacher.readout.max())))


def f_with(mu: float) -> Make:
    """F in whitened coordinates with that μ and λ = 4√6|σ₄|/a_min."""
    return lambda teacher: whitened_design(
        teacher.quartic(), teacher.gram(), -1.0, teacher.width, mu=mu, strength=_strength(1.0 / float(teacher.readout.min())),
        truth=teacher.directions)


def f_with_ridge(mu: float, ridge: float) -> Make:
    """F in all inputs, as printed, with δ = `ridge`."""
    return lambda teacher: population_f(
        teacher, mu=mu, strength=_strength(1.0 / float(teacher.readout.min())), ridge=ridge)


def _strength(largest: float) -> float:
    return 4.0 * sqrt(6.0) * abs(coefficient(relu, 4)) * largest


COLUMNS = (
    "objective", "dim", "width", "readout ratio", "rows", "starts", "at the truth", "smallest eigenvalue", "median gradients")


def _rows(settings: Settings, cells: Sequence[tuple[str, Make, Shape]]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for done, (name, make, shape) in enumerate(cells):
        ends = [land(make, shape, seed) for seed in settings.seeds]
        rows.append((
            name, *shape[:3], "orthonormal" if shape.orthonormal else "Gaussian", len(ends),
            sum(end.error < FOUND for end in ends), min(end.smallest for end in ends),
            int(np.median([end.evaluations for end in ends]))))
        if settings.progress is not None:
            settings.progress(Event("landscapes", done + 1, len(cells), f"{name}, d={shape.dim}, m={shape.width}"))
    return rows


class Run(NamedTuple):
    """A stochastic run: steps, the metric (4.1) there, the batch's values."""

    at: tuple[int, ...]
    errors: list[float]
    values: tuple[float, ...]


def fresh(dim: int, rows: int, rng: Generator) -> Samples:
    """New samples of the identity teacher."""
    x = rng.standard_normal((rows, dim))
    return Samples(x, relu(x).sum(axis=1), law=Gaussian(0, 1))


def control(dim: int, degree: int, rng: Generator) -> HermiteFit:
    """The polynomial to subtract, from samples of its own: 20 a coefficient."""
    return fit_hermite(fresh(dim, 20 * (1 + dim + dim * (dim + 1) // 2), rng), degree)


def stochastic_f_prime(dim: int, batch: int, steps: Steps, seed: int, *, controlled: bool) -> Run:
    """Projected SGD on f′ as printed, or on y minus its constant and linear part."""
    rng = np.random.default_rng([seed, dim, 3])
    fit = control(dim, 1, rng) if controlled else None

    def stream(step: int) -> Objective:
        source: Source = fresh(dim, batch, rng)
        source = source if fit is None else Residual(source, fit)
        return SampledRisk(source=source, response=even_response(relu), width=dim)

    start = SampledRisk(source=fresh(dim, 2, rng), response=even_response(relu), width=dim).start(rng)
    return _run(stochastic_descent(stream, start, steps), lambda point: point[:, 1:])


def stochastic_g(dim: int, batch: int, steps: Steps, seed: int, *, controlled: bool, mu: float = 1.0) -> Run:
    """SGD on G as printed, or on y minus its quadratic fit; an infinite error if it diverged."""
    rng = np.random.default_rng([seed, dim, 4])
    fit = control(dim, 2, rng) if controlled else None

    def stream(step: int) -> Objective:
        source: Source = fresh(dim, batch, rng)
        source = source if fit is None else Residual(source, fit)
        return orthogonal_design(quartic(source), -1.0, dim, dim, mu=mu, strength=_strength(1.0))

    start = population_g(identity_teacher(dim, relu), mu=mu, strength=1.0).start(rng)
    try:
        return _run(stochastic_descent(stream, start, steps), lambda point: point)
    except InvalidInput:  # the noise of a batch threw the rows out of reach
        return Run((0,), [np.inf], (np.nan,))


def _run(walked: Walked, rows: Callable[[Array], Array]) -> Run:
    return Run(walked.at, [landscape_error(unit_rows(rows(point))) for point in walked.points], walked.values)


def _figure(runs: dict[str, Run], meaning: str) -> str:
    kept = {name: run for name, run in runs.items() if np.isfinite(run.errors).all()}
    errors = [Line(name, list(run.at), [max(error, 1e-6) for error in run.errors]) for name, run in kept.items()]
    values = [Line(name, list(run.at), list(run.values)) for name, run in kept.items()]
    panels = (
        Panel("Objective of the batch", "step", "value", values, ""),
        Panel("Error of the parameters (4.1)", "step", "error", errors))
    return lines_figure(panels, meaning)


def _sentence(rows: list[tuple[Cell, ...]], runs: dict[str, Run]) -> str:
    counted = [row for row in rows if row[0] != WITHOUT_R]
    total, found = sum(int(row[5]) for row in counted), sum(int(row[6]) for row in counted)
    without = ", ".join(f"{row[6]} of {row[5]} at readout ratio {row[3]:g}" for row in rows if row[0] == WITHOUT_R)
    last = ((name, run.errors[-1]) for name, run in runs.items())
    ends = ", ".join(f"{name} {error:.2g}" if np.isfinite(error) else f"{name} diverged" for name, error in last)
    aside = f" (with mu=0 {without})" if without else ""
    return f"{found} of {total} population descents ended at the truth{aside}; error (4.1) of stochastic runs at the end: {ends}."


def _f_prime(settings: Settings) -> Outcome:
    shapes = [Shape(10, 10, 1, True), Shape(10, 10, 5, True), Shape(10, 10, 5, False), Shape(20, 5, 5, False)]
    shapes += [Shape(16, 16, 1, True), Shape(16, 16, 5, False)]
    rows = _rows(settings, [("f'", f_prime, shape) for shape in shapes])
    dim, batch = (50, 8192) if settings.full else (10, 2048)
    steps = Steps(step=0.3, count=4000, hold=2000, every=500, record=100) if settings.full else Steps(
        step=0.3, count=1500, hold=800, every=200, record=50)
    runs = {
        name: stochastic_f_prime(dim, batch, steps, settings.seeds[0], controlled=controlled)
        for name, controlled in ((f"y as it is, batch {batch}", False), ("minus linear part", True))}
    return Outcome(COLUMNS, rows, _sentence(rows, runs), _figure(runs, "Projected stochastic gradients on f'"))


def _g(settings: Settings) -> Outcome:
    cells: list[tuple[str, Make, Shape]] = []
    for ratio in (1.0, 5.0, 20.0):
        shape = Shape(10, 10, ratio, True)
        cells += [(f"G, mu={mu:.2g}", g_with(mu), shape) for mu in sorted({0.0, 0.01 / ratio, 1.0 / ratio, 1.0})]
    general = [Shape(10, 10, 5, False), Shape(20, 5, 5, False), Shape(16, 16, 1, True), Shape(16, 16, 5, False)]
    cells += [("F, mu=1", f_with(1.0), shape) for shape in general]
    cells += [("F, mu=1, delta=1e-5", f_with_ridge(1.0, 1e-5), general[1])]
    rows = _rows(settings, cells)
    dim, large, small, count = (50, 262_144, 8192, 3000) if settings.full else (10, 8192, 512, 1500)
    steps = Steps(step=0.02, count=count, hold=count // 2, every=count // 8, record=count // 30)
    runs = {
        name: stochastic_g(dim, batch, steps, settings.seeds[0], controlled=controlled)
        for name, batch, controlled in (
            (f"y as it is, batch {small}", small, False), (f"y as it is, batch {large}", large, False),
            (f"minus quadratic fit, batch {small}", small, True))}
    return Outcome(COLUMNS, rows, _sentence(rows, runs), _figure(runs, "Stochastic gradients on G"))


F_PRIME = Study(
    "glm-fig3", "Descent on f': population ends in six settings, and projected stochastic gradients with fresh samples",
    "The paper: projected SGD on f' converges to the truth; that it has no spurious minima is a conjecture.", _f_prime)
G_AND_F = Study(
    "glm-fig4", "Descent on G and F: population ends for several mu, and stochastic gradients with fresh samples",
    "The paper: with mu <= 0.01/kappa all minima of G and F are the truth; SGD on G converges with batches of 262,144.", _g)
