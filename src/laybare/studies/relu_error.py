"""How does the error of the start fall with the number of samples? The printed algorithm at order 1 and 2, and ours.

Teachers as in relu-factorial. Order l = 1: 8 inputs, 6 units; l = 2: 6 inputs, 9 units. Before any solver, for every true unit
the nearest found direction (up to sign): the median and the share within |cosine| 0.95; and the median error of the bias there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.methods.general_relu.printed import PrintedReLU, etas_from_noise, robust_units
from laybare.methods.general_relu.routes import JointSpan
from laybare.networks import Network
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Source
from laybare.studies.relu_factorial import planted, share_found
from laybare.studies.study import Study, StudyResult, headings, over

WITHIN = 0.95

Rows = Callable[[Source, int, int, Generator], Array]
"""(source, order l, width) -> rows (w, b) up to sign."""


def printed(*, controlled: bool) -> Rows:
    """Algorithm 4, with averages of y·He_k as printed or after a quadratic fit was subtracted."""

    def rows(source: Source, order: int, width: int, rng: Generator) -> Array:
        measured = PrintedReLU(order=order, controlled=controlled).moments(source)
        units = robust_units(measured.value, order, etas_from_noise(measured, order), rng=rng)
        return np.column_stack([units.directions, units.scalars.biases])

    return rows


def joint(source: Source, order: int, width: int, rng: Generator) -> Array:
    """The joint span of orders 2 to 4."""
    units = JointSpan().units(source, width, relu, rng=rng)
    return np.zeros((0, source.dim + 1)) if units is None else units.network.layer.rows


ARMS: dict[str, Rows] = {
    "printed": printed(controlled=False), "printed, quadratic subtracted": printed(controlled=True), "joint span": joint}


class ErrorCell(NamedTuple):
    """Order l of the flattening, inputs, hidden units, samples, name of the arm."""

    l: int
    dim: int
    width: int
    samples: int
    arm: str


class ErrorGrid(NamedTuple):
    """Sample sizes, and inputs and hidden units of every order; every arm in each of them."""

    samples: tuple[int, ...]
    shapes: tuple[tuple[int, int, int], ...] = ((1, 8, 6), (2, 6, 9))

    def cells(self) -> list[ErrorCell]:
        return [ErrorCell(*shape, samples, arm) for shape in self.shapes for samples in self.samples for arm in ARMS]


class ErrorRun(NamedTuple):
    """Median distance of a true unit from the nearest found direction, share within cosine 0.95, median bias error, seconds."""

    distance: float
    share: float
    bias: float
    seconds: float


class ErrorRow(NamedTuple):
    """A row of the table."""

    l: int
    dim: int
    width: int
    samples: int
    start: str
    direction_error: float
    share_within_cosine_0_95: float
    bias_error: float
    median_s: float


def run_once(cell: ErrorCell, seed: int) -> ErrorRun:
    """One start."""
    order, dim, width, samples, arm = cell
    rng = np.random.default_rng([seed, order, samples])
    truth, source = planted(dim, width, samples, rng)
    begun = time.perf_counter()
    rows = ARMS[arm](source, order, width, rng)
    seconds = time.perf_counter() - begun
    distances, biases = errors(rows, truth)
    return ErrorRun(float(np.median(distances)), share_found(rows, truth, WITHIN), float(np.median(biases)), seconds)


def errors(rows: Array, truth: Network) -> tuple[Array, Array]:
    """Per true unit: distance to the nearest found direction up to sign, and its bias error; √2 and |b| if there is none."""
    if not len(rows):
        return np.full(truth.width, np.sqrt(2.0)), np.abs(np.asarray(truth.layer.biases))
    cosines = truth.layer.weights @ rows[:, :-1].T
    nearest = np.argmax(np.abs(cosines), axis=1)
    best = np.take_along_axis(cosines, nearest[:, None], axis=1)[:, 0]
    return np.sqrt(np.maximum(2.0 - 2.0 * np.abs(best), 0.0)), np.abs(np.sign(best) * rows[nearest, -1] - truth.layer.biases)


def summary(grid: ErrorGrid, runs: Mapping[ErrorCell, list[ErrorRun]]) -> StudyResult:
    """Medians over the seeds, and the exponent between the first and the last number of samples."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    groups = {(shape, arm): [r for r in rows if (r.l, r.start) == (shape[0], arm)] for shape in grid.shapes for arm in ARMS}
    parts = [f"l = {l}, {arm}: {_exponent(group)}" for ((l, *_), arm), group in groups.items()]
    panels = [
        Panel(f"l = {l}: d = {dim}, m = {width}", "samples", "direction error",
              [_line(arm, groups[(l, dim, width), arm]) for arm in ARMS], "xy") for l, dim, width in grid.shapes]
    sentence = f"Direction error with {grid.samples[-1]:,} samples: {'; '.join(parts)}."
    return StudyResult(headings(ErrorRow), rows, sentence, LinesFigure(panels, "Median error of directions against samples"))


def _row(cell: ErrorCell, runs: list[ErrorRun]) -> ErrorRow:
    table = np.array(runs)
    distance, _, bias, seconds = (float(value) for value in np.median(table, axis=0))
    return ErrorRow(*cell, distance, float(table[:, 1].mean()), bias, seconds)


def _exponent(rows: list[ErrorRow]) -> str:
    first, last = rows[0], rows[-1]
    slope = np.log(last.direction_error / first.direction_error) / np.log(last.samples / first.samples)
    return f"{last.direction_error:.3g} (exponent {slope:.2f})"


def _line(arm: str, rows: list[ErrorRow]) -> Curve:
    return Curve(arm, [r.samples for r in rows], [r.direction_error for r in rows])


ERROR = Study(
    "relu-error", "Error of the start for ReLU networks with biases against samples, at orders 1 and 2 of flattening",
    "Errors fall like n^-1/2 once units stand out; the joint span needs far fewer samples than the printed algorithm.",
    ErrorGrid((10_000, 30_000, 100_000)), ErrorGrid((10_000, 30_000, 100_000, 300_000, 1_000_000)),
    over(ErrorGrid.cells, run_once), summary, seeds=10)
