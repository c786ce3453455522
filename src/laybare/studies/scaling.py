"""How time, passes and memory of a whole recovery grow with rows, inputs and units; certificate included, the width told.

Teachers as drawn by `random_network`, noise of a tenth of sd(y), x ~ N(0, I). From two million rows on the data lie in a memory-
mapped file. Memory is that by which the process grows beyond its rows in memory, as far as Python knows of it.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from laybare.networks import compare
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array, Event
from laybare.source import Samples, Schedule
from laybare.studies.study import Study, StudyResult, headings, over

NOISE = 0.1
MAPPED = 2_000_000
"""Rows from which the data lie in a file."""

BLOCK = 200_000


class ScalingCell(NamedTuple):
    """What grows, and the size of the problem."""

    axis: str
    rows: int
    dim: int
    width: int


class ScalingGrid(NamedTuple):
    """Values along each axis; the others stay at the first of theirs."""

    rows: tuple[int, ...]
    dims: tuple[int, ...]
    widths: tuple[int, ...]
    middle: tuple[int, int, int] = (20_000, 20, 10)

    def cells(self) -> list[ScalingCell]:
        n, d, m = self.middle
        return [
            *(ScalingCell("rows", rows, d, m) for rows in self.rows), *(ScalingCell("dim", n, dim, m) for dim in self.dims),
            *(ScalingCell("width", n, d, width) for width in self.widths)]


class ScalingRun(NamedTuple):
    """Seconds, passes over blocks of all rows, bytes, largest error, verdict."""

    seconds: float
    blocks: int
    memory: int
    error: float
    verified: bool


class ScalingRow(NamedTuple):
    """A row of the table."""

    axis: str
    rows: int
    dim: int
    width: int
    runs: int
    verified: int
    median_s: float
    microseconds_per_row: float
    blocks_read: float
    memory_mb: float
    largest_error: float


def run_once(cell: ScalingCell, seed: int) -> ScalingRun:
    """Plant, recover, measure."""
    rng = np.random.default_rng([seed, *cell[1:]])
    truth = random_network(cell.dim, cell.width, rng=rng)
    blocks = 0

    def count(event: Event) -> None:
        nonlocal blocks
        blocks += 1

    with tempfile.TemporaryDirectory() as folder:
        x, y = _data(cell, Path(folder))
        for start in range(0, cell.rows, BLOCK):
            part = slice(start, min(start + BLOCK, cell.rows))
            x[part] = rng.standard_normal((part.stop - start, cell.dim))
            clean = truth(np.asarray(x[part]))
            y[part] = clean + NOISE * clean.std() * rng.standard_normal(len(clean))
        source = Samples(x, y, schedule=Schedule(progress=count))
        tracemalloc.start()
        begun = time.perf_counter()
        found = recover(source, width=cell.width, rng=rng)
        seconds, peak = time.perf_counter() - begun, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return ScalingRun(
        seconds, blocks, peak, compare(found.network, truth).max_error, found.certificate.verdict == "verified")


def _data(cell: ScalingCell, folder: Path) -> tuple[Array, Array]:
    if cell.rows < MAPPED:
        return np.empty((cell.rows, cell.dim)), np.empty(cell.rows)
    return (
        np.lib.format.open_memmap(folder / "x.npy", "w+", np.float64, (cell.rows, cell.dim)),
        np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (cell.rows,)))


def summary(grid: ScalingGrid, runs: Mapping[ScalingCell, list[ScalingRun]]) -> StudyResult:
    """Medians, and the exponents of time, blocks read and memory along each axis."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    parts = [
        f"{axis} {', '.join(f'{exponent(axis, rows, grown):.2f}' for grown in ('median_s', 'blocks_read', 'memory_mb'))}"
        for axis in ("rows", "dim", "width") if _along(axis, rows)]
    return StudyResult(
        headings(ScalingRow), rows, f"Exponents of time, blocks read and memory: {'; '.join(parts)}.", _figure(rows))


def _row(cell: ScalingCell, runs: Sequence[ScalingRun]) -> ScalingRow:
    seconds = float(np.median([run.seconds for run in runs]))
    return ScalingRow(
        *cell, len(runs), sum(run.verified for run in runs), seconds, 1e6 * seconds / cell.rows,
        float(np.mean([run.blocks for run in runs])), max(run.memory for run in runs) / 1e6, max(run.error for run in runs))


def _along(axis: str, rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    return sorted((row for row in rows if row.axis == axis), key=lambda row: float(getattr(row, axis)))


def exponent(axis: str, rows: Sequence[ScalingRow], grown: str = "median_s") -> float:
    """Slope of the logarithm of what is measured, seconds for example, against that of what grows."""
    own = _along(axis, rows)
    x, y = (np.log([float(getattr(row, name)) for row in own]) for name in (axis, grown))
    return float(np.polyfit(x, y, 1)[0]) if len(own) > 1 else float("nan")


def _figure(rows: Sequence[ScalingRow]) -> LinesFigure:
    panels = []
    for axis in ("rows", "dim", "width"):
        own = _along(axis, rows)
        x = [float(getattr(row, axis)) for row in own]
        panels.append(Panel(axis, axis, "", [
            Curve("seconds", x, [row.median_s for row in own]), Curve("megabytes", x, [row.memory_mb for row in own]),
            Curve("hundreds of blocks read", x, [row.blocks_read / 100 for row in own])], "xy"))
    return LinesFigure(panels, "Time, memory and passes of a recovery against rows, inputs and units")


SCALING = Study(
    "scaling", "Time, passes and memory of a recovery against rows, inputs and units",
    "Time grows no faster than the rows, and memory not at all beyond what is kept.",
    ScalingGrid((10_000, 30_000, 100_000), (10, 20, 40), (5, 10, 20)),
    ScalingGrid((10_000, 100_000, 1_000_000, 10_000_000), (10, 20, 50, 100, 200), (5, 10, 20, 50)),
    over(ScalingGrid.cells, run_once), summary)
