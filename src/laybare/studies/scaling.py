"""How recovery scales: time and memory, samples per parameter, large networks.

How time, passes and memory of a whole recovery grow with rows, inputs and units; certificate included, the width given.

Teachers as drawn by `random_network`, noise of a tenth of sd(y), x ~ N(0, I). From two million rows on the data lie in a memory-
mapped file. Memory is that by which the process grows beyond its rows in memory, as far as Python knows of it.

RandomStart: how many samples does it need, and how large may the network be?

Random directions, spare units, repair and pruning against plain restarts of nothing; and matrix-free Gauss-Newton at the size of
a small image classifier.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import absolute, relu
from laybare.assembly.sign_decoding import restore_signs
from laybare.decomposition import joint_diagonalisation, loadings
from laybare.methods import RandomStart
from laybare.moments import Residual, fit_hermite, projected_tensors, refine_subspace
from laybare.networks import Network, compare
from laybare.numerics.shapes import Array, Event
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.search.settings import Search, SearchContext
from laybare.search.wide import search_with_spares
from laybare.solver.minimise import minimise
from laybare.solver.point import FittedPoint, Model, network_of
from laybare.source import Samples, Schedule, Source
from laybare.source.problem import total_variation
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, cross, gaussian_samples, table

SEARCHES = {
    "exact width, one run": Search(spares=0, hops=0),
    "exact width, 8 repairs": Search(spares=0, hops=8),
    "spares, 8 repairs": Search(hops=8),
}


class OverwideCell(NamedTuple):
    """A planted problem and an arm: input dimension, hidden units, samples, name of the arm."""

    dim: int
    width: int
    samples: int
    arm: str


OverwideGrid = tuple[tuple[int, int, int], ...]
"""Sizes: dim, width, samples."""


class OverwideRun(NamedTuple):
    """One recovery: the largest parameter error, the verdict, seconds."""

    error: float
    verdict: str
    seconds: float

    @property
    def exact(self) -> bool:
        return self.error < SUCCESS.exact_error


def parameters(dim: int, width: int) -> int:
    """P: weights, biases and readouts, and the offset."""
    return width * (dim + 2) + 1


def overwide_cells(grid: OverwideGrid) -> list[OverwideCell]:
    """Every arm at every size."""
    return [OverwideCell(*size, arm) for size in grid for arm in SEARCHES]


def recover_once(cell: OverwideCell, seed: int) -> OverwideRun:
    """Plant a network, recover it with the width given, compare."""
    dim, width, samples, arm = cell
    rng = np.random.default_rng([seed, dim, width, samples])
    truth = random_network(dim, width, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((samples, dim))
    search = replace(SEARCHES[arm], spares=SEARCHES[arm].count_spares(width))  # given: no hops in their place
    begun = time.perf_counter()
    found = recover(Samples(x, truth(x)), RandomStart(search=search), width, rng=rng)
    seconds = time.perf_counter() - begun
    return OverwideRun(compare(found.network, truth).max_error, found.certificate.verdict, seconds)


def _overwide_sentence(m: StudyMeasurement) -> str:
    return f"Exact recoveries over all sizes: {col.tally(m.rows, 'arm')}."


OVERWIDE_TABLE = table(
    "dim", "width", "samples", samples_per_parameter=lambda cell, runs: cell.samples / parameters(cell.dim, cell.width),
    arm=col.field("arm"), exact=col.total("exact"), runs=col.count,
    verified_but_wrong=col.total(lambda run: run.verdict == "verified" and not run.exact), median_s=col.median("seconds"))


def _ratios(*shapes: tuple[int, int]) -> OverwideGrid:
    ratios = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
    return tuple((d, k, round(ratio * parameters(d, k))) for d, k in shapes for ratio in ratios)


OVERWIDE_SIZES = ((10, 5, 300), (10, 10, 600), (20, 10, 1200), (10, 30, 3000))
OVERWIDE = Study(
    "overwide", "RandomStart at about five samples per parameter: exact width against spare units and repairs",
    "Spare units and repairs recover every network to 1e-10; exact width in one run does not.",
    quick=OVERWIDE_SIZES, full=(*OVERWIDE_SIZES, (10, 50, 8000)),
    cells=overwide_cells, run_cell=recover_once, table=OVERWIDE_TABLE, sentence=_overwide_sentence)
"""How many samples does RandomStart need? Teachers: unit rows, biases 0.4 N(0,1), |readout| uniform in [0.5, 1.5] with random
signs, noiseless, x ~ N(0, I). A run succeeds if every weight, bias and readout is within 1e-10 of the truth. P = width·(dim + 2)
+ 1; the limit is one sample per parameter."""

RATIO = Study(
    "samples-per-parameter", "Success of RandomStart against samples per parameter, from 1.5 to 10 (the limit is 1)",
    "About 5 samples per parameter suffice; 1.6 mostly fail.",
    quick=_ratios((10, 5), (10, 10)), full=_ratios((10, 5), (10, 10), (20, 10)),
    cells=overwide_cells, run_cell=recover_once, table=OVERWIDE_TABLE, sentence=_overwide_sentence)
"""The same over samples per parameter."""


class LargeSize(NamedTuple):
    """Input dimension, hidden units, samples for the good start and for the others."""

    dim: int = 784
    width: int = 32
    near: int = 76_000
    far: int = 2**17


class LargeCell(NamedTuple):
    """A size and the name of the start."""

    size: LargeSize
    start: str


class LargeRun(NamedTuple):
    """One recovery: its seed, largest parameter error, units within cosine 0.999 of a true one, steps, passes over the samples,
    seconds."""

    seed: int
    error: float
    found: int
    steps: int
    passes: int
    seconds: float


LARGE_STARTS = ("cosine 0.9", "cosine 0.9, twice the samples", "random, 16 spares", "moments")
SIGN_FREE = Model(absolute, biases=True, offset=True, linear=True)


def plant_large(dim: int, width: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """The teacher of the study of a large network and samples from it."""
    truth = random_network(dim, width, biases=1.0, readout="random", rng=rng)
    return truth, gaussian_samples(truth, dim, samples, rng)


def near_start(truth: Network, cosine: float, rng: Generator) -> Array:
    """Rows at the given cosine to the true ones, biases zero."""
    rows = truth.layer.weights
    aside = rng.standard_normal(rows.shape)
    aside -= np.sum(aside * rows, axis=1)[:, None] * rows
    aside /= np.linalg.norm(aside, axis=1)[:, None]
    return np.column_stack([cosine * rows + np.sqrt(1.0 - cosine**2) * aside, np.zeros(len(rows))])


def moment_start(source: Source, width: int, rng: Generator) -> Array:
    """Rows from moments: the subspace of the weights, then joint diagonalisation of all slices of orders 2, 3, 4 in it.

    The bias follows from c₃/c₂ = -b. What the best quadratic in the subspace explains is subtracted before orders 3 and 4.
    """
    subspace = refine_subspace(source, width, relu, order=2)
    second = subspace.moments.tensor(2)[0]
    rest = Residual(source, fit_hermite(source, 2, subspace.basis))
    *_, third, fourth = projected_tensors(rest, subspace.basis, 4)
    stack = np.concatenate([second[None], third[0], fourth[0].reshape(-1, width, width)])
    found = joint_diagonalisation(stack, width, rng=rng).directions
    weights = loadings(stack, found)
    return np.column_stack([found @ subspace.basis.T, _biases(weights, found)])


def _biases(weights: Array, directions: Array) -> Array:
    """-c₃/c₂ of every part: order 2 is the first slice; slices of order 3 load part r with c₃ times its direction."""
    width = len(directions)
    second = weights[0]
    third = np.sum(weights[1 : 1 + width] * directions.T, axis=0)
    return np.asarray(np.clip(-third / np.where(np.abs(second) > 1e-12, second, 1e-12), -1.5, 1.5))


def refine_large(cell: LargeCell, seed: int) -> LargeRun:
    """Plant, start as the cell says, refine, decode the signs, compare."""
    size, start = cell
    rng = np.random.default_rng([seed, size.dim, size.width])
    samples = {"cosine 0.9": size.near, "cosine 0.9, twice the samples": 2 * size.near}.get(start, size.far)
    truth, source = plant_large(size.dim, size.width, samples, rng)
    begun = time.perf_counter()
    refined = _refine(start, truth, source, rng)
    seconds = time.perf_counter() - begun
    network = restore_signs(network_of(refined.point, vector=True), relu).network
    cosines = np.abs(_directions(network) @ _directions(truth).T).max(axis=0)
    steps, passes = len(refined.trace.rows) - 1, refined.trace.samples // samples
    return LargeRun(seed, compare(network, truth).max_error, int(np.sum(cosines > 0.999)), steps, passes, seconds)


def _refine(start: str, truth: Network, source: Source, rng: Generator) -> FittedPoint:
    if start == "random, 16 spares":
        return search_with_spares(SearchContext.of(source, SIGN_FREE, Search(spares=16, hops=0), rng=rng), truth.width)
    rows = moment_start(source, truth.width, rng) if start == "moments" else near_start(truth, 0.9, rng)
    return minimise(source, SIGN_FREE.start(rows, 1), total_variation(source))


def _directions(network: Network) -> Array:
    rows = network.layer.rows
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def by_run(size: LargeSize, runs: Mapping[LargeCell, list[LargeRun]]) -> dict[tuple[LargeCell, LargeRun], None]:
    """Every run is a row."""
    return dict.fromkeys((cell, run) for cell, each in runs.items() for run in each)


def _of_run(name: str) -> col.Column:
    return lambda pair, _: getattr(pair[1], name)


def _large_sentence(m: StudyMeasurement) -> str:
    def counted(start: str, rows: list[Any]) -> str:
        exact = sum(row.largest_error < SUCCESS.read_error for row in rows)
        return f"{start} {exact}/{len(rows)} ({np.median(col.values(rows, 'seconds')):.0f} s)"

    parts = ", ".join(counted(start, rows) for start, rows in col.group_rows(m.rows, "start").items())
    return f"Recovered to {SUCCESS.read_error:g} (median seconds): {parts}."


LARGE = Study(
    "large-network", "Matrix-free refinement from a good start, from random directions with spares, and from moments",
    "A 784-32-1 network is recovered to 1e-8 from 2^17 samples in minutes on two cores.",
    quick=LargeSize(200, 16, 20_000, 2**15), full=LargeSize(),
    cells=lambda size: cross(LargeCell, [size], LARGE_STARTS), run_cell=refine_large, group=by_run,
    table=table(
        network=lambda pair, _: f"{pair[0].size.dim}-{pair[0].size.width}-1", start=lambda pair, _: pair[0].start,
        seed=_of_run("seed"), largest_error=_of_run("error"), units_found=_of_run("found"), steps=_of_run("steps"),
        passes=_of_run("passes"), seconds=_of_run("seconds")),
    sentence=_large_sentence)
"""784-32-1: a network of the size of a small image classifier, recovered by matrix-free Gauss-Newton. Teacher: unit rows, biases
uniform in [-1, 1], |readout| uniform in [0.5, 1.5] with random signs, noiseless, x ~ N(0, I). Three starts: cosine 0.9 to every
true row; random directions with 16 spare units; directions from moments of orders 2 to 4."""


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
