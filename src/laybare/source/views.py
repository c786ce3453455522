"""The methods of a source, written once; views of some rows with mapped inputs; rows changed as they are read; rows in memory.

Independent tasks over the same rows run at once (`run_parallel`): dense algebra between passes, and passes over few rows, use one
core only, so that two such tasks have one core each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array, Event, Progress, Statistic, Sums, report_progress
from laybare.numerics.workspace import return_freed_memory, single_blas_thread
from laybare.source.laws import whitening_map
from laybare.source.protocol import Affine, Law, Rows, Source, SplitSources, WhitenedSource
from laybare.source.sums import GRAIN, Engine, Schedule, block_rows, evaluate_block, map_in_order, plan_block_rows, sum_blocks


class SourceMethods(Protocol):
    """Methods of everything that reads rows by their index. Nothing here is overridden, and no row is copied."""

    def sum(self: Source, statistic: Statistic, *, stage: str = "pass") -> Sums:
        """`statistic` summed over all rows (see `laybare.source.sums`)."""
        self.ready(0, self.size, self.schedule.progress)
        run, journal = partial(_sum_rows, self, statistic, stage), self.schedule.journal
        return run() if journal is None else journal.recall_or_run(run, (stage, self.size, self.dim, self.outputs, statistic))

    def split(self: Source, fraction: float, *, rng: Generator | int) -> SplitSources:
        """A random split; the first part has round(fraction * size) rows, both keep the order of the rows."""
        first = round(fraction * self.size) if 0 < fraction < 1 else 0
        if not 0 < first < self.size:
            raise InvalidInput(
                f"A split of {self.size} rows at fraction {fraction} leaves one part empty.", "Both parts need rows.",
                "Give a fraction between 0 and 1, not too close to either.", fraction=fraction, size=self.size)
        if self.exchangeable:
            return SplitSources(view_of(self, range(first)), view_of(self, range(first, self.size)))
        chosen = np.zeros(self.size, dtype=bool)
        chosen[np.random.default_rng(rng).choice(self.size, first, replace=False, shuffle=False)] = True
        return SplitSources(view_of(self, _row_indices(chosen)), view_of(self, _row_indices(~chosen)))

    def take(self: Source, rows: int) -> Source:
        """The first rows."""
        return self.between(0, rows)

    def between(self: Source, start: int, stop: int) -> Source:
        """Rows start..stop."""
        if not 0 <= start < stop <= self.size:
            raise InvalidInput(
                f"Rows {start} to {stop} were asked for.", f"There are {self.size}, and a source cannot be empty.",
                f"Ask for at least one row, and for none beyond {self.size}.", start=start, stop=stop, size=self.size)
        return view_of(self, range(start, stop))

    def whitened(self: Source, *, centred: bool = True) -> WhitenedSource:
        """The same rows with inputs of mean 0 and covariance I (of second moment I if not centred).

        `.transform` is the map from the original inputs, also for a view of a view. Centring gives a bias to units that have
        none: a fit without biases needs centred=False.
        """
        return view_of(self, range(self.size), transform=whitening_map(self, centred=centred), law=self.law.white())

    def mapped(self: Source, transform: Affine, law: Law) -> WhitenedSource:
        """These rows through a given map, such as that of other rows; `.transform` is that map alone."""
        return View(self, range(self.size), transform, law, self.schedule)

    def kept(self: Source) -> Source:
        """The same rows, in memory if they fit into `schedule.keep_bytes`, else unchanged. Same bits in both cases."""
        return load_rows(self)

    def with_schedule(self: Source, schedule: Schedule) -> Source:
        """The same rows with another schedule."""
        return replace(view_of(self, range(self.size)), schedule=schedule)

    def with_progress(self: Source, progress: Progress | None) -> Source:
        """The same rows; every block that is done calls `progress`."""
        return self.with_schedule(replace(self.schedule, progress=progress))


class OriginSource(SourceMethods):
    """A source that reads from another one and, by default, has its shape."""

    origin: Source

    @property
    def dim(self) -> int:
        return self.origin.dim

    @property
    def outputs(self) -> int:
        return self.origin.outputs

    @property
    def exchangeable(self) -> bool:
        return self.origin.exchangeable


@dataclass(frozen=True, eq=False)
class View(OriginSource):
    """Some rows of a source (a range, or sorted row indices), their inputs mapped by `transform`."""

    origin: Source
    rows: range | Array
    transform: Affine
    law: Law
    schedule: Schedule

    def __repr__(self) -> str:
        return f"View({self.size:,} rows of {self.origin!r})"

    @property
    def size(self) -> int:
        return len(self.rows)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make these rows of the origin ready."""
        if start < stop:
            self.origin.ready(int(self.rows[start]), int(self.rows[stop - 1]) + 1, progress)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop of the view."""
        picked = self.rows[start:stop]
        x, y = self.origin.read(picked.start, picked.stop) if isinstance(picked, range) else _gather(self.origin, picked)
        return Rows(_mapped(self.transform, x), y)


@dataclass(frozen=True, eq=False)
class DerivedSource(OriginSource):
    """The rows of `origin`, changed as they are read. Subclasses define `map_rows` and override dim, outputs or law."""

    origin: Source

    @property
    def size(self) -> int:
        return self.origin.size

    @property
    def law(self) -> Law:
        return self.origin.law

    @property
    def schedule(self) -> Schedule:
        return self.origin.schedule

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make the origin ready."""
        self.origin.ready(start, stop, progress)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, mapped."""
        return self.map_rows(*self.origin.read(start, stop))

    @abstractmethod
    def map_rows(self, x: Array, y: Array) -> Rows:
        """The new rows from rows of the origin."""


class ArraySource(SourceMethods):
    """A source whose shape is that of its arrays x (n, dim) and y (n,) or (n, outputs)."""

    x: Any
    y: Any

    @property
    def dim(self) -> int:
        return int(self.x.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.y.shape[1]) if self.y.ndim == 2 else 1

    @property
    def size(self) -> int:
        return int(self.x.shape[0])

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Nothing to do: the rows are there."""


@dataclass(frozen=True, eq=False)
class RowsInMemory(ArraySource):
    """Rows in memory: contiguous float64, inputs already mapped by `transform`."""

    x: Array = field(repr=False)
    y: Array = field(repr=False)
    transform: Affine
    law: Law
    schedule: Schedule
    exchangeable: bool

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, not copied."""
        return Rows(self.x[start:stop], self.y[start:stop])

    @cached_property
    def single(self) -> Array | None:
        """[x, 1] in single precision, (n, dim + 1); None if there is no memory for it beside the rows."""
        if 8 * self.size * (self.dim + self.outputs) + 4 * self.size * (self.dim + 1) > self.schedule.keep_bytes:
            return None
        extended = np.empty((self.size, self.dim + 1), np.float32)
        rows = block_rows(self.dim, self.schedule.block_bytes)
        starts = range(0, self.size, rows)

        def fill(start: int) -> Sums:
            with np.errstate(over="ignore"):
                extended[start : start + rows, :-1] = self.x[start : start + rows]
            extended[start : start + rows, -1] = 1.0
            return ()

        deque(map_in_order(fill, starts, self.schedule.threads(len(starts))), maxlen=0)
        return extended

    def read_single(self, start: int, stop: int) -> Rows:
        """Rows with inputs [x, 1] in single precision; only if `single` is there."""
        assert self.single is not None
        return Rows(self.single[start:stop], self.y[start:stop])


MANY_BYTES = 1 << 25
"""Rows from which freed memory is given back before they are loaded. Derived: glibc maps arrays of this size by themselves."""


def load_rows(source: Source) -> Source:
    """The rows of `source` in memory if they fit into its `schedule.keep_bytes`, else `source` itself. One pass.

    Before many rows are loaded, freed memory is given back: each thread has some, and it would add to theirs.
    """
    size = 8 * source.size * (source.dim + source.outputs)
    if isinstance(source, RowsInMemory) or size > source.schedule.keep_bytes:
        return source
    if size >= MANY_BYTES:
        return_freed_memory()
    source.ready(0, source.size, source.schedule.progress)
    x, y = np.empty((source.size, source.dim)), np.empty((source.size, source.outputs))
    rows = block_rows(source.dim + source.outputs, source.schedule.block_bytes)
    starts = range(0, source.size, rows)
    engine = engine_of(source)

    def fill(start: int) -> Sums:
        stop = min(start + rows, source.size)
        x[start:stop], y[start:stop] = source.read(start, stop)
        return ()

    if engine is None:
        deque(map_in_order(fill, starts, source.schedule.threads(len(starts))), maxlen=0)
    else:
        for start, (some, their) in zip(starts, engine.map_blocks(source, Rows, rows), strict=True):
            x[start : start + rows], y[start : start + rows] = some, their
    transform = getattr(source, "transform", None) or Affine.identity(source.dim)
    return RowsInMemory(x, y, transform, source.law, replace(source.schedule, engine=None), source.exchangeable)


def map_blocks(source: Source, function: Statistic) -> Iterator[Sums]:
    """Results of `function` for all blocks, in order; computed where the rows are, at most two blocks ahead per thread."""
    source.ready(0, source.size, source.schedule.progress)
    rows = block_rows(source.dim + source.outputs, source.schedule.block_bytes)
    engine = engine_of(source)
    if engine is not None:
        return engine.map_blocks(source, function, rows)
    starts = range(0, source.size, rows)
    evaluate = partial(evaluate_block, source.read, function, source.size, rows)
    return map_in_order(evaluate, starts, source.schedule.threads(len(starts)))


def leaf_of(source: Source) -> Source:
    """The source at the bottom of a chain of views and derived sources."""
    while isinstance(source, OriginSource):
        source = source.origin
    return source


def engine_of(source: Source) -> Engine | None:
    """The engine that sums the rows of this source elsewhere, if there is one that can."""
    engine = source.schedule.engine or leaf_of(source).schedule.engine
    return engine if engine is not None and engine.can_read(source) else None


def fits_one_block(source: Source, statistic: Statistic) -> bool:
    """Whether `source.sum(statistic)` calls the statistic once, on all rows in memory."""
    floats = source.dim + source.outputs
    return isinstance(source, RowsInMemory) and source.size <= plan_block_rows(source.size, floats, statistic, source.schedule)


def _sum_rows(source: Source, statistic: Statistic, stage: str) -> Sums:
    engine, schedule, floats = engine_of(source), source.schedule, source.dim + source.outputs
    if engine is None:
        return sum_blocks(_read_for(statistic, source), source.size, floats, statistic, schedule, stage)
    rows = plan_block_rows(source.size, floats, statistic, schedule)
    sums = engine.sum_blocks(source, statistic, rows)
    report_progress(schedule.progress, stage, -(-source.size // rows), -(-source.size // rows))
    return sums


def _read_for(statistic: Statistic, source: Source) -> Callable[[int, int], Rows]:
    """How rows are read: in single precision if the statistic works in it and they are in memory."""
    if isinstance(source, RowsInMemory) and getattr(statistic, "single", False) and source.single is not None:
        return source.read_single  # `source.single` was just computed, by this thread alone
    return source.read


def view_of(source: Source, rows: range | Array, transform: Affine | None = None, law: Law | None = None) -> View:
    """A view of `source`; a view of a view refers to the origin itself, so that chains of splits cost nothing."""
    transform = transform or Affine.identity(source.dim)
    law = law or source.law
    if isinstance(source, View):
        return View(source.origin, _compose(source.rows, rows), source.transform.then(transform), law, source.schedule)
    return View(source, rows, transform, law, source.schedule)


def _mapped(transform: Affine, x: Array) -> Array:
    """The mapped rows, computed in steps of GRAIN rows: a row has the same bits in blocks of any size."""
    if transform.trivial or len(x) <= GRAIN:
        return transform.apply(x)
    z = np.empty_like(x)
    for start in range(0, len(x), GRAIN):
        z[start : start + GRAIN] = transform.apply(x[start : start + GRAIN])
    return z


def row_index_dtype(size: int) -> type[np.int32] | type[np.int64]:
    """The type of row indices below `size`: int32 where possible, half the memory."""
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64


def _row_indices(chosen: Array) -> Array:
    return np.flatnonzero(chosen).astype(row_index_dtype(len(chosen)), copy=False)


def _compose(outer: range | Array, inner: range | Array) -> range | Array:
    if isinstance(inner, range):
        return outer[inner.start : inner.stop]
    return inner + outer.start if isinstance(outer, range) else outer[inner]


def _gather(source: Source, index: Array) -> Rows:
    """The rows with these sorted indices, read in ranges no longer than a block: few rows far apart stay cheap."""
    x, y = np.empty((len(index), source.dim)), np.empty((len(index), source.outputs))
    stretch = block_rows(source.dim + source.outputs)
    at = 0
    while at < len(index):
        start = int(index[at])
        end = int(np.searchsorted(index, start + stretch))
        read = source.read(start, int(index[end - 1]) + 1)
        for whole, part in ((x, read.x), (y, read.y)):
            np.take(part, index[at:end] - start, axis=0, out=whole[at:end], mode="clip")
        at = end
    return Rows(x, y)


Key = Callable[[Array, Array], Array]


def rows_with_smallest_key(source: Source, key: Key, limit: int) -> Rows:
    """At most `limit` rows with the smallest finite key(x, y) (n,), in their order in the source; ties go to the first.

    Rows whose key is inf are left out; the result may be empty. One pass, memory for `limit` rows and a block.
    """
    x, y, keys = np.empty((0, source.dim)), np.empty((0, source.outputs)), np.empty(0)
    for some, their in map_blocks(source, Rows):  # the key is asked here, block after block: it may draw
        found = np.asarray(key(some, their), dtype=float)
        wanted = np.isfinite(found)
        x, y = np.vstack([x, some[wanted]]), np.vstack([y, their[wanted]])
        keys = np.concatenate([keys, found[wanted]])
        if len(keys) > limit:
            kept = np.sort(np.argsort(keys, kind="stable")[:limit])
            x, y, keys = x[kept], y[kept], keys[kept]
    return Rows(x, y)


def run_parallel(source: Source, *tasks: Callable[[], Any]) -> list[Any]:
    """Results of `tasks`, which read these rows: at once, each on one thread, as far as `max_parallel_tasks` allows."""

    def run(number: int) -> Any:
        with single_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return tasks[number]()

    return list(map_in_order(run, range(len(tasks)), min(max_parallel_tasks(source), len(tasks))))


def run_until_interrupted(source: Source, progress: Progress | None, *tasks: Callable[[Progress], Any]) -> list[Any]:
    """The same for tasks that report their steps. An interrupt in any task stops all tasks."""
    interrupted: list[bool] = []

    def report(event: Event) -> None:
        if interrupted:
            raise KeyboardInterrupt
        if progress is not None:
            progress(event)

    try:
        return run_parallel(source, *(partial(task, report) for task in tasks))
    except KeyboardInterrupt:
        interrupted.append(True)
        raise


def max_parallel_tasks(source: Source) -> int:
    """How many tasks over these rows can run at once.

    One if there is a journal, which gives passes back in their order, if there is a cluster, or if the rows are not in memory:
    then there is no memory for two tasks either.
    """
    schedule = source.schedule
    alone = not isinstance(source, RowsInMemory) or schedule.journal is not None or schedule.engine is not None
    return 1 if alone else schedule.threads(2)
