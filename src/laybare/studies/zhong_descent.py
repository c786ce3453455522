"""Figure 1(c) of Zhong et al. (2017): how fast does gradient descent converge from which start? d = 10, k = 5, n = 10,000.

Teachers as in `zhong`; step 0.02, all samples in every step. The paper's arms are (I) W and v from the tensor method, v kept;
(II) W and v Gaussian, both moved; (III) v = v*, W Gaussian, v kept. It does not tell the scale of the Gaussian entries, on which
(II) depends, so both N(0, 1) and N(0, 1/d) are run. Beside them: descent from our start, and the solver of TensorInit and of
RandomStart, whose steps cost more each (the last column tells). A fixed step can be too large far from the truth: such runs
diverge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import LaybareError
from laybare.methods import Method, RandomStart, Route, TensorInit
from laybare.methods.tensor_init.printed import PrintedMoments, moments_then_descent
from laybare.methods.tensor_init.routes import RefinedMoments
from laybare.networks import Layer, Network, recovered
from laybare.pipeline import recover
from laybare.refinement.descent import Descent, gradient_descent
from laybare.refinement.normal import network_of, point_of
from laybare.refinement.variation import total_variation
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Samples
from laybare.studies.study import Cell, Study, StudyResult, headings, over
from laybare.studies.zhong import RELU2, WIDTH, planted

DIM, SAMPLES = 10, 10_000
TOLD = (0, 5, 20, 100, 300, 1000, 3000, 6000)
"""Steps after which the table has the loss."""

DESCENT = Descent(step=0.02, tol=1e-28)
SMALL = 1e-6
"""Relative loss at which an arm counts as converged; from there on its rate is fitted."""


class DescentCell(NamedTuple):
    """Name of the arm, steps of gradient descent, samples."""

    arm: str
    steps: int
    samples: int = SAMPLES


class DescentGrid(NamedTuple):
    """Steps of gradient descent; every arm."""

    steps: int

    def cells(self) -> list[DescentCell]:
        return [DescentCell(arm, self.steps) for arm in ARMS]


class CurveRun(NamedTuple):
    """Relative loss after every step, whether the network was recovered, seconds; no losses if the step was too large."""

    losses: Array
    success: bool
    seconds: float


class DescentRow(NamedTuple):
    """A row of the table: the loss after so many steps; what tells the arm as a whole stands in every row of it."""

    arm: str
    recovered: int
    diverged: int
    runs: int
    median_steps_to_1e_6: Cell
    median_rate: Cell
    steps: int
    median_loss: Cell
    smallest: Cell
    largest: Cell
    median_s: float


class NetworkAndLosses(NamedTuple):
    """A network and the relative losses on the way to it."""

    network: Network
    losses: Array


Arm = Callable[[Samples, Network, int, Generator], NetworkAndLosses]


def from_moments(route: Route) -> Arm:
    """(I): the start of `route`, then descent in W."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> NetworkAndLosses:
        ran = moments_then_descent(source, WIDTH, RELU2, replace(DESCENT, max_steps=steps), rng=rng, route=route)
        return NetworkAndLosses(ran.network, np.array([row.loss for row in ran.trace.rows]))

    return run


def from_gaussian(scale: float, *, readout: bool) -> Arm:
    """(II) with `readout`, (III) without: entries N(0, scale²), readout Gaussian and moved, or the true one and kept."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> NetworkAndLosses:
        rows = scale * rng.standard_normal((WIDTH, source.dim))
        v = rng.standard_normal(WIDTH) if readout else truth.readout
        point = point_of(Network(Layer(rows, None, RELU2), v), biases=False, offset=False, linear=False)
        ran = gradient_descent(source, point, total_variation(source), replace(DESCENT, max_steps=steps, readout=readout))
        return NetworkAndLosses(network_of(ran.point, vector=True), np.array([row.loss for row in ran.trace.rows]))

    return run


def by_solver(method: Method) -> Arm:
    """The library's own way, its solver in place of descent."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> NetworkAndLosses:
        found = recover(source, method, WIDTH, rng=rng)
        return NetworkAndLosses(found.network, np.minimum.accumulate([row.loss for row in found.traces[0].rows]))

    return run


NARROW = 1.0 / np.sqrt(DIM)
ARMS: dict[str, Arm] = {
    "I printed start": from_moments(PrintedMoments()),
    "I our start": from_moments(RefinedMoments()),
    "II Gaussian, N(0, 1)": from_gaussian(1.0, readout=True),
    "II Gaussian, N(0, 1/d)": from_gaussian(NARROW, readout=True),
    "III v true, N(0, 1)": from_gaussian(1.0, readout=False),
    "III v true, N(0, 1/d)": from_gaussian(NARROW, readout=False),
    "TensorInit, solver": by_solver(TensorInit(activation=RELU2)),
    "RandomStart, solver": by_solver(RandomStart(activation=RELU2, biases=False))}


def run_once(cell: DescentCell, seed: int) -> CurveRun:
    """Plant a network, run the arm, follow its loss."""
    arm, steps, samples = cell
    rng = np.random.default_rng([seed, DIM, samples])
    truth, source = planted(DIM, samples, rng)
    begun = time.perf_counter()
    try:
        found = ARMS[arm](source, truth, steps, rng)
    except LaybareError:  # a step too large, or no start
        return CurveRun(np.empty(0), False, time.perf_counter() - begun)
    success = found.network.width == WIDTH and recovered(found.network, truth)
    return CurveRun(found.losses, success, time.perf_counter() - begun)


def summary(grid: DescentGrid, runs: Mapping[DescentCell, list[CurveRun]]) -> StudyResult:
    """Losses after a few numbers of steps, how many steps a small loss takes, and the rate from there on."""
    rows = [row for cell, each in runs.items() for row in _rows(cell, each)]
    curves = {cell.arm: each for cell, each in runs.items()}
    return StudyResult(headings(DescentRow), rows, _sentence(curves), _figure(curves, grid.steps))


def _rows(cell: DescentCell, runs: list[CurveRun]) -> list[DescentRow]:
    ran = [run for run in runs if len(run.losses)]
    head = (
        cell.arm, sum(run.success for run in runs), len(runs) - len(ran), len(runs), _text(_steps_needed(runs)),
        _text(_rate(runs)))
    seconds = float(np.median([run.seconds for run in runs]))
    if not ran:
        return [DescentRow(*head, 0, "", "", "", seconds)]
    rows = []
    for at in (at for at in TOLD if at <= cell.steps):
        losses = [_at(run, at) for run in ran]
        rows.append(DescentRow(*head, at, float(np.median(losses)), min(losses), max(losses), seconds))
    return rows


def _at(run: CurveRun, step: int) -> float:
    """Loss after so many steps; a run that ended before stays where it was."""
    return float(run.losses[min(step, len(run.losses) - 1)])


def _steps_needed(runs: list[CurveRun]) -> float:
    """Median number of steps to a small loss; infinite if half of the runs never got there."""
    needed = [int(np.argmax(run.losses < SMALL)) if (run.losses < SMALL).any() else np.inf for run in runs]
    return float(np.sort(needed)[len(needed) // 2])


def _rate(runs: list[CurveRun]) -> float:
    """Median factor of the error (the root of the loss) per step, between a loss of 1e-6 and the end or 1e-20."""
    rates = []
    for run in runs:
        tail = run.losses[(run.losses < SMALL) & (run.losses > 1e-20)]
        if len(tail) > 20:
            rates.append(np.exp(np.polyfit(np.arange(len(tail)), np.log(tail), 1)[0] / 2))
    return float(np.median(rates)) if rates else np.nan


def _text(value: float) -> Cell:
    return round(value, 5) if np.isfinite(value) else "none"


def _sentence(curves: dict[str, list[CurveRun]]) -> str:
    parts = ", ".join(
        f"{arm} {sum(run.success for run in runs)}/{len(runs)} ({_text(_steps_needed(runs))})" for arm, runs in curves.items())
    return (
        f"Recovered, and in brackets median steps to a relative loss of {SMALL:g}: {parts}. The paper states that (I) is "
        "fastest, that (II) does not converge, and that (I) and (III) converge linearly: the column of rates is that linear "
        "factor. Whether (II) converges depends on the scale of its start, which the paper does not give.")


def _figure(curves: dict[str, list[CurveRun]], steps: int) -> LinesFigure:
    """The paper's axes, loss over steps, once for descent and once for the solvers."""
    at = np.unique(np.concatenate([np.arange(0, 20), np.linspace(20, steps, 60).astype(int)]))

    def line(arm: str, points: Array) -> Curve:
        ran = [run for run in curves[arm] if len(run.losses)]
        losses = np.array([[max(_at(run, int(step)), 1e-32) for step in points] for run in ran]).reshape(-1, len(points))
        middle = np.median(losses, axis=0) if len(losses) else np.full(len(points), np.nan)
        return Curve(arm, points.tolist(), middle.tolist())

    solvers = [arm for arm in curves if arm.endswith("solver")]
    panels = (
        Panel("gradient descent", "steps", "relative loss, median", [line(arm, at) for arm in curves if arm not in solvers]),
        Panel("Levenberg-Marquardt", "steps", "relative loss, median", [line(arm, np.arange(40)) for arm in solvers]))
    return LinesFigure(panels, "Loss of a squared-ReLU network over the steps of gradient descent and of the solver")


FIGURE_1C = Study(
    "zhong-fig1c", "Convergence of gradient descent from the tensor start, from Gaussian starts, and of the solver",
    "Descent from the tensor start (I) is fastest, from Gaussian W and v (II) it does not converge; (I) and (III) are linear.",
    DescentGrid(1000), DescentGrid(6000), over(DescentGrid.cells, run_once, stage="arms"), summary, seeds=10)
