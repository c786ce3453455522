"""How does the error of the start fall with the number of samples? The printed algorithm at order 1 and 2, and ours.

Teachers as in relu-factorial. Order l = 1: 8 inputs, 6 units; l = 2: 6 inputs, 9 units. Before any solver, for every true unit
the nearest found direction (up to sign): the median and the share within |cosine| 0.95; and the median error of the bias there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.methods.general_relu.printed import PrintedReLU, etas_from_noise, robust_units
from laybare.methods.general_relu.routes import JointSpan
from laybare.networks import Network
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Array, Event
from laybare.source import Source
from laybare.studies.relu_factorial import planted, share_found
from laybare.studies.study import Cell, Outcome, Settings, Study

SHAPES = {1: (8, 6), 2: (6, 9)}
SAMPLES, ALL_SAMPLES = (10_000, 30_000, 100_000), (10_000, 30_000, 100_000, 300_000, 1_000_000)
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


class Run(NamedTuple):
    """Median distance of a true unit from the nearest found direction, share within cosine 0.95, median bias error, seconds."""

    distance: float
    share: float
    bias: float
    seconds: float


def run_once(arm: str, order: int, samples: int, seed: int) -> Run:
    """One start."""
    dim, width = SHAPES[order]
    rng = np.random.default_rng([seed, order, samples])
    truth, source = planted(dim, width, samples, rng)
    begun = time.perf_counter()
    rows = ARMS[arm](source, order, width, rng)
    seconds = time.perf_counter() - begun
    distances, biases = _errors(rows, truth)
    return Run(float(np.median(distances)), share_found(rows, truth, WITHIN), float(np.median(biases)), seconds)


def _errors(rows: Array, truth: Network) -> tuple[Array, Array]:
    """Per true unit: distance to the nearest found direction up to sign, and its bias error; √2 and |b| if there is none."""
    if not len(rows):
        return np.full(truth.width, np.sqrt(2.0)), np.abs(np.asarray(truth.layer.biases))
    cosines = truth.layer.weights @ rows[:, :-1].T
    nearest = np.argmax(np.abs(cosines), axis=1)
    best = np.take_along_axis(cosines, nearest[:, None], axis=1)[:, 0]
    return np.sqrt(np.maximum(2.0 - 2.0 * np.abs(best), 0.0)), np.abs(np.sign(best) * rows[nearest, -1] - truth.layer.biases)


def _study(settings: Settings) -> Outcome:
    sizes = ALL_SAMPLES if settings.full else SAMPLES
    cells = [(order, samples, arm) for order in SHAPES for samples in sizes for arm in ARMS]
    rows: list[tuple[Cell, ...]] = []
    for done, (order, samples, arm) in enumerate(cells):
        runs = np.array([run_once(arm, order, samples, seed) for seed in settings.seeds])
        distance, _, bias, seconds = np.median(runs, axis=0)
        rows.append((order, *SHAPES[order], samples, arm, round(float(distance), 5), round(float(runs[:, 1].mean()), 3),
                     round(float(bias), 4), round(float(seconds), 2)))
        if settings.progress is not None:
            settings.progress(Event("cells", done + 1, len(cells), f"l={order}, n={samples}, {arm}"))
    columns = ("l", "dim", "width", "samples", "start", "direction error", "share within .95", "bias error", "s")
    return Outcome(columns, rows, _sentence(rows, sizes), _figure(rows))


def _figure(rows: list[tuple[Cell, ...]]) -> str:
    panels = []
    for order, (dim, width) in SHAPES.items():
        own = {arm: [row for row in rows if row[0] == order and row[4] == arm] for arm in ARMS}
        lines = [Line(arm, [float(r[3]) for r in part], [float(r[5]) for r in part]) for arm, part in own.items()]
        panels.append(Panel(f"l = {order}: d = {dim}, m = {width}", "samples", "direction error", lines, "xy"))
    return lines_figure(panels, "Median error of directions against samples")


def _sentence(rows: list[tuple[Cell, ...]], sizes: tuple[int, ...]) -> str:
    """Exponents between the first and the last number of samples."""
    parts = []
    for order in SHAPES:
        for arm in ARMS:
            own = [float(row[5]) for row in rows if row[0] == order and row[4] == arm]
            slope = np.log(own[-1] / own[0]) / np.log(sizes[-1] / sizes[0])
            parts.append(f"l = {order}, {arm}: {own[-1]:.3g} (exponent {slope:.2f})")
    return f"Direction error with {sizes[-1]:,} samples: {'; '.join(parts)}."


ERROR = Study(
    "relu-error", "Error of the start for ReLU networks with biases against samples, at orders 1 and 2 of flattening",
    "Errors fall like n^-1/2 once units stand out; the joint span needs far fewer samples than the printed algorithm.", _study)
