"""How time, passes and memory of a whole recovery grow with rows, inputs and units; certificate included, the width given.

Teachers as drawn by `random_network`, noise of a tenth of sd(y), x ~ N(0, I). From two million rows on the data lie in a memory-
mapped file. Memory is that by which the process grows beyond its rows in memory, as far as Python knows of it.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.networks import Network, compare
from laybare.numerics.shapes import Array, Event
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.study_figures import Curve, LinesFigure, Panel
from laybare.source import Samples, Schedule
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, table


class ScalingCell(NamedTuple):
    """What grows, and the size of the problem; rows from which the data lie in a file, and rows drawn at a time."""

    axis: str
    rows: int
    dim: int
    width: int
    mapped: int = 2_000_000
    block: int = 200_000

    def draw(self, truth: Network, folder: Path, rng: Generator, noise: float = 0.1) -> tuple[Array, Array]:
        """Inputs and noisy outputs, in memory or in `folder`."""
        if self.rows < self.mapped:
            x, y = np.empty((self.rows, self.dim)), np.empty(self.rows)
        else:
            x, y = (
                np.lib.format.open_memmap(folder / name, "w+", np.float64, shape)
                for name, shape in (("x.npy", (self.rows, self.dim)), ("y.npy", (self.rows,))))
        for start in range(0, self.rows, self.block):
            part = slice(start, min(start + self.block, self.rows))
            x[part] = rng.standard_normal((part.stop - start, self.dim))
            clean = truth(np.asarray(x[part]))
            y[part] = clean + noise * clean.std() * rng.standard_normal(len(clean))
        return x, y


class ScalingGrid(NamedTuple):
    """Values along each axis; the others stay at those of `middle`."""

    rows: tuple[int, ...]
    dims: tuple[int, ...]
    widths: tuple[int, ...]
    middle: tuple[int, int, int] = (20_000, 20, 10)


class ScalingRun(NamedTuple):
    """Seconds, passes over blocks of all rows, bytes, largest error, verdict."""

    seconds: float
    blocks: int
    memory: int
    error: float
    verified: bool


def cells(grid: ScalingGrid) -> list[ScalingCell]:
    """One quantity moves at a time."""
    n, d, m = grid.middle
    return [
        *(ScalingCell("rows", rows, d, m) for rows in grid.rows), *(ScalingCell("dim", n, dim, m) for dim in grid.dims),
        *(ScalingCell("width", n, d, width) for width in grid.widths)]


def run_once(cell: ScalingCell, seed: int) -> ScalingRun:
    """Plant, recover, measure."""
    rng = np.random.default_rng([seed, cell.rows, cell.dim, cell.width])
    truth = random_network(cell.dim, cell.width, rng=rng)
    blocks = 0

    def count(event: Event) -> None:
        nonlocal blocks
        blocks += 1

    with tempfile.TemporaryDirectory() as folder:
        source = Samples(*cell.draw(truth, Path(folder), rng), schedule=Schedule(progress=count))
        tracemalloc.start()
        begun = time.perf_counter()
        found = recover(source, width=cell.width, rng=rng)
        seconds, peak = time.perf_counter() - begun, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return ScalingRun(
        seconds, blocks, peak, compare(found.network, truth).max_error, found.certificate.verdict == "verified")


def _along(axis: str, rows: Sequence[Any]) -> list[Any]:
    return sorted((row for row in rows if row.axis == axis), key=lambda row: float(getattr(row, axis)))


def growth_exponent(axis: str, rows: Sequence[Any], grown: str = "median_s") -> float:
    """Slope of the logarithm of what is measured, seconds for example, against that of what grows."""
    own = _along(axis, rows)
    x, y = (np.log([float(getattr(row, name)) for row in own]) for name in (axis, grown))
    return float(np.polyfit(x, y, 1)[0]) if len(own) > 1 else float("nan")


def _sentence(m: StudyMeasurement) -> str:
    measured = ("median_s", "blocks_read", "memory_mb")
    parts = [
        f"{axis} {', '.join(f'{growth_exponent(axis, m.rows, grown):.2f}' for grown in measured)}"
        for axis in ("rows", "dim", "width") if _along(axis, m.rows)]
    return f"Exponents of time, blocks read and memory: {'; '.join(parts)}."


def _figure(m: StudyMeasurement) -> LinesFigure:
    panels = []
    for axis in ("rows", "dim", "width"):
        own = _along(axis, m.rows)
        x = [float(getattr(row, axis)) for row in own]
        panels.append(Panel(axis, axis, "", [
            Curve("seconds", x, col.values(own, "median_s")), Curve("megabytes", x, col.values(own, "memory_mb")),
            Curve("hundreds of blocks read", x, [row.blocks_read / 100 for row in own])], "xy"))
    return LinesFigure(panels, "Time, memory and passes of a recovery against rows, inputs and units")


SCALING = Study(
    "scaling", "Time, passes and memory of a recovery against rows, inputs and units",
    "Time grows no faster than the rows, and memory not at all beyond what is kept.",
    quick=ScalingGrid((10_000, 30_000, 100_000), (10, 20, 40), (5, 10, 20)),
    full=ScalingGrid((10_000, 100_000, 1_000_000, 10_000_000), (10, 20, 50, 100, 200), (5, 10, 20, 50)),
    cells=cells, run_cell=run_once,
    table=table(
        "axis", "rows", "dim", "width", runs=col.count, verified=col.total("verified"), median_s=col.median("seconds"),
        microseconds_per_row=lambda cell, runs: 1e6 * float(np.median(col.values(runs, "seconds"))) / cell.rows,
        blocks_read=col.reduced(np.mean, "blocks"), memory_mb=lambda cell, runs: max(col.values(runs, "memory")) / 1e6,
        largest_error=col.reduced(max, "error")),
    sentence=_sentence, figure=_figure)
