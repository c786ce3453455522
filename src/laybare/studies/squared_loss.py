"""Figures 1 and 2 of Ge, Lee & Ma (2018): does the squared loss have minima that are not the truth?

There, stochastic gradients (batch 256, d = m = 50, B* = I, a* = 1, no noise) do not reach zero, for ReLU and for sigmoid, and
that is read as spurious minima. A run with a fixed budget is no evidence: it may be slow. So beside five such runs the population
risk itself (`population_loss`) is minimised to a gradient of rounding size, and the Hessian at the end tells whether it is a
minimum. Of the stochastic runs the paper states the batch, and that the step is divided by 4 every 5000 steps after 10,000; the
step itself and the start are not stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from laybare.activations import relu, sigmoid
from laybare.landscape import Free, Objective, SampledRisk, Steps, response_of
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.studies.population_loss import FORMS, Arrival, descent_end
from laybare.studies.study import Settings, Study, StudyResult, every, headings
from laybare.studies.walks import RUNS, WalkRun, ends, fresh, walk, walk_panels

KINDS = ("global", "spurious", "unfinished")


class LossCell(NamedTuple):
    """Descents: a model ("relu", or a form of sigmoid networks) and its dimension."""

    model: str
    dim: int


class LossWalk(NamedTuple):
    """Stochastic runs on a model: its dimension, steps, samples per step."""

    model: str
    dim: int
    steps: Steps
    batch: int = 256


class LossGrid(NamedTuple):
    """Deterministic descents, and stochastic runs beside them."""

    descents: tuple[LossCell, ...]
    walks: tuple[LossWalk, ...]


class LossRuns(NamedTuple):
    """What both came to."""

    descents: Mapping[LossCell, list[Arrival]]
    walks: Mapping[LossWalk, list[WalkRun]]


class LossRow(NamedTuple):
    """A row of the table."""

    model: str
    dim: int
    starts: int
    at_the_truth: int
    spurious: int
    unfinished: int
    median_risk: float
    largest_gradient: float
    smallest_eigenvalue: float
    median_error: float


def stochastic_run(cell: LossWalk, seed: int) -> WalkRun:
    """Stochastic gradients on the squared loss as the paper runs them: rows of free length, fresh samples, readout held at 1."""
    rng = np.random.default_rng([seed, cell.dim, 6])
    activation = relu if cell.model == "relu" else sigmoid

    def stream(step: int) -> Objective:
        source = fresh(cell.dim, cell.batch, activation, rng)
        return SampledRisk(source=source, response=response_of(activation), width=cell.dim, domain=Free(held=1))

    return walk(stream, stream(0).start(rng), cell.steps, lambda point: point[:, 1:])


def measure(settings: Settings[LossGrid]) -> LossRuns:
    """The descents from every seed, the stochastic runs from five of them, as in the paper."""
    return LossRuns(
        every(settings, settings.grid.descents, lambda cell, seed: descent_end(*cell, seed), stage="landscapes"),
        every(settings.first(RUNS), settings.grid.walks, stochastic_run, stage="stochastic"))


def summary(grid: LossGrid, runs: LossRuns) -> StudyResult:
    """Where the descents ended, and the stochastic runs beside them."""
    walked = {f"stochastic, {cell.model}, d={cell.dim}": each for cell, each in runs.walks.items()}
    rows = [_row(cell, each) for cell, each in runs.descents.items()]
    counts = "; ".join(f"{r.model}, d={r.dim}: {r.at_the_truth} of {r.starts} global, {r.spurious} spurious minima" for r in rows)
    panels = (*walk_panels(walked, "Squared loss of the batch"), *_panels(runs.descents))
    sentence = f"{counts}. Error (4.1) of stochastic runs at the end: {ends(walked)}."
    meaning = "Stochastic gradients on the squared loss, and where descents on the population risk end"
    return StudyResult(headings(LossRow), rows, sentence, LinesFigure(panels, meaning, across=2))


def _row(cell: LossCell, found: Sequence[Arrival]) -> LossRow:
    kinds = [end.kind for end in found]
    right, wrong, rest = (kinds.count(kind) for kind in KINDS)
    return LossRow(
        cell.model, cell.dim, len(found), right, wrong, rest, float(np.median([end.risk for end in found])),
        max(end.gradient for end in found), min(end.smallest for end in found),
        float(np.median([end.error for end in found])))


def _panels(found: Mapping[LossCell, Sequence[Arrival]]) -> tuple[Panel, Panel]:
    def line(cell: LossCell, values: Array) -> Curve:
        name = f"{cell.model}, d={cell.dim}"
        return Curve(name, np.sort(np.maximum(values, 1e-16)).tolist(), (np.arange(1, len(values) + 1) / len(values)).tolist())

    risks = [line(cell, np.array([end.risk for end in each])) for cell, each in found.items()]
    errors = [line(cell, np.array([end.error for end in each])) for cell, each in found.items()]
    return (
        Panel("Population descents: relative risk", "risk at the end", "share of starts below", risks, "x"),
        Panel("Population descents: error (4.1)", "error at the end", "share of starts below", errors, "x"))


def _cells(models: Sequence[str], dims: Sequence[int]) -> tuple[LossCell, ...]:
    return tuple(LossCell(model, dim) for dim in dims for model in models)


SHORT = Steps(step=0.01, count=20_000, record=400)
LONG = Steps(step=0.005, count=50_000, record=1000)
SLOW = Steps(step=0.05, count=20_000, record=400)
SLOWER = Steps(step=0.02, count=50_000, record=1000)

RELU_LOSS = Study(
    "glm-fig1", "Is the squared loss of ReLU networks stuck? Stochastic runs, and descents on the exact risk, B* = I, a* = 1",
    "The paper: none of five stochastic runs at d = 50 reaches zero, which suggests spurious minima.",
    LossGrid(_cells(["relu"], (5, 10, 20)), (LossWalk("relu", 20, SHORT),)),
    LossGrid(_cells(["relu"], (5, 10, 20, 50)), (LossWalk("relu", 50, LONG),)), measure, summary)
SIGMOID_LOSS = Study(
    "glm-fig2", "The same for sigmoid networks: unit rows (exact series), readout held or trained, and free rows (samples)",
    "The paper: similar to ReLU, stochastic runs do not reach zero.",
    LossGrid(_cells(FORMS, (10,)), (LossWalk("free rows", 10, SLOW),)),
    LossGrid(_cells(FORMS, (10, 20, 50)), (LossWalk("free rows", 50, SLOWER),)), measure, summary)
