"""Figures 3 and 4 and appendix F of Ge, Lee and Ma (2018): descent on f′, on G, on F and on P′, in the population and with
samples.

The paper runs projected SGD on f′ (batch 8192) and SGD on G (batch 262,144), d = m = 50, B* = I, a* = 1, and both converge;
steps, μ and λ are not stated. Here the population objectives are minimised from random starts in more settings, with the smallest
Hessian eigenvalue at every end. The figures show stochastic runs beside, with fresh samples of the identity teacher, on y as it
is and on y minus a polynomial fitted to other samples: that subtraction, which the paper does not have, gains more than the batch
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare import landscape
from laybare.activations import relu
from laybare.landscape.first_order import Response
from laybare.moments import HermiteFit, Residual, fit_hermite, quartic
from laybare.networks import unsigned_error
from laybare.numerics.shapes import Array
from laybare.planted import orthonormal_weights, random_unit_rows
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Source
from laybare.studies import columns as col
from laybare.studies import glm_squared_loss as squared
from laybare.studies.glm_squared_loss import LandscapeGrid, WalkRun, descents, walk, walk_panels
from laybare.studies.study import SUCCESS, Settings, Study, StudyMeasurement, run_cells, table

HALF, WITHOUT_R = "|z|/2", "G, mu=0"
"""Names of the squared loss with γ(z) = |z|/2, and of G without its term R, for which nothing is claimed."""

RESPONSES: dict[str, Response] = {
    "f'": landscape.even_response(relu), HALF: Response(lambda t: 0.5 * np.abs(t), lambda t: 0.5 * np.sign(t), np.zeros_like)}
"""γ of the objectives that are squared losses."""

DEGREES = {"f'": 1, HALF: 0, "G": 2}
"""Degree of the polynomial that may be subtracted: what the objective has no use for."""

Make = Callable[[landscape.Teacher], landscape.Objective]


class DesignedWalk(NamedTuple):
    """Stochastic runs: the objective ("f'", HALF or "G"), dimension, samples per step, steps, if a polynomial is subtracted."""

    objective: str
    dim: int
    batch: int
    steps: landscape.StepSchedule
    controlled: bool

    @property
    def name(self) -> str:
        less = "y minus quadratic fit" if DEGREES[self.objective] > 1 else "y minus linear part"
        return f"{self.objective}, {less if self.controlled else 'y as it is'}, batch {self.batch}"

    @property
    def least(self) -> float:
        """The constant of (2.6): the least risk in the population, of y less the orders that are subtracted; 0 for G."""
        teacher = squared.identity_teacher(self.dim, relu)
        if self.objective == "G":
            return 0.0
        if self.objective == HALF:
            return landscape.order_energy(teacher, 1)
        return landscape.least_risk(teacher, (0, 1, 2, 4) if self.controlled else (2, 4))


def strength(largest: float) -> float:
    """λ = 4√6|σ₄| times the largest readout: the least that Theorem B.1 allows."""
    return 4.0 * sqrt(6.0) * abs(landscape.coefficient(relu, 4)) * largest


def walk_once(cell: DesignedWalk, seed: int) -> WalkRun:
    """Projected SGD on f′ or the loss with |z|/2, or SGD on G with μ = 1."""
    rng = np.random.default_rng([seed, cell.dim, 4 if cell.objective == "G" else 3])
    fit = _control(cell, rng) if cell.controlled else None
    if cell.objective == "G":
        start = landscape.population_g(squared.identity_teacher(cell.dim, relu), mu=1.0, strength=1.0).start(rng)
        return walk(lambda step: _g_of_batch(_batch(cell, fit, rng), cell.dim), start, cell.steps, lambda point: point)
    response = RESPONSES[cell.objective]
    two = squared.fresh_samples(cell.dim, 2, relu, rng)
    start = landscape.SampledRisk(source=two, response=response, width=cell.dim).start(rng)
    ran = walk(
        lambda step: landscape.SampledRisk(source=_batch(cell, fit, rng), response=response, width=cell.dim), start, cell.steps,
        lambda point: point[:, 1:])
    return ran._replace(values=tuple(value - cell.least for value in ran.values))


def _control(cell: DesignedWalk, rng: Generator) -> HermiteFit:
    """The polynomial to subtract, from samples of its own: 20 per landscape.coefficient."""
    rows = 20 * (1 + cell.dim + cell.dim * (cell.dim + 1) // 2)
    return fit_hermite(squared.fresh_samples(cell.dim, rows, relu, rng), DEGREES[cell.objective])


def _g_of_batch(batch: Source, dim: int) -> landscape.Objective:
    return landscape.orthogonal_design(quartic(batch), -1.0, dim, dim, mu=1.0, strength=strength(1.0))


def _batch(cell: DesignedWalk, fit: HermiteFit | None, rng: Generator) -> Source:
    samples = squared.fresh_samples(cell.dim, cell.batch, relu, rng)
    return samples if fit is None else Residual(samples, fit)


class DesignedShape(NamedTuple):
    """A planted problem: dimension, width, ratio of the readouts, and whether rows are orthonormal (or Gaussian)."""

    dim: int
    width: int
    ratio: float
    orthonormal: bool

    def teacher(self, rng: Generator) -> landscape.Teacher:
        """Readouts in geometric progression from 1 to `ratio`."""
        rows = orthonormal_weights if self.orthonormal else random_unit_rows
        return landscape.Teacher(np.geomspace(1.0, self.ratio, self.width), rows(self.dim, self.width, rng=rng), relu)


class Landing(NamedTuple):
    """One population descent: largest row error, smallest and largest Hessian eigenvalue, saddles left, gradients taken."""

    error: float
    smallest: float
    largest: float
    escapes: int
    evaluations: int


def land(make: Make, shape: DesignedShape, seed: int) -> Landing:
    """Plant, landscape.descend from a random start, compare."""
    rng = np.random.default_rng([seed, shape.dim, shape.width, round(shape.ratio), shape.orthonormal])
    teacher = shape.teacher(rng)
    objective = make(teacher)
    found = landscape.descend(objective, objective.start(rng), rng=rng, max_steps=5000)
    error = unsigned_error(objective.directions(found.point), teacher.directions)
    return Landing(error, found.order.smallest, found.order.largest, found.escapes, found.evaluations)


def f_prime(teacher: landscape.Teacher) -> landscape.Objective:
    """f′ of a teacher."""
    return landscape.population_tensor_risk(teacher)


def g_with(mu: float) -> Make:
    """G with that μ and λ = 4√6|σ₄|a_max, the least that Theorem B.1 allows."""
    return lambda teacher: landscape.population_g(teacher, mu=mu, strength=strength(float(teacher.readout.max())))


def f_with(mu: float) -> Make:
    """F in whitened coordinates with that μ and λ = 4√6|σ₄|/a_min."""
    return lambda teacher: replace(landscape.whitened_design(
        teacher.quartic(), teacher.gram(), -1.0, teacher.width, mu=mu, strength=strength(1.0 / float(teacher.readout.min()))),
        truth=teacher.directions)


def f_with_ridge(mu: float, ridge: float) -> Make:
    """F in all inputs, as printed, with δ = `ridge`."""
    return lambda teacher: landscape.population_f(
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


def measure_grid(settings: Settings[LandscapeGrid]) -> dict[Any, list[Any]]:
    """The descents from every seed; every kind of stochastic run from the first one alone."""
    grid = settings.grid
    landings = run_cells(settings, grid.descents, lambda cell, seed: land(cell.make, cell.shape, seed))
    return landings | run_cells(settings.first(1), grid.walks, walk_once)


def _walks(m: StudyMeasurement) -> dict[str, list[WalkRun]]:
    return {cell.name: m.runs[cell] for cell in m.grid.walks}


def _designed_sentence(m: StudyMeasurement) -> str:
    counted = [row for row in m.rows if row.objective != WITHOUT_R]
    total, found = sum(col.values(counted, "starts")), sum(col.values(counted, "at_the_truth"))
    without = ", ".join(
        f"{r.at_the_truth} of {r.starts} at readout ratio {r.readout_ratio:g}" for r in m.rows if r.objective == WITHOUT_R)
    aside = f" (with mu=0 {without})" if without else ""
    return (
        f"{found} of {total} population descents ended at the truth{aside}; error (4.1) of stochastic runs at the end: "
        f"{squared.final_errors(_walks(m))}.")


def _designed_figure(m: StudyMeasurement) -> LinesFigure:
    panels = walk_panels(_walks(m), "Objective of the batch, less its least value", logarithmic="")
    return LinesFigure(panels, f"Stochastic gradients on {m.grid.walks[0].objective}", across=2)


DESIGNED_TABLE = table(
    objective=col.field("name"), dim=lambda cell, runs: cell.shape.dim, width=lambda cell, runs: cell.shape.width,
    readout_ratio=lambda cell, runs: cell.shape.ratio,
    rows=lambda cell, runs: "orthonormal" if cell.shape.orthonormal else "Gaussian", starts=col.count,
    at_the_truth=col.total(lambda end: end.error < SUCCESS.minimum_error), smallest_eigenvalue=col.reduced(min, "smallest"),
    median_gradients=lambda cell, runs: int(np.median(col.values(runs, "evaluations"))))

SHAPES = (
    DesignedShape(10, 10, 1, True), DesignedShape(10, 10, 5, True), DesignedShape(10, 10, 5, False),
    DesignedShape(20, 5, 5, False), DesignedShape(16, 16, 1, True), DesignedShape(16, 16, 5, False))


def _f_prime_grid(dim: int, batch: int, longer: int) -> LandscapeGrid:
    """Noise of y as it is asks for shorter steps; the mean of |z|/2 makes the loss steep along a, like the dimension."""
    def steps(step: float, count: int) -> landscape.StepSchedule:
        return landscape.StepSchedule(step=step, count=count, hold=count // 2, every=count // 8, record=count // 40)

    walks = (
        DesignedWalk("f'", dim, batch, steps(0.3, 6000 * longer), False),
        DesignedWalk("f'", dim, batch, steps(1.0, 2000 * longer), True),
        DesignedWalk(HALF, dim, batch, steps(5.0 / dim, 6000 * longer), False))
    return LandscapeGrid(tuple(DesignedCell("f'", shape) for shape in SHAPES), walks)


def _g_grid(dim: int, *walks: tuple[int, bool, float, int]) -> LandscapeGrid:
    """Population descents in dimension 10 and 20; stochastic runs by batch, if a fit is subtracted, step, number."""
    cells = (
        *(DesignedCell("G", DesignedShape(10, 10, ratio, True), mu) for ratio in (1.0, 5.0, 20.0)
          for mu in sorted({0.0, 0.01 / ratio, 1.0 / ratio, 1.0})),
        *(DesignedCell("F", shape) for shape in SHAPES[2:]), DesignedCell("F", SHAPES[3], ridge=1e-5))
    return LandscapeGrid(cells, tuple(
        DesignedWalk("G", dim, batch, landscape.StepSchedule(
            step=step, count=count, hold=count // 2, every=count // 8, record=count // 30), controlled)
        for batch, controlled, step, count in walks))


F_PRIME = Study(
    "glm-fig3", "Descent on f': population ends in six settings, and projected stochastic gradients, also with |z|/2 for f'",
    "The paper: projected SGD on f' converges to the truth; that it has no spurious minima is a conjecture; |z|/2 works too.",
    quick=_f_prime_grid(50, 8192, 1), full=_f_prime_grid(50, 8192, 8), seeds=12,
    measure_grid=measure_grid, group=descents, table=DESIGNED_TABLE, sentence=_designed_sentence, figure=_designed_figure)
"""Figure 3 of Ge, Lee and Ma (2018). Footnote 11 there says that γ(z) = |z|/2 works in place of σ₂h₂ + σ₄h₄ too, and shows
nothing: it is run here. It is the even part of ReLU, all orders of it; the odd part z/2 is noise to it."""

G_AND_F = Study(
    "glm-fig4", "Descent on G and F: population ends for several mu, and stochastic gradients with fresh samples",
    "The paper: with mu <= 0.01/kappa all minima of G and F are the truth; SGD on G converges with batches of 262,144.",
    quick=_g_grid(50, (262_144, False, 0.002, 90), (262_144, True, 0.05, 120), (8192, True, 0.01, 2000)),
    full=_g_grid(50, (262_144, False, 0.002, 80_000), (262_144, True, 0.02, 3000), (8192, True, 0.01, 9000)), seeds=12,
    measure_grid=measure_grid, group=descents, table=DESIGNED_TABLE, sentence=_designed_sentence, figure=_designed_figure)
"""Figure 4 of Ge, Lee and Ma (2018). The paper takes 80,000 steps with its batch, which --full does; the quick grid has 90."""


def spurious_objective(mu: float, excess: float = 0.5) -> landscape.Objective:
    """P′ + R on unit rows; `excess` is t."""
    return landscape.pairs_on_spheres(np.array([1.0, *[2.0 + excess] * 3]), np.eye(4), mu=mu)


def turned(angle: float) -> Array:
    """The paper's B with b₄ = cos e₃ + sin e₄; the paper has π/4."""
    e = np.eye(4)
    return np.array([e[0], e[0], e[1], np.cos(angle) * e[2] + np.sin(angle) * e[3]])


class SpuriousRun(NamedTuple):
    """The point itself: value, gradient, curvature; distance of a descent from it from the truth; descents from random starts."""

    value: float
    gradient: float
    smallest: float
    distance: float
    starts: int
    right: int
    minima: int


def explore_spurious(mu: float, seeds: Sequence[int]) -> SpuriousRun:
    """What the landscape is at the point, and where descents end; the seeds are those of the random starts."""
    f, point, rng = spurious_objective(mu), turned(np.pi / 4), np.random.default_rng(seeds[0])
    order = landscape.second_order(f, point, rng=rng)
    end = unsigned_error(landscape.descend(f, point, rng=rng).point, np.eye(4))
    starts = [f.start(np.random.default_rng([seed, 5])) for seed in seeds]
    found = landscape.critical_points(f, starts, saddles=False, rng=rng)
    right = sum(each.runs for each in found.minima if each.distance < SUCCESS.minimum_error)
    value = f.value_and_gradient(point).value
    return SpuriousRun(value, order.gradient_norm, order.smallest, end, len(starts), right, len(found.minima))


def _explore_all(settings: Settings[tuple[float, ...]]) -> dict[float, SpuriousRun]:
    return {mu: explore_spurious(mu, settings.seeds) for mu in settings.grid}


def _spurious_sentence(m: StudyMeasurement) -> str:
    parts = (
        f"mu={row.mu:g}: curvature {row.smallest_eigenvalue:.2g}, descent ends {row.distance_after_descent_from_it:.2g} from the "
        "truth" for row in m.rows)
    return "; ".join(parts) + "."


def _spurious_figure(m: StudyMeasurement) -> LinesFigure:
    angles = np.linspace(np.pi / 4, np.pi / 2, 41)

    def lines(quantity: Callable[[landscape.Objective, Array], float]) -> list[Curve]:
        return [
            Curve(f"mu={mu:g}", angles.tolist(), [quantity(spurious_objective(mu), turned(angle)) for angle in angles])
            for mu in m.grid]

    panels = (
        Panel("Value", "angle of b4", "P' + R", lines(lambda f, point: f.value_and_gradient(point).value), ""),
        Panel("Smallest Hessian eigenvalue", "angle of b4", "eigenvalue",
              lines(lambda f, point: landscape.second_order(f, point, rng=np.random.default_rng(0)).smallest), ""))
    return LinesFigure(panels, "P' + R along the flat direction of its spurious minimum")


APPENDIX_F = Study(
    "glm-appendix-f", "The spurious minimum of P' and how R removes it: curvature at the point, and where descents end",
    "The paper: B is a local minimum of P'; with R there is none but the truth.",
    quick=(0.0, 0.01, 0.05, 0.2), full=(0.0, 0.01, 0.05, 0.2), measure_grid=_explore_all,
    table=table(
        mu=col.itself, value_at_the_point=lambda mu, run: run.value, gradient=lambda mu, run: run.gradient,
        smallest_eigenvalue=lambda mu, run: run.smallest, distance_after_descent_from_it=lambda mu, run: run.distance,
        random_starts=lambda mu, run: run.starts, at_the_truth=lambda mu, run: run.right,
        distinct_minima=lambda mu, run: run.minima),
    sentence=_spurious_sentence, figure=_spurious_figure)
"""Appendix F of Ge, Lee and Ma (2018): a spurious minimum of P′, and how R removes it. d = 4, B* = I, a = (1, 2+t, 2+t, 2+t), B =
[e₁; e₁; e₂; (e₃ + e₄)/√2]. In ordered pairs P′ = 2 there (the paper counts each pair once and has 1). One curvature is exactly
zero, so that the minimum is not strict: turning b₄ towards e₃ or e₄ does not change P′ but makes the curvature of b₁ and b₂
negative once the other share is below 1/(2+t). R = -μ Σ aᵢ⟨bᵢ*, bⱼ⟩⁴ makes it negative at the point itself. The grid is of μ."""
