"""Figures 1 and 2 of Ge, Lee and Ma (2018): does the squared loss have minima that are not the truth?

There, stochastic gradients (batch 256, d = m = 50, B* = I, a* = 1, no noise) do not reach zero, for ReLU and for sigmoid, and
that is read as spurious minima. A run with a fixed budget is no evidence: it may be slow. So beside five such runs the population
risk itself is minimised to a gradient of rounding size, and the Hessian at the end shows whether it is a minimum. ReLU: the
closed form. Sigmoid: rows of length 1 on a Hermite series (39 orders leave 1e-15), rows of free length on a large sample, of 400
rows per unit, which the truth fits exactly. Of the stochastic runs the paper states the batch, and that the step is divided by 4
every 5000 steps after 10,000; the step itself and the start are not stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare import landscape
from laybare.activations import Activation, relu, sigmoid
from laybare.decomposition.components import unit_rows
from laybare.errors import InvalidInput
from laybare.networks import landscape_error
from laybare.numerics.shapes import Array
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.study import Settings, Study, StudyMeasurement, cross, gaussian_samples, run_cells, table


class WalkRun(NamedTuple):
    """A stochastic run: steps, the metric (4.1) there, the value of the objective on the batch; infinite if it diverged."""

    at: tuple[int, ...]
    errors: tuple[float, ...]
    values: tuple[float, ...]


def identity_teacher(dim: int, activation: Activation) -> landscape.Teacher:
    """B* = I, a* = 1."""
    return landscape.Teacher(np.ones(dim), np.eye(dim), activation)


def fresh_samples(dim: int, rows: int, activation: Activation, rng: Generator) -> Samples:
    """New samples of the identity teacher."""
    return gaussian_samples(lambda x: activation(x).sum(axis=1), dim, rows, rng)


def walk(stream: landscape.Stream, start: Array, steps: landscape.StepSchedule, rows: Callable[[Array], Array]) -> WalkRun:
    """Stochastic gradients from `start`; `rows` takes the directions out of a point."""
    try:
        walked = landscape.stochastic_descent(stream, start, steps)
    except InvalidInput:  # the noise of a batch threw the rows out of reach
        return WalkRun((0,), (np.inf,), (np.nan,))
    errors = tuple(landscape_error(unit_rows(rows(point))) for point in walked.points)
    return WalkRun(walked.at, errors, walked.values)


def walk_panels(runs: Mapping[str, Sequence[WalkRun]], value: str, *, logarithmic: str = "y") -> tuple[Panel, Panel]:
    """Value of the objective on the batch, and error, over the steps."""
    drawn = {name: run for name, run in _named(runs).items() if np.isfinite(run.errors).all()}
    values = [Curve(name, run.at, run.values) for name, run in drawn.items()]
    errors = [Curve(name, run.at, [max(error, 1e-6) for error in run.errors]) for name, run in drawn.items()]
    return Panel(value, "step", "value", values, logarithmic), Panel("Error of the parameters (4.1)", "step", "error", errors)


def final_errors(runs: Mapping[str, Sequence[WalkRun]]) -> str:
    """The error at the end of every run."""
    last = ((name, run.errors[-1]) for name, run in _named(runs).items())
    return ", ".join(f"{name} {error:.2g}" if np.isfinite(error) else f"{name} diverged" for name, error in last)


def _named(runs: Mapping[str, Sequence[WalkRun]]) -> dict[str, WalkRun]:
    """Every run under a name of its own: that of its kind, with a number if the kind has several."""
    return {
        name if len(each) == 1 else f"{name}, run {i + 1}": run for name, each in runs.items() for i, run in enumerate(each)}


class DescentEnd(NamedTuple):
    """One descent: relative risk, gradient norm and smallest eigenvalue there, the metric (4.1), gradients taken."""

    risk: float
    gradient: float
    smallest: float
    error: float
    evaluations: int

    @property
    def kind(self) -> str:
        """Relative risk of the truth: up to 1e-9 (spurious minima end above 1e-5); gradient of a minimum: up to 1e-6."""
        if self.risk <= 1e-9:
            return "global"
        return "spurious" if self.gradient <= 1e-6 and self.smallest > 0 else "unfinished"


def relu_end(dim: int, seed: int) -> DescentEnd:
    """From a random start on the exact ReLU risk."""
    rng = np.random.default_rng([seed, dim, 1])
    objective = landscape.ReLURisk(identity_teacher(dim, relu))
    rest = objective.value_and_gradient(np.zeros((dim, dim))).value
    return _end(objective, landscape.descend(objective, objective.start(rng), rng=rng, max_steps=5000), rest)


def sigmoid_end(dim: int, seed: int, form: str) -> DescentEnd:
    """From a random start: rows of length 1 on the series, or of free length on samples; the readout held at 1 or trained."""
    rng = np.random.default_rng([seed, dim, 2])
    teacher = identity_teacher(dim, sigmoid)
    objective: landscape.Objective
    held = 0 if form.endswith("readout trained") else 1
    if form.startswith("free rows"):
        source = fresh_samples(dim, 400 * dim, sigmoid, rng)
        objective = landscape.SampledRisk(
            source=source, response=landscape.response_of(sigmoid), width=dim, domain=landscape.FreeSpace(held=held),
            truth=teacher.directions)
    else:
        objective = landscape.series_risk(teacher, 39, domain=landscape.UnitRows(1, held=held))
    found = landscape.descend(objective, objective.start(rng), rng=rng, max_steps=5000, polish=form.startswith("unit rows"))
    rest = dim * float(np.var(sigmoid(np.random.default_rng(0).standard_normal(100_000))))
    return _end(objective, found, rest)


def _end(objective: landscape.Objective, found: landscape.Minimum, rest: float) -> DescentEnd:
    """What a descent came to; `rest` is the risk of the constant zero."""
    error = landscape_error(objective.directions(found.point))
    return DescentEnd(
        max(found.value / rest, 0.0), found.order.gradient_norm, found.order.smallest, error, found.evaluations)


class LossCell(NamedTuple):
    """Descents: a model ("relu", or a form of sigmoid networks) and its dimension."""

    model: str
    dim: int


class LossWalk(NamedTuple):
    """Stochastic runs on a model: its dimension, steps, samples per step."""

    model: str
    dim: int
    steps: landscape.StepSchedule
    batch: int = 256


class LandscapeGrid(NamedTuple):
    """Cells of deterministic descents, and of stochastic runs beside them."""

    descents: tuple[Any, ...]
    walks: tuple[Any, ...]


def descents(grid: LandscapeGrid, runs: Mapping[Any, list[Any]]) -> dict[Any, list[Any]]:
    """The descents alone, which have rows."""
    return {cell: runs[cell] for cell in grid.descents}


def descend_once(cell: LossCell, seed: int) -> DescentEnd:
    """From a random start on the risk of the model."""
    return relu_end(cell.dim, seed) if cell.model == "relu" else sigmoid_end(cell.dim, seed, cell.model)


def walk_once(cell: LossWalk, seed: int) -> WalkRun:
    """Stochastic gradients on the squared loss as the paper runs them: rows of free length, fresh samples, readout held at 1."""
    rng = np.random.default_rng([seed, cell.dim, 6])
    activation = relu if cell.model == "relu" else sigmoid
    response, domain = landscape.response_of(activation), landscape.FreeSpace(held=1)

    def stream(step: int) -> landscape.Objective:
        source = fresh_samples(cell.dim, cell.batch, activation, rng)
        return landscape.SampledRisk(source=source, response=response, width=cell.dim, domain=domain)

    return walk(stream, stream(0).start(rng), cell.steps, lambda point: point[:, 1:])


def measure_grid(settings: Settings[LandscapeGrid]) -> dict[Any, list[Any]]:
    """The descents from every seed, the stochastic runs from five of them, as in the paper."""
    grid = settings.grid
    return run_cells(settings, grid.descents, descend_once) | run_cells(settings.first(5), grid.walks, walk_once)


def _walks(m: StudyMeasurement) -> dict[str, list[WalkRun]]:
    return {f"stochastic, {cell.model}, d={cell.dim}": m.runs[cell] for cell in m.grid.walks}


def _sentence(m: StudyMeasurement) -> str:
    counts = "; ".join(
        f"{r.model}, d={r.dim}: {r.at_the_truth} of {r.starts} global, {r.spurious} spurious minima" for r in m.rows)
    return f"{counts}. Error (4.1) of stochastic runs at the end: {final_errors(_walks(m))}."


def _figure(m: StudyMeasurement) -> LinesFigure:
    def lines(name: str) -> list[Curve]:
        return [
            Curve(f"{cell.model}, d={cell.dim}", np.sort(np.maximum(col.values(each, name), 1e-16)).tolist(),
                  (np.arange(1, len(each) + 1) / len(each)).tolist())
            for cell, each in descents(m.grid, m.runs).items()]

    panels = (
        *walk_panels(_walks(m), "Squared loss of the batch"),
        Panel("Population descents: relative risk", "risk at the end", "share of starts below", lines("risk"), "x"),
        Panel("Population descents: error (4.1)", "error at the end", "share of starts below", lines("error"), "x"))
    return LinesFigure(
        panels, "Stochastic gradients on the squared loss, and where descents on the population risk end", across=2)


LOSS_TABLE = table(
    "model", "dim", starts=col.count, at_the_truth=col.total(lambda end: end.kind == "global"),
    spurious=col.total(lambda end: end.kind == "spurious"), unfinished=col.total(lambda end: end.kind == "unfinished"),
    median_risk=col.median("risk"), largest_gradient=col.reduced(max, "gradient"),
    smallest_eigenvalue=col.reduced(min, "smallest"), median_error=col.median("error"))


def _grid(models: Sequence[str], dims: Sequence[int], step: float, count: int, most: int = 20) -> LandscapeGrid:
    """All models in all dimensions; the stochastic runs are of the free rows in the paper's, d = 50.

    Descents of free rows stop at dimension `most`: one on a sample of 20,000 in dimension 50 takes half a minute.
    """
    walked = "relu" if "relu" in models else "free rows"
    steps = landscape.StepSchedule(step=step, count=count, record=count // 50)
    return LandscapeGrid(
        tuple(LossCell(model, dim) for dim, model in cross(lambda *pair: pair, dims, models)
              if dim <= most or not model.startswith("free rows")),
        (LossWalk(walked, 50, steps),))


SIGMOID_FORMS = ("unit rows", "unit rows, readout trained", "free rows", "free rows, readout trained")
RELU_LOSS = Study(
    "glm-fig1", "Is the squared loss of ReLU networks stuck? Stochastic runs, and descents on the exact risk, B* = I, a* = 1",
    "The paper: none of five stochastic runs at d = 50 reaches zero, which suggests spurious minima.",
    quick=_grid(["relu"], (5, 10, 20, 50), 0.005, 50_000), full=_grid(["relu"], (5, 10, 20, 50, 100), 0.005, 100_000),
    measure_grid=measure_grid, group=descents, table=LOSS_TABLE, sentence=_sentence, figure=_figure)
"""Figure 1 of Ge, Lee and Ma (2018)."""

SIGMOID_LOSS = Study(
    "glm-fig2", "The same for sigmoid networks: unit rows (exact series), readout held or trained, and free rows (samples)",
    "The paper: similar to ReLU, stochastic runs do not reach zero.",
    quick=_grid(SIGMOID_FORMS, (10, 20, 50), 0.02, 50_000), full=_grid(SIGMOID_FORMS, (10, 20, 50), 0.02, 100_000, 50),
    measure_grid=measure_grid, group=descents, table=LOSS_TABLE, sentence=_sentence, figure=_figure)
"""Figure 2 of Ge, Lee and Ma (2018)."""
