"""Recovery near the counting limit: how few samples suffice, for how much computing time?

Noiseless networks d-m-1, x ~ N(0, I), the width given, n samples. A ReLU network has m(d + 1) + 1 degrees of freedom (parameters
minus hidden units), tanh m(d + 2) + 1; below one sample for each nothing can be recovered. Three searches in the same model,
without signs, each until it fits the data to rounding or its CPU seconds are spent: hops at exact width (`search/hops.py`), the
over-wide search of version 0.2 with spares and repairs, again and again, and the control: random starts at exact width. A run
is right if every parameter is within 1e-8 of the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, relu, tanh
from laybare.assembly.sign_decoding import restore_signs, sign_free_model
from laybare.errors import TooFewSamples
from laybare.networks import Network, compare
from laybare.numerics.shapes import Event
from laybare.planted import random_network
from laybare.report.study_figures import LinesFigure, Panel
from laybare.search.hops import search_by_hops
from laybare.search.settings import SearchContext
from laybare.search.wide import search_with_spares
from laybare.solver import FitInterrupted
from laybare.solver.point import FittedPoint, network_of
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, cross, gaussian_samples, table


class FewGrid(NamedTuple):
    """Activations, inputs, units per input, samples per degree of freedom, and the CPU seconds of a run."""

    activation: tuple[str, ...]
    dim: tuple[int, ...]
    per_input: tuple[float, ...]
    per_degree: tuple[float, ...]
    seconds: float


class FewCell(NamedTuple):
    """A place of the grid, an arm, and its CPU seconds."""

    activation: str
    dim: int
    units_per_input: float
    samples_per_degree: float
    arm: str
    seconds: float

    @property
    def width(self) -> int:
        return max(1, round(self.units_per_input * self.dim))

    @property
    def degrees_of_freedom(self) -> int:
        return self.width * (self.dim + 1 + (ACTIVATIONS[self.activation].degree is None)) + 1

    @property
    def samples(self) -> int:
        return int(self.samples_per_degree * self.degrees_of_freedom)


class FewRun(NamedTuple):
    """Whether every parameter is right, and the CPU seconds."""

    right: bool
    cpu: float


ACTIVATIONS: dict[str, Activation] = {"relu": relu, "tanh": tanh}
HOPS, OVERWIDE, RESTARTS = "hops", "over-wide", "random starts"
UNENDING = 10**9
"""Hops that no run makes: time ends them. Convention: a number for "no limit"."""


def _restart(context: SearchContext, width: int) -> FittedPoint:
    return context.minimise(context.start(context.draw_units(width)))


ARMS: dict[str, Callable[[SearchContext, int], FittedPoint]] = {
    HOPS: lambda context, width: search_by_hops(context, context.draw_units(width), UNENDING),
    OVERWIDE: search_with_spares,
    RESTARTS: _restart}
"""Each is called again until it fits the data or time ends."""


def search_until(cell: FewCell, seed: int) -> FewRun:
    """Plant a network, search until the data are fitted or time ends, compare."""
    activation, width = ACTIVATIONS[cell.activation], cell.width
    rng = np.random.default_rng([seed, cell.dim, width, cell.samples])
    truth = random_network(
        cell.dim, width, activation=activation, biases=0.5, bias_law="normal", readout="random", rng=rng)
    source = gaussian_samples(truth, cell.dim, cell.samples, rng)
    end = time.process_time() + cell.seconds

    def stop(event: Event) -> None:
        if event.stage == "refining" and time.process_time() > end:
            raise KeyboardInterrupt

    context = SearchContext.of(source, sign_free_model(activation, biases=True), rng=rng, progress=stop)
    right = False
    while not right and time.process_time() < end:
        try:
            found = ARMS[cell.arm](context, width)
        except TooFewSamples:
            break
        except FitInterrupted:
            if time.process_time() >= end:
                break
            raise  # not by the end of its time
        right = context.is_solved(found) and _is_right(found, activation, truth)
    return FewRun(right, min(cell.seconds, cell.seconds - (end - time.process_time())))


def _is_right(found: FittedPoint, activation: Activation, truth: Network) -> bool:
    network = network_of(found.point, vector=True)
    decoded = restore_signs(network, activation).network if found.point.linear else network
    return bool(compare(decoded, truth).max_error < SUCCESS.read_error)


def _cells(grid: FewGrid) -> list[FewCell]:
    return cross(FewCell, grid.activation, grid.dim, grid.per_input, grid.per_degree, ARMS, [grid.seconds])


def _place(row: tuple[str, int, float]) -> str:
    activation, dim, per_input = row
    return f"{activation} {dim}-{max(1, round(per_input * dim))}-1"


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
    """The half line of every arm, the median over networks."""
    lines: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for (*_, arm), rows in col.group_rows(m.rows, "activation", "dim", "units_per_input", "arm").items():
        lines[arm].append(half_line([(row.samples_per_degree, row.right / row.runs) for row in rows]))
    parts = ", ".join(
        f"{arm} {np.median(values):.2f} (lowest {min(values):.2f})" if np.isfinite(np.median(values)) else
        f"{arm} beyond {max(m.grid.per_degree):g} for most networks (lowest {min(values):.2f})" for arm, values in lines.items())
    return (
        f"Samples per degree of freedom from which on half of the networks are recovered within {m.grid.seconds:g} CPU seconds, "
        f"median over sizes: {parts}. The counting limit is 1.")


def _figure(m: StudyMeasurement) -> LinesFigure:
    panels = [
        Panel(_place(key), "samples per degree of freedom", "share recovered", col.curves(
            rows, "arm", "samples_per_degree", "share"), "")
        for key, rows in col.group_rows(m.rows, "activation", "dim", "units_per_input").items()]
    return LinesFigure(panels, "Share of networks recovered over samples per degree of freedom, by size and search")


PHASE_DIAGRAM = Study(
    "phase", "Recovery over samples per degree of freedom, units per input and inputs: hops, spares, random starts",
    "One sample per degree of freedom is the limit; hops at exact width come nearer to it than a search with spare units.",
    quick=FewGrid(("relu",), (10,), (0.5, 1.0), (1.25, 1.5, 2.0, 3.0), 3.0),
    full=FewGrid(("relu", "tanh"), (5, 10, 20, 30), (0.25, 0.5, 1.0, 2.0, 5.0), (1.1, 1.25, 1.5, 2.0, 3.0, 5.0), 60.0), seeds=4,
    cells=_cells, run_cell=search_until,
    table=table(
        "activation", "dim", "units_per_input", "samples_per_degree", "arm", width=col.field("width"),
        samples=col.field("samples"), right=col.total("right"), runs=col.count,
        share=lambda cell, runs: sum(run.right for run in runs) / len(runs), median_cpu_s=col.median("cpu")),
    sentence=_sentence, figure=_figure)
"""Teachers: unit rows, biases 0.5 N(0, 1), |readout| uniform in [0.5, 1.5] with random signs, noiseless, all n samples fitted.
Results depend on the speed of the machine: they are shares within a number of CPU seconds."""
