"""Recovery near the counting limit: how few samples suffice, for how much computing time?

Networks d-m-1, x ~ N(0, I), the width given, n samples. A ReLU network has m(d + 1) + 1 degrees of freedom (parameters minus
hidden units; Grillo and Montúfar 2026), tanh m(d + 2) + 1. Squares without biases are a symmetric matrix Σ aᵢ wᵢwᵢᵀ of rank m,
md - m(m - 1)/2 numbers if m < d, d(d + 1)/2 else, and an offset; of these networks alone theory knows the limit: as many samples
as degrees of freedom, n/d² = κ - κ²/2 for κ = m/d up to 1, and 1/2 beyond (Maillard et al. 2024). Below it nothing can be found.

Three searches in the same model, without signs, each until it fits the data to rounding or its CPU seconds are spent: hops at
exact width (`search/hops.py`), the over-wide search of version 0.2 with spares and repairs, again and again, and the control:
random starts at exact width. A run is right if every parameter is within 1e-8 of the truth; for squares, whose rows rotate, if
fresh outputs are. With noise (a share of the spread of y) it is right if it fits as well, up to a thousandth, as a fit that
begins at the truth; its error at fresh inputs is compared with the Cramér-Rao floor σ² P/n of P degrees of freedom.

`near-limit` asks the same of `recover` as it is called: named networks, the width given or not, every parameter within 1e-10,
and beside each run the two other searches on the same data for the CPU seconds that it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, leaky_relu, relu, tanh
from laybare.assembly.sign_decoding import restore_signs, sign_free_model
from laybare.errors import TooFewSamples
from laybare.networks import Network, compare, sign_free
from laybare.numerics.shapes import Event, Progress
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.search.hops import search_by_hops
from laybare.search.settings import SearchContext
from laybare.search.wide import search_with_spares
from laybare.solver import FitInterrupt
from laybare.solver.point import FittedPoint, Model, network_of, point_of
from laybare.source import Gaussian, Samples
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Settings, Study, StudyMeasurement, cross, run_cells, table

SQUARE = Activation.custom("square", np.square, lambda t: 2.0 * t, degree=2, parity="even")
ACTIVATIONS: dict[str, Activation] = {"relu": relu, "leaky relu": leaky_relu(0.1), "tanh": tanh, "square": SQUARE}
HOPS, OVERWIDE, RESTARTS = "hops", "over-wide", "random starts"
UNENDING = 10**9
"""Hops that no run makes: time ends them. Convention: a number for "no limit"."""
NOISY_HOPS = 60
"""Hops of a run with noise, where none fits exactly. Checked by `laybare reproduce phase`: most have ended by then."""
AS_GOOD = 1e-3
"""Relative difference of losses that is none: kinks make the loss rough. Checked by `laybare reproduce phase`."""
FRESH_ROWS = 4000
"""Rows at which outputs are compared. Derived: their mean of squares is known to a few percent."""


class FewGrid(NamedTuple):
    """Activations, inputs, units per input, samples per degree of freedom, noise, and the CPU seconds of a run."""

    activation: tuple[str, ...]
    dim: tuple[int, ...]
    per_input: tuple[float, ...]
    per_degree: tuple[float, ...]
    noise: tuple[float, ...]
    seconds: float


class FewCell(NamedTuple):
    """A place of the grid, an arm, and its CPU seconds; `noise` in standard deviations of y."""

    activation: str
    dim: int
    units_per_input: float
    samples_per_degree: float
    noise: float
    arm: str
    seconds: float

    @property
    def width(self) -> int:
        return max(1, round(self.units_per_input * self.dim))

    @property
    def degrees_of_freedom(self) -> int:
        d, m = self.dim, self.width
        if self.activation == "square":
            return (m * d - m * (m - 1) // 2 if m < d else d * (d + 1) // 2) + 1
        return m * (d + 1 + (ACTIVATIONS[self.activation].degree is None)) + 1

    @property
    def samples(self) -> int:
        return int(self.samples_per_degree * self.degrees_of_freedom)

    @property
    def model(self) -> Model:
        """What all arms fit."""
        if self.activation == "square":
            return Model(SQUARE, biases=False)
        return sign_free_model(ACTIVATIONS[self.activation], biases=True)

    def plant(self, rng: Generator) -> Network:
        biases = 0.0 if self.activation == "square" else 0.5
        return random_network(
            self.dim, self.width, activation=ACTIVATIONS[self.activation], biases=biases, bias_law="normal", readout="random",
            rng=rng)


class FewRun(NamedTuple):
    """Whether it is right, the CPU seconds, and the squared error at fresh inputs over the Cramér-Rao floor (NaN: no noise)."""

    right: bool
    cpu: float
    over_floor: float = np.nan


def _restart(context: SearchContext, width: int, hops: int) -> FittedPoint:
    return context.minimise(context.start(context.draw_units(width)))


ARMS: dict[str, Callable[[SearchContext, int, int], FittedPoint]] = {
    HOPS: lambda context, width, hops: search_by_hops(context, context.draw_units(width), hops),
    OVERWIDE: lambda context, width, hops: search_with_spares(context, width),
    RESTARTS: _restart}
"""Each is called again until it fits the data or time ends; with noise random starts alone, the others once."""


class PlantedData(NamedTuple):
    """A network, rows drawn from it, the noise in them, and the generator that goes on."""

    truth: Network
    source: Samples
    sigma: float
    rng: Generator


def draw_data(cell: FewCell, seed: int) -> PlantedData:
    """The same for every arm of a cell."""
    rng = np.random.default_rng([seed, cell.dim, cell.width, cell.samples])
    truth = cell.plant(rng)
    x = rng.standard_normal((cell.samples, cell.dim))
    y = truth(x)
    sigma = cell.noise * float(y.std())
    source = Samples(x, y + sigma * rng.standard_normal(len(y)) if sigma else y, law=Gaussian(0, 1))
    return PlantedData(truth, source, sigma, rng)


def _stop_at(end: float) -> Progress:
    """A listener that interrupts after this much CPU time of the process."""
    def stop(event: Event) -> None:
        if event.stage == "refining" and time.process_time() > end:
            raise KeyboardInterrupt

    return stop


def search_until(cell: FewCell, seed: int) -> FewRun:
    """Plant a network, search until the data are fitted or time ends, compare."""
    truth, source, sigma, rng = draw_data(cell, seed)
    end = time.process_time() + cell.seconds
    context, best = SearchContext.of(source, cell.model, rng=rng, progress=_stop_at(end)), None
    while time.process_time() < end:
        found = _call_arm(context, cell, end)
        if found is not None and (best is None or found.loss < best.loss):
            best = found
        if found is None or context.is_solved(found) or (sigma and cell.arm != RESTARTS):
            break
    cpu = min(cell.seconds, cell.seconds - (end - time.process_time()))
    if best is None:
        return FewRun(False, cpu)
    if not sigma:
        return FewRun(context.is_solved(best) and _is_right(best, cell, truth, rng), cpu)
    floor = sigma**2 * cell.degrees_of_freedom / cell.samples
    return FewRun(_fits_as_truth(context, best, truth), cpu, _squared_error(best, truth, rng) / floor)


def _call_arm(context: SearchContext, cell: FewCell, end: float) -> FittedPoint | None:
    """What an arm finds until its time ends; None if there are too few samples for it."""
    try:
        return ARMS[cell.arm](context, cell.width, NOISY_HOPS if cell.noise else UNENDING)
    except TooFewSamples:
        return None
    except FitInterrupt as stop:
        if time.process_time() < end:
            raise  # not by the end of its time
        best: FittedPoint = stop.best
        return best


def _is_right(found: FittedPoint, cell: FewCell, truth: Network, rng: Generator) -> bool:
    if cell.activation == "square":
        x = rng.standard_normal((FRESH_ROWS, cell.dim))
        return _squared_error(found, truth, rng) < SUCCESS.read_error**2 * float(np.var(truth(x)))
    network = network_of(found.point, vector=True)
    decoded = restore_signs(network, truth.activation).network if found.point.linear else network
    return bool(compare(decoded, truth).max_error < SUCCESS.read_error)


def _squared_error(found: FittedPoint, truth: Network, rng: Generator) -> float:
    """Mean of squares of differences of outputs at fresh inputs."""
    x = rng.standard_normal((FRESH_ROWS, truth.dim))
    return float(np.mean((network_of(found.point, vector=True)(x) - truth(x)) ** 2))


def _fits_as_truth(context: SearchContext, found: FittedPoint, truth: Network) -> bool:
    """Whether the loss is that of a fit from the truth, or lower."""
    model = context.model
    start = sign_free(truth) if model.linear else truth
    point = point_of(start, biases=model.biases, offset=True, linear=model.linear)
    return found.loss <= (1.0 + AS_GOOD) * context._replace(progress=None).minimise(point).loss


def _cells(grid: FewGrid) -> list[FewCell]:
    return cross(FewCell, grid.activation, grid.dim, grid.per_input, grid.per_degree, grid.noise, ARMS, [grid.seconds])


def _place(row: tuple[str, int, float, float]) -> str:
    activation, dim, per_input, noise = row
    return f"{activation} {dim}-{max(1, round(per_input * dim))}-1" + (f", noise {noise:g}" if noise else "")


def half_line(rows: list[tuple[float, float]]) -> float:
    """The least number of samples per degree of freedom from which on at least half of the runs are right, interpolated; infinite
    if there is none. `rows`: samples per degree of freedom and share, in ascending order."""
    line, below = np.inf, None
    for ratio, share in rows:
        if share < 0.5:
            line, below = np.inf, (ratio, share)
        elif not np.isfinite(line):
            line = ratio if below is None else below[0] + (0.5 - below[1]) / (share - below[1]) * (ratio - below[0])
    return float(line)


def _sentence(m: StudyMeasurement) -> str:
    """The half line of every arm, the median over networks, without and with noise."""
    parts = []
    for noise in m.grid.noise:
        lines: dict[str, list[float]] = {arm: [] for arm in ARMS}
        for (*_, arm, of), rows in col.group_rows(m.rows, "activation", "dim", "units_per_input", "arm", "noise").items():
            if of == noise:
                lines[arm].append(half_line([(row.samples_per_degree, row.right / row.runs) for row in rows]))
        ends = ", ".join(_half_line_text(arm, values, max(m.grid.per_degree)) for arm, values in lines.items())
        parts.append(f"{'noiseless' if not noise else f'noise {noise:g} sd(y)'}: {ends}")
    return (
        f"Samples per degree of freedom from which on half of the searches end well within {m.grid.seconds:g} CPU seconds, "
        "median over sizes. Without noise that is the network itself, with noise a fit as good as one from the truth, however "
        f"far from it (over floor); {'; '.join(parts)}. The counting limit is 1.")


def _half_line_text(arm: str, lines: list[float], most: float) -> str:
    if np.isfinite(np.median(lines)):
        return f"{arm} {np.median(lines):.2f} (lowest {min(lines):.2f})"
    return f"{arm} beyond {most:g} for most networks (lowest {min(lines):.2f})"


def _figure(m: StudyMeasurement) -> LinesFigure:
    limit = Curve("counting limit", (1.0, 1.0), (0.0, 1.0), dashed=True)
    panels = [
        Panel(_place(key), "samples per degree of freedom", "share recovered", [
            *col.curves(rows, "arm", "samples_per_degree", "share"), limit], "")
        for key, rows in col.group_rows(m.rows, "activation", "dim", "units_per_input", "noise").items()]
    return LinesFigure(panels, "Share of networks recovered over samples per degree of freedom, by size and search")


PHASE_DIAGRAM = Study(
    "phase", "Recovery over samples per degree of freedom, units per input and inputs: hops, spares, random starts",
    "One sample per degree of freedom is the limit; hops at exact width come nearer to it than a search with spare units.",
    quick=FewGrid(("relu", "tanh", "square"), (10,), (0.5,), (1.1, 1.5, 2.0, 3.0), (0.0, 0.1), 2.0),
    full=FewGrid(
        ("relu", "tanh", "square"), (5, 10, 20, 30), (0.25, 0.5, 1.0, 2.0, 5.0), (1.1, 1.25, 1.5, 2.0, 3.0, 5.0), (0.0, 0.1),
        60.0), seeds=4,
    cells=_cells, run_cell=search_until,
    table=table(
        "activation", "dim", "units_per_input", "samples_per_degree", "noise", "arm", width=col.field("width"),
        samples=col.field("samples"), right=col.total("right"), runs=col.count,
        share=lambda cell, runs: sum(run.right for run in runs) / len(runs),
        over_floor=lambda cell, runs: col.median("over_floor")(cell, runs) if cell.noise else "",
        median_cpu_s=col.median("cpu")),
    sentence=_sentence, figure=_figure)
"""Teachers: unit rows, biases 0.5 N(0, 1) (none for squares), |readout| uniform in [0.5, 1.5] with random signs, all n samples
fitted. Results depend on the speed of the machine: they are shares within a number of CPU seconds."""


class LimitCell(NamedTuple):
    """A network d-m-1 and its samples per degree of freedom, whether the width is given, the CPU seconds of a run, the
    number of seeds at most."""

    activation: str
    dim: int
    width: int
    samples_per_degree: float
    width_given: str
    seconds: float
    most_seeds: int = 20

    def arm(self, name: str, seconds: float) -> FewCell:
        return FewCell(self.activation, self.dim, self.width / self.dim, self.samples_per_degree, 0.0, name, seconds)


class LimitRun(NamedTuple):
    """Whether `recover` is right and verified, its CPU seconds, and whether the others are right within as many."""

    right: bool
    verified: bool
    cpu: float
    overwide: bool
    restarts: bool


CONTROL_SECONDS = (1.0, 3.0)
"""CPU seconds of the other searches, at least and at most. Convention: that of `recover`, as far as many seeds can be run."""


def recover_near_limit(cell: LimitCell, seed: int) -> LimitRun:
    """`recover` as it is called, and the other searches on the same data at equal time."""
    given = cell.arm(HOPS, cell.seconds)
    truth, source, *_ = draw_data(given, seed)
    begun = time.process_time()
    found = recover(
        source, width=cell.width if cell.width_given == "yes" else None,
        activation=None if cell.width_given == "no" else truth.activation, progress=_stop_at(begun + cell.seconds),
        seconds=np.inf)  # of the clock: the cell's are of the process
    cpu = time.process_time() - begun
    right = found.network.width == cell.width and compare(found.network, truth).max_error < SUCCESS.exact_error
    equal = float(np.clip(cpu, *CONTROL_SECONDS))
    others = (search_until(cell.arm(arm, equal), seed).right for arm in (OVERWIDE, RESTARTS))
    return LimitRun(bool(right), found.certificate.verdict == "verified", cpu, *others)


def _measure_networks(settings: Settings[tuple[LimitCell, ...]]) -> dict[LimitCell, list[LimitRun]]:
    """Every network with at most `most_seeds` seeds."""
    runs: dict[LimitCell, list[LimitRun]] = {}
    for cell in settings.grid:
        runs |= run_cells(settings.first(cell.most_seeds), [cell], recover_near_limit)
    return runs


def _limit_sentence(m: StudyMeasurement) -> str:
    parts = (
        f"{row.activation} {row.dim}-{row.width}-1 at {row.samples_per_degree:g}"
        f"{', width not given' * (row.width_given == 'no')}: {row.right} of {row.runs} "
        f"(spares {row.over_wide}, random starts {row.random_starts})" for row in m.rows)
    wrong = sum(run.verified and not run.right for run in m.all_runs)
    return f"Recovered to 1e-10 in every parameter: {'; '.join(parts)}. Verified and wrong: {wrong}."


_QUICK_NETWORKS = (
    LimitCell("relu", 20, 10, 2.0, "yes", 60.0), LimitCell("relu", 10, 5, 2.0, "yes", 60.0),
    LimitCell("relu", 10, 20, 2.0, "yes", 60.0), LimitCell("relu", 20, 10, 2.5, "no", 60.0))
_SLOW_NETWORKS = (
    LimitCell("relu", 20, 10, 1.5, "yes", 60.0), LimitCell("relu", 10, 50, 3.0, "yes", 60.0),
    LimitCell("relu", 10, 50, 4.0, "no", 600.0, 5), LimitCell("relu", 30, 30, 2.0, "yes", 600.0, 10),
    LimitCell("tanh", 20, 10, 3.0, "yes", 60.0, 10), LimitCell("leaky relu", 20, 10, 3.0, "yes", 60.0, 10))

NEAR_LIMIT = Study(
    "near-limit", "Networks recovered by `recover` near the counting limit, beside spares and random starts at equal time",
    "Noiseless ReLU networks are recovered from two samples per degree of freedom, often from 1.5, within a minute.",
    quick=_QUICK_NETWORKS, full=_QUICK_NETWORKS + _SLOW_NETWORKS, measure_grid=_measure_networks,
    table=table(
        "activation", "dim", "width", "samples_per_degree", "width_given",
        samples=lambda cell, runs: cell.arm(HOPS, cell.seconds).samples, right=col.total("right"), runs=col.count,
        verified=col.total("verified"), median_cpu_s=col.median("cpu"), largest_cpu_s=col.reduced(max, "cpu"),
        over_wide=col.total("overwide"), random_starts=col.total("restarts")),
    sentence=_limit_sentence)
"""Teachers as in `phase`. The networks that `full` has besides take minutes each."""
