"""What a recovery takes, before it is begun: passes, operations, bytes and seconds, from rates measured here in a few seconds.

Nearly all of the time goes into passes over all rows: least squares, gradients, products with JᵀJ and normal equations; the
certificate tries other features on many of them. Their operations per row are known; how many of them a second this machine does
is measured by running each on a block (`Rates`). How often each is carried out is a count from recoveries of noisy samples
with known width (`_counts`); it varies from one data set to another, and noiseless samples take a fifth.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import relu
from laybare.blas import single_blas_thread
from laybare.certificate.alternatives import BUMPS, PLACES, TANGENTS
from laybare.certificate.fitted import FEWEST_INFORMING, INFORMING, INFORMING_A_NUMBER, MANY
from laybare.certificate.spread import LARGEST
from laybare.certificate.structure import PROBES
from laybare.errors import InvalidInput
from laybare.pipeline.search import DEAR, FEWEST, SAMPLES_A_NUMBER
from laybare.refinement.hunt import Search
from laybare.refinement.leading import FEW
from laybare.refinement.minimise import SMALL
from laybare.refinement.normal import FitStatistic, Model, Point, StepStatistic, split
from laybare.refinement.products import GradientStatistic, ProductStatistic
from laybare.shapes import Array, Statistic
from laybare.source import Samples, Schedule, block_rows

READING, LEAST_SQUARES, GRADIENTS, PRODUCTS = 6, 8, 5, 7
"""Passes over all rows where there are more than SMALL unknowns, by kind."""

STEPS = 10
"""Normal equations of all rows where there are fewer unknowns, in place of gradients and products."""

SEARCH_PASSES, DEAR_PASSES, LED_PASSES = 100, 25, 3
"""Normal equations of parts of the rows, in a search of known width and in the certificate: where they are cheap; where they are
dear, so that each serves for several steps; and of all inputs after a search in their leading directions."""

TASK_SECONDS = 1e-3
"""What a scheduler needs for one task, whoever carries it out."""

SMALLEST_CHUNK, LARGEST_CHUNK, CHUNKS_A_WORKER = 64 << 20, 512 << 20, 8
"""Chunks of a cluster that is planned for: large enough that tasks are few, small enough that every worker has some."""

CROSSING = 0.09
"""Part of the rows that lies on both sides of a chunk's border in a run: runs are 1/4 to 1/2 of a chunk."""

BETWEEN = 0.8
"""Seconds between passes, whatever the size: hundreds of small matrices."""

LARGEST_DIM, LARGEST_WIDTH = 64, 16
"""What rates are measured with, at most: operations of larger networks are as fast as these."""


class Kind(NamedTuple):
    """One kind of pass: how often, operations and numbers of its sums."""

    name: str
    times: int
    flops: float
    numbers: float


class Rates(NamedTuple):
    """Measured on one core: operations a second of each kind of pass, bytes a second of rows that are gathered and whitened."""

    flops: dict[str, float]
    reading: float


@dataclass(frozen=True)
class RecoveryPlan:
    """What `plan_recovery` foresees; seconds are those of the wall clock."""

    rows: int
    dim: int
    width: int
    outputs: int
    workers: int
    passes: int
    flops: float
    data_bytes: float
    bytes_moved: float
    chunk_bytes: float
    bytes_per_worker: float
    bytes_here: float
    seconds: float
    seconds_by_kind: dict[str, float]

    def json(self) -> str:
        """One object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        lines = [
            f"{self.rows:,} rows, {self.dim} inputs, {self.width} units, {self.outputs} output{'s' * (self.outputs > 1)}, "
            f"{self.workers} worker{'s' * (self.workers > 1)} of one core",
            f"{'passes over all rows':28}{self.passes:>12,}",
            f"{'operations':28}{self.flops:>12.2g}",
            f"{'data':28}{_bytes(self.data_bytes):>12}",
            f"{'bytes moved':28}{_bytes(self.bytes_moved):>12}",
            f"{'chunks of':28}{_bytes(self.chunk_bytes):>12}",
            f"{'memory of a worker':28}{_bytes(self.bytes_per_worker):>12}",
            f"{'memory of this process':28}{_bytes(self.bytes_here):>12}",
            f"{'time':28}{_duration(self.seconds):>12}",
            *(f"  {name:26}{_duration(seconds):>12}" for name, seconds in self.seconds_by_kind.items())]
        return "\n".join(lines)


def plan_recovery(
    rows: int, dim: int, width: int, *, outputs: int = 1, workers: int = 1, rates: Rates | None = None
) -> RecoveryPlan:
    """What the recovery of a ReLU network from noisy samples takes, its width known; `rates` are measured if not given."""
    _check(rows=rows, dim=dim, width=width, outputs=outputs, workers=workers)
    rates = rates or measured_rates(dim, width, outputs)
    kinds = _kinds(dim, width, outputs)
    row_bytes, sums = 8.0 * (dim + outputs), max(kind.numbers for kind in kinds if kind.times) * 8.0
    here = max(kind.numbers for kind in kinds) * 8.0
    streamed = rows * row_bytes > Schedule().keep_bytes
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, rows * row_bytes / (CHUNKS_A_WORKER * workers)))
    runs = max(1.0, 3.0 * rows * row_bytes / chunk)
    by_kind = {
        kind.name: kind.times * rows * (kind.flops / rates.flops[kind.name] + streamed * row_bytes / rates.reading) / workers
        for kind in kinds}
    seen = rows if rows < 2 * MANY else MANY
    features = seen * _feature_columns(dim, width, outputs) ** 2 / rates.flops["other features"]
    informing = _informing_rows(rows, dim, width) * _unknowns(dim, width) ** 2
    search = (_search_operations(dim, width, outputs) + informing) / rates.flops["normal equations"]
    passes = sum(kind.times for kind in kinds)
    overhead = passes * 2 * runs * TASK_SECONDS if workers > 1 else 0.0
    by_kind |= {"other features": features, "search on a part": search + BETWEEN, "scheduling": overhead}
    moved = sum(kind.times * (runs * kind.numbers * 8.0 + rows * (4.0 + CROSSING * row_bytes)) for kind in kinds)
    return RecoveryPlan(
        rows, dim, width, outputs, workers, passes, sum(kind.times * rows * kind.flops for kind in kinds), rows * row_bytes,
        moved if workers > 1 else 0.0, chunk, 2.0 * chunk + 6.0 * sums, 24.0 * rows + Schedule().keep_bytes + 4.0 * here,
        sum(by_kind.values()), by_kind)


def measured_rates(dim: int, width: int, outputs: int) -> Rates:
    """Each kind of pass on one block of random rows, on one core; a few seconds."""
    dim, width = min(dim, LARGEST_DIM), min(width, LARGEST_WIDTH)
    features = _feature_columns(dim, width, outputs)
    operations = {kind.name: kind.flops for kind in _kinds(dim, width, outputs)} | {"other features": float(features**2)}
    rng = np.random.default_rng(0)
    signed, free = (_point(dim, width, outputs, linear=linear, rng=rng) for linear in (False, True))
    columns = np.zeros((dim + 1 + width, outputs))
    direction = split(free, np.asarray(rng.standard_normal(free.units.shape)), columns)
    statistics: dict[str, Statistic] = {
        "reading": _gram, "least squares": FitStatistic(free), "gradients": GradientStatistic(free),
        "products": ProductStatistic(free, direction), "normal equations": StepStatistic(signed),
        "other features": _Columns(features)}
    with single_blas_thread():
        flops = {name: _rate(operations[name], statistic, dim, outputs) for name, statistic in statistics.items()}
        return Rates(flops, _reading_rate(dim, outputs))


def _kinds(dim: int, width: int, outputs: int) -> list[Kind]:
    """Operations of a row and numbers of a sum, by the leading terms of each statistic."""
    d, k, m = dim + 1, width, outputs
    q = k + d  # features of the sign-free model, which has a linear part
    w = _unknowns(dim, width)
    few = w <= SMALL
    return [
        Kind("reading", READING, 2.0 * d * d, d * d),
        Kind("least squares", LEAST_SQUARES, 2.0 * k * d + q * q + 2.0 * q * m, q * q),
        Kind("gradients", 0 if few else GRADIENTS, 6.0 * k * d + 3.0 * k * k, k * (2 * d + k)),
        Kind("products", 0 if few else PRODUCTS, 2.0 * (4 * k + 2 * m) * d, k * d),
        Kind("normal equations", few * STEPS, float(w * w), w * w)]


def _unknowns(dim: int, width: int) -> int:
    return width + 1 + width * (dim + 1)


def _informing_rows(rows: int, dim: int, width: int) -> int:
    """Rows behind error bars, where there are not so many numbers that there are none."""
    numbers = _unknowns(dim, width)
    enough = max(FEWEST_INFORMING, INFORMING_A_NUMBER * numbers, INFORMING // numbers**2)
    return 0 if numbers > LARGEST else rows if rows < 2 * enough else enough


def _feature_columns(dim: int, width: int, outputs: int) -> int:
    """Columns of the certificate's test against other features."""
    own = _unknowns(dim, width)
    products = dim * (dim - 1) // 2
    return (own if own <= TANGENTS else width + 1) + (products if products <= TANGENTS else 0) + (1 + len(PLACES)) * dim + \
        4 * outputs + 2 * len(BUMPS) * width + PROBES


def _search_operations(dim: int, width: int, outputs: int) -> float:
    """Of normal equations: with all inputs, or in as many leading directions as there are units and then with all."""
    numbers = _wide(dim, width)
    rows = max(FEWEST, SAMPLES_A_NUMBER * numbers // outputs)
    if rows * numbers**2 < DEAR:
        return float(SEARCH_PASSES * rows * numbers**2)
    if width > FEW * dim:
        return float(DEAR_PASSES * rows * numbers**2)
    fewer = max(FEWEST, rows * (width + 1) // (dim + 1))
    return float(DEAR_PASSES * fewer * _wide(width, width) ** 2 + LED_PASSES * rows * numbers**2)


def _wide(dim: int, width: int) -> int:
    """Unknowns of a search with spare units."""
    return (width + Search().extra(width)) * (dim + 2) + dim + 1


@dataclass(frozen=True)
class _Columns:
    """A Gram matrix of so many columns, as the certificate forms it."""

    count: int

    @property
    def row_floats(self) -> int:
        return 2 * self.count

    def __call__(self, x: Array, y: Array) -> tuple[Array, ...]:
        columns = np.tile(x, (1, -(-self.count // x.shape[1])))[:, : self.count]
        return (columns.T @ columns,)


def _gram(x: Array, y: Array) -> tuple[Array, ...]:
    return ((x - 0.5).T @ (x - 0.5),)


def _point(dim: int, width: int, outputs: int, *, linear: bool, rng: np.random.Generator) -> Point:
    point = Model(relu, linear=linear).start(rng.standard_normal((width, dim + 1)), outputs)
    return point.moved(point.units, np.asarray(rng.standard_normal(point.coefficients.shape)))


def _rate(flops: float, statistic: Statistic, dim: int, outputs: int) -> float:
    """Operations a second."""
    rows = block_rows(dim + outputs + int(getattr(statistic, "row_floats", 0)))
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((rows, dim)), rng.standard_normal((rows, outputs))
    return flops * rows / _best(lambda: statistic(x, y))


def _reading_rate(dim: int, outputs: int) -> float:
    """Bytes a second of rows that are chosen at random, gathered and whitened."""
    rows = max(20_000, (32 << 20) // (8 * (dim + outputs)))
    rng = np.random.default_rng(2)
    source = Samples(rng.standard_normal((rows, dim)), rng.standard_normal((rows, outputs)))
    view = source.split(0.95, rng=0).first.whitened()
    size = min(view.size, block_rows(dim + outputs))
    return 8.0 * size * (dim + outputs) / _best(lambda: view.read(0, size))


def _best(run: Callable[[], object], least: float = 0.2) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    run()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        begun = time.thread_time()  # of this thread alone: others on the machine do not count
        run()
        times.append(time.thread_time() - begun)
    return min(times)


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise InvalidInput(f"{name} is {number}.", "There is at least one of each.", f"Give a positive {name}.")


def _bytes(number: float) -> str:
    power = min(5, int(math.log(max(number, 1.0), 1000)))
    return f"{number / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
