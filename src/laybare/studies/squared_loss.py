"""Figures 1 and 2 of Ge, Lee & Ma (2018): does the squared loss have minima that are not the truth?

There, stochastic gradients (batch 256, d = m = 50, B* = I, a* = 1, no noise) do not reach zero, for ReLU and for sigmoid, and
that is read as spurious minima. A run with a fixed budget is no evidence: it may be slow. Here the population risk itself, known
in closed form, is minimised to a gradient of rounding size, and the Hessian at the end tells whether it is a minimum. For sigmoid
rows of length 1 the risk is a Hermite series (39 orders leave 1e-15); with free lengths a large sample stands in, of 400 rows a
unit, which the truth fits exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, relu, sigmoid
from laybare.landscape import (
    Free,
    Minimum,
    Objective,
    ReLURisk,
    SampledRisk,
    Teacher,
    UnitRows,
    descend,
    response_of,
    series_risk,
)
from laybare.networks import landscape_error
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Array, Event
from laybare.source import Gaussian, Samples
from laybare.studies.study import Cell, Outcome, Settings, Study

GLOBAL = 1e-9
"""Risk, relative to that of the constant zero, below which a minimum is the truth: spurious ones end above 1e-5."""

STILL = 1e-6
ORDERS = 39
ROWS_A_UNIT = 400


class End(NamedTuple):
    """One descent: relative risk, gradient norm and smallest eigenvalue there, the metric (4.1), gradients taken."""

    risk: float
    gradient: float
    smallest: float
    error: float
    evaluations: int

    @property
    def kind(self) -> str:
        if self.risk <= GLOBAL:
            return "global"
        return "spurious" if self.gradient <= STILL and self.smallest > 0 else "unfinished"


def identity_teacher(dim: int, activation: Activation) -> Teacher:
    """B* = I, a* = 1."""
    return Teacher(np.ones(dim), np.eye(dim), activation)


def ended(objective: Objective, found: Minimum, rest: float) -> End:
    """What a descent came to; `rest` is the risk of the constant zero."""
    error = landscape_error(objective.directions(found.point))
    return End(max(found.value / rest, 0.0), found.order.gradient_norm, found.order.smallest, error, found.evaluations)


def relu_end(dim: int, seed: int) -> End:
    """From a random start on the exact ReLU risk."""
    rng = np.random.default_rng([seed, dim, 1])
    objective = ReLURisk(identity_teacher(dim, relu))
    rest = objective.slope(np.zeros((dim, dim))).value
    return ended(objective, descend(objective, objective.start(rng), rng=rng, max_steps=5000), rest)


def sigmoid_end(dim: int, seed: int, form: str) -> End:
    """From a random start: rows of length 1 on the series, or of free length on samples; the readout held at 1 or trained."""
    rng = np.random.default_rng([seed, dim, 2])
    teacher = identity_teacher(dim, sigmoid)
    objective: Objective
    held = 0 if form.endswith("readout trained") else 1
    if form.startswith("free rows"):
        x = rng.standard_normal((ROWS_A_UNIT * dim, dim))
        source = Samples(x, sigmoid(x).sum(axis=1), law=Gaussian(0, 1))
        objective = SampledRisk(
            source=source, response=response_of(sigmoid), width=dim, domain=Free(held=held), truth=teacher.directions)
    else:
        objective = series_risk(teacher, ORDERS, domain=UnitRows(1, held=held))
    found = descend(objective, objective.start(rng), rng=rng, max_steps=5000, polish=form.startswith("unit rows"))
    rest = dim * float(np.var(sigmoid(np.random.default_rng(0).standard_normal(100_000))))
    return ended(objective, found, rest)


COLUMNS = (
    "model", "dim", "starts", "global", "spurious", "unfinished", "median risk", "largest gradient", "smallest eigenvalue",
    "median error (4.1)")


def _row(model: str, dim: int, ends: Sequence[End]) -> tuple[Cell, ...]:
    kinds = [end.kind for end in ends]
    return (
        model, dim, len(ends), *(kinds.count(kind) for kind in ("global", "spurious", "unfinished")),
        float(np.median([end.risk for end in ends])), max(end.gradient for end in ends),
        min(end.smallest for end in ends), float(np.median([end.error for end in ends])))


def _figure(ends: dict[str, list[End]], meaning: str) -> str:
    shares = {name: np.arange(1, len(each) + 1) / len(each) for name, each in ends.items()}

    def line(name: str, values: Array) -> Line:
        return Line(name, np.sort(np.maximum(values, 1e-16)).tolist(), shares[name].tolist())

    risks = [line(name, np.array([end.risk for end in each])) for name, each in ends.items()]
    errors = [line(name, np.array([end.error for end in each])) for name, each in ends.items()]
    panels = (
        Panel("Relative risk at the end", "risk", "share of starts below", risks, "x"),
        Panel("Error of the parameters (4.1)", "error", "share of starts below", errors, "x"))
    return lines_figure(panels, meaning)


def _collect(settings: Settings, cells: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, list[End]]]:
    for done, (model, dim) in enumerate(cells):
        if model == "relu":
            yield model, dim, [relu_end(dim, seed) for seed in settings.seeds]
        else:
            yield model, dim, [sigmoid_end(dim, seed, model) for seed in settings.seeds]
        if settings.progress is not None:
            settings.progress(Event("landscapes", done + 1, len(cells), f"{model}, d={dim}"))


def _outcome(settings: Settings, cells: Sequence[tuple[str, int]], meaning: str) -> Outcome:
    rows: list[tuple[Cell, ...]] = []
    ends: dict[str, list[End]] = {}
    for model, dim, each in _collect(settings, cells):
        rows.append(_row(model, dim, each))
        ends[f"{model}, d={dim}"] = each
    counts = "; ".join(f"{row[0]}, d={row[1]}: {row[3]} of {row[2]} global, {row[4]} spurious minima" for row in rows)
    return Outcome(COLUMNS, rows, f"{counts}.", _figure(ends, meaning))


def _relu(settings: Settings) -> Outcome:
    dims = (5, 10, 20, 50) if settings.full else (5, 10, 20)
    return _outcome(settings, [("relu", dim) for dim in dims], "Where descents on the exact squared loss of ReLU networks end")


def _sigmoid(settings: Settings) -> Outcome:
    dims = (10, 20, 50) if settings.full else (10,)
    forms = ("unit rows", "unit rows, readout trained", "free rows", "free rows, readout trained")
    return _outcome(
        settings, [(form, dim) for dim in dims for form in forms], "Where descents on the squared loss of sigmoid networks end")


RELU_LOSS = Study(
    "glm-fig1", "Is the squared loss of ReLU networks stuck? Ends of descents on the exact population risk, B* = I, a* = 1",
    "The paper: none of five stochastic runs at d = 50 reaches zero, which suggests spurious minima.", _relu)
SIGMOID_LOSS = Study(
    "glm-fig2", "The same for sigmoid networks: unit rows (exact series), readout held or trained, and free rows (samples)",
    "The paper: similar to ReLU, stochastic runs do not reach zero.", _sigmoid)
