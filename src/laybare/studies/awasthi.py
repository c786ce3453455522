"""ReLU networks with biases, the setting of Awasthi, Tang and Vijayaraghavan (2021): starts, spare units, samples.

Teachers: unit rows in Gaussian directions, biases uniform in [-1.5, 1.5], |readout| uniform in [0.5, 1.5] with random signs,
noiseless, x ~ N(0, I).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.assembly.sign_decoding import sign_free_model
from laybare.methods import GeneralReLU, Method, RandomStart
from laybare.methods.general_relu import JointSpan
from laybare.methods.printed.awasthi_2021 import PrintedReLU, etas_from_noise, robust_units
from laybare.networks import Network, compare
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.drawings import LinesFigure, Panel, RatesFigure
from laybare.search.settings import Search, SearchContext
from laybare.search.wide import search_with_spares
from laybare.source import Samples, Source
from laybare.source.problem import total_variation
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, cross, gaussian_samples, table, timed


def planted(dim: int, width: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """A teacher and samples from it."""
    truth = random_network(dim, width, biases=1.5, readout="random", rng=rng)
    return truth, gaussian_samples(truth, dim, samples, rng)


def share_found(rows: Array, truth: Network, cosine: float = 0.9) -> float:
    """Share of true units with a found direction within that |cosine|."""
    ours, theirs = (w / np.linalg.norm(w, axis=1)[:, None] for w in (rows[:, : truth.dim], truth.layer.weights))
    return float(np.mean(np.abs(theirs @ ours.T).max(axis=1, initial=0.0) > cosine))


Rows = Callable[[Source, int, int, Generator], Array]
"""(source, order l, width) -> rows (w, b) up to sign."""


def printed(*, controlled: bool) -> Rows:
    """Algorithm 4, with averages of y·He_k as printed or after a quadratic fit was subtracted."""

    def rows(source: Source, order: int, width: int, rng: Generator) -> Array:
        measured = PrintedReLU(order=order, controlled=controlled).moments(source)
        units = robust_units(measured.value, order, etas_from_noise(measured, order), rng=rng)
        return np.column_stack([units.directions, units.scalars.biases])

    return rows


def joint_span(source: Source, order: int, width: int, rng: Generator) -> Array:
    """The joint span of orders 2 to 4."""
    units = JointSpan().units(source, width, relu, rng=rng)
    return np.zeros((0, source.dim + 1)) if units is None else units.network.layer.rows


ERROR_ARMS: dict[str, Rows] = {
    "printed": printed(controlled=False), "printed, quadratic subtracted": printed(controlled=True), "joint span": joint_span}


class ErrorCell(NamedTuple):
    """Order l of the flattening, inputs, hidden units, samples, name of the start."""

    l: int
    dim: int
    width: int
    samples: int
    start: str


class ErrorGrid(NamedTuple):
    """Sample sizes, and inputs and hidden units of every order; every arm in each of them."""

    samples: tuple[int, ...]
    shapes: tuple[tuple[int, int, int], ...] = ((1, 8, 6), (2, 6, 9))


class ErrorRun(NamedTuple):
    """Median distance of a true unit from the nearest found direction, share within cosine 0.95, median bias error, seconds."""

    distance: float
    share: float
    bias: float
    seconds: float


def start_once(cell: ErrorCell, seed: int) -> ErrorRun:
    """One start."""
    order, dim, width, samples, arm = cell
    rng = np.random.default_rng([seed, order, samples])
    truth, source = planted(dim, width, samples, rng)
    begun = time.perf_counter()
    rows = ERROR_ARMS[arm](source, order, width, rng)
    seconds = time.perf_counter() - begun
    distances, biases = start_errors(rows, truth)
    return ErrorRun(float(np.median(distances)), share_found(rows, truth, 0.95), float(np.median(biases)), seconds)


def start_errors(rows: Array, truth: Network) -> tuple[Array, Array]:
    """Per true unit: distance to the nearest found direction up to sign, and its bias error; √2 and |b| if there is none."""
    if not len(rows):
        return np.full(truth.width, np.sqrt(2.0)), np.abs(np.asarray(truth.layer.biases))
    cosines = truth.layer.weights @ rows[:, :-1].T
    nearest = np.argmax(np.abs(cosines), axis=1)
    best = np.take_along_axis(cosines, nearest[:, None], axis=1)[:, 0]
    return np.sqrt(np.maximum(2.0 - 2.0 * np.abs(best), 0.0)), np.abs(np.sign(best) * rows[nearest, -1] - truth.layer.biases)


def _error_sentence(m: StudyMeasurement) -> str:
    groups = col.group_rows(m.rows, "l", "start").items()
    parts = [f"l = {l}, {arm}: {_exponent(group)}" for (l, arm), group in groups]
    return f"Direction error with {m.grid.samples[-1]:,} samples: {'; '.join(parts)}."


def _exponent(rows: Sequence[Any]) -> str:
    first, last = rows[0], rows[-1]
    slope = np.log(last.direction_error / first.direction_error) / np.log(last.samples / first.samples)
    return f"{last.direction_error:.3g} (exponent {slope:.2f})"


def _error_figure(m: StudyMeasurement) -> LinesFigure:
    panels = [
        Panel(f"l = {l}: d = {dim}, m = {width}", "samples", "direction error",
              col.curves(rows, "start", "samples", "direction_error"), "xy")
        for (l, dim, width), rows in col.group_rows(m.rows, "l", "dim", "width").items()]
    return LinesFigure(panels, "Median error of directions against samples")


ERROR = Study(
    "relu-error", "Error of the start for ReLU networks with biases against samples, at orders 1 and 2 of flattening",
    "Errors fall like n^-1/2 once units stand out; the joint span needs far fewer samples than the printed algorithm.",
    quick=ErrorGrid((10_000, 30_000, 100_000)), full=ErrorGrid((10_000, 30_000, 100_000, 300_000, 1_000_000)), seeds=10,
    cells=lambda grid: [ErrorCell(*shape, *rest) for shape, *rest in cross(lambda *v: v, grid.shapes, grid.samples, ERROR_ARMS)],
    run_cell=start_once,
    table=table(
        "l", "dim", "width", "samples", "start", direction_error=col.median("distance"),
        share_within_cosine_0_95=col.reduced(np.mean, "share"), bias_error=col.median("bias"), median_s=col.median("seconds")),
    sentence=_error_sentence, figure=_error_figure)
"""How does the error of the start fall with the number of samples? The printed algorithm at order 1 and 2, and ours. Order l = 1:
8 inputs, 6 units; l = 2: 6 inputs, 9 units. Before any solver, for every true unit the nearest found direction (up to sign): the
median and the share within |cosine| 0.95; and the median error of the bias there."""


class FactorialCell(NamedTuple):
    """Inputs, hidden units, samples for the moments and for the solver; the start, from "moments" or at "random"."""

    dim: int
    width: int
    samples: int
    in_solver: int = 4000
    start: str = "moments"


SPARES = {"without_spares": 0, "with_2_spares": 2, "with_4_spares": 4}


class FactorialRun(NamedTuple):
    """Share of units that the start found (NaN for random ones), successes without spares, with 2 and with 4, seconds each."""

    found: float
    success: tuple[bool, ...]
    seconds: tuple[float, ...]


def factorial_once(cell: FactorialCell, seed: int) -> FactorialRun:
    """One start on a planted network. Success is a relative loss below 1e-16, the square of a relative rmse of 1e-8."""
    truth, source = planted(cell.dim, cell.width, cell.samples, np.random.default_rng([seed, *cell[:3]]))
    begun = time.perf_counter()
    rows = joint_span(source, 2, cell.width, np.random.default_rng(seed)) if cell.start == "moments" else None
    before, found = time.perf_counter() - begun, np.nan if rows is None else share_found(rows, truth)
    part = source.take(min(cell.in_solver, source.size))
    success, seconds, scale = [], [], total_variation(part)
    for spares in SPARES.values():
        begun = time.perf_counter()
        context = SearchContext.of(
            part, sign_free_model(relu, biases=True), Search(spares=spares, hops=0), rng=np.random.default_rng([seed, spares]))
        fit = search_with_spares(context.knowing(rows), cell.width)
        success.append(fit.loss < 1e-16 * scale)
        seconds.append(before + time.perf_counter() - begun)
    return FactorialRun(found, tuple(success), tuple(seconds))


def _units_found(cell: FactorialCell, runs: Sequence[FactorialRun]) -> float | str:
    found = float(np.mean([run.found for run in runs]))
    return "" if np.isnan(found) else found


def _successes(i: int) -> col.Column:
    return col.total(lambda run: run.success[i])


def _median_seconds(i: int) -> col.Column:
    return col.reduced(lambda seconds: np.median([each[i] for each in seconds]), "seconds")  # type: ignore[index]


def _factorial_sentence(m: StudyMeasurement) -> str:
    parts = []
    for start, rows in col.group_rows(m.rows, "start").items():
        successes = ", ".join(f"{sum(col.values(rows, name))} with {spares} spares" for name, spares in SPARES.items())
        parts.append(f"{start} {successes} (of {sum(col.values(rows, 'runs'))} each)")
    return f"Fitted to rounding in one run: {'; '.join(parts)}."


_FACTORIAL_SIZES = (
    FactorialCell(8, 8, 5000), FactorialCell(8, 8, 100_000), FactorialCell(8, 12, 20_000), FactorialCell(8, 12, 300_000))
FACTORIAL = Study(
    "relu-factorial", "ReLU networks with biases: start from moments or at random, with 0, 2 or 4 spare units, one run",
    "Moments help at exact width once they find nearly all units; with spare units random directions do as well.",
    quick=_FACTORIAL_SIZES, full=(*_FACTORIAL_SIZES, FactorialCell(20, 20, 20_000, 8800), FactorialCell(8, 20, 1_000_000)),
    cells=lambda sizes: [size._replace(start=start) for size in sizes for start in ("moments", "random")],
    run_cell=factorial_once,
    table=table(
        "dim", "width", "samples", "in_solver", "start", units_found=_units_found,
        **{name: _successes(i) for i, name in enumerate(SPARES)}, runs=col.count,
        **{f"s_{name}": _median_seconds(i) for i, name in enumerate(SPARES)}),
    sentence=_factorial_sentence)
"""What does the spectral start buy? Start × spare units, with everything else equal. Both starts see the same `in_solver` samples
in the solver (one run of the sign-free model, pruning, no repairs); only the spectral start sees all `samples`, for its moments.
A run succeeds at a relative rmse below 1e-8."""


class PhaseGrid(NamedTuple):
    """Widths and sample sizes; every arm in each of them."""

    widths: tuple[int, ...]
    samples: tuple[int, ...]


class PhaseCell(NamedTuple):
    """Hidden units, samples, name of the method, inputs."""

    width: int
    samples: int
    method: str
    dim: int = 8


class PhaseRun(NamedTuple):
    """Whether the network was recovered, whether the certificate said verified though it was not, seconds."""

    success: bool
    wrong: bool
    seconds: float


PHASE_ARMS: dict[str, Method] = {"GeneralReLU": GeneralReLU(), "RandomStart": RandomStart()}


def phase_once(cell: PhaseCell, seed: int) -> PhaseRun:
    """Plant, recover with the width given, compare; too few samples count as failure."""
    rng = np.random.default_rng([seed, cell.width, cell.samples])
    truth, source = planted(cell.dim, cell.width, cell.samples, rng)
    found, seconds = timed(lambda: recover(source, PHASE_ARMS[cell.method], cell.width, rng=rng))
    success = found is not None and compare(found.network, truth).max_error < SUCCESS.exact_error
    return PhaseRun(success, found is not None and not success and found.certificate.verdict == "verified", seconds)


PHASE = Study(
    "relu-phase", "Exact recovery of ReLU networks with biases over units per input and samples",
    "The samples needed grow in proportion to the number of units, below and beyond the dimension alike.",
    quick=PhaseGrid((4, 8, 16, 24), (125, 250, 500, 1000, 2000)),
    full=PhaseGrid((2, 4, 6, 8, 12, 16, 20, 24, 28, 32), (250, 500, 1000, 2000, 4000, 8000, 16_000)), seeds=5,
    cells=lambda grid: cross(PhaseCell, grid.widths, grid.samples, PHASE_ARMS), run_cell=phase_once,
    table=table(
        "width", units_per_input=lambda cell, runs: cell.width / cell.dim, samples=col.field("samples"),
        method=col.field("method"), exact=col.total("success"), runs=col.count, verified_but_wrong=col.total("wrong"),
        median_s=col.median("seconds")),
    sentence=lambda m: f"Exact recoveries over all cells: {col.tally(m.rows, 'method')}.",
    figure=lambda m: RatesFigure(
        col.rate_maps(m.rows, "method", lambda row: row.exact / row.runs, (len(m.grid.widths), len(m.grid.samples))),
        m.grid.widths, m.grid.samples, row="units (d = 8)"))
"""How many samples do ReLU networks with biases take, over the ratio of units to inputs? 8 inputs. A run succeeds if every
weight, bias and readout is within 1e-10 of the truth, signs included."""
