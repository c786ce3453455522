"""The verbs of a source, written once; views: some rows of a source, their inputs mapped; rows changed as they are read."""

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
from laybare.shapes import Array, Progress, Statistic, Sums, tell
from laybare.source.affine import Affine
from laybare.source.protocol import Law, Parts, Rows, Source, Whitened
from laybare.source.sums import GRAIN, Engine, Schedule, add_up, block_rows, one_block, rows_of_blocks
from laybare.source.threads import in_order
from laybare.source.whitening import whitening_map


class Verbs(Protocol):
    """What can be done with anything that reads its rows by number. Nothing here is overridden, and no row is copied."""

    def sum(self: Source, statistic: Statistic, *, stage: str = "pass") -> Sums:
        """`statistic` added up over all rows (see `laybare.source.sums`)."""
        self.ready(0, self.size, self.schedule.progress)
        run, journal = partial(_added_up, self, statistic, stage), self.schedule.journal
        return run() if journal is None else journal.once(run, (stage, self.size, self.dim, self.outputs, statistic))

    def split(self: Source, fraction: float, *, rng: Generator | int) -> Parts:
        """Two parts at random; the first has round(fraction * size) rows, both keep the order of the rows."""
        first = round(fraction * self.size) if 0 < fraction < 1 else 0
        if not 0 < first < self.size:
            raise InvalidInput(
                f"A split of {self.size} rows at fraction {fraction} leaves one part empty.", "Both parts need rows.",
                "Give a fraction between 0 and 1, not too close to either.", fraction=fraction, size=self.size)
        if self.exchangeable:
            return Parts(_view(self, range(first)), _view(self, range(first, self.size)))
        chosen = np.zeros(self.size, dtype=bool)
        chosen[np.random.default_rng(rng).choice(self.size, first, replace=False, shuffle=False)] = True
        return Parts(_view(self, _numbers_of(chosen)), _view(self, _numbers_of(~chosen)))

    def take(self: Source, rows: int) -> Source:
        """The first rows."""
        return self.between(0, rows)

    def between(self: Source, start: int, stop: int) -> Source:
        """Rows start..stop."""
        if not 0 <= start < stop <= self.size:
            raise InvalidInput(
                f"Rows {start} to {stop} were asked for.", f"There are {self.size}, and an empty source has nothing to add up.",
                f"Ask for at least one row, and for none beyond {self.size}.", start=start, stop=stop, size=self.size)
        return _view(self, range(start, stop))

    def whitened(self: Source, *, centred: bool = True) -> Whitened:
        """The same rows with inputs of mean 0 and covariance I (of second moment I if not centred); `.transform` leads back.

        From a view that has a map of its own, it leads all the way back. Centring turns a unit without bias into one with a
        bias: a fit without biases needs inputs that keep their mean.
        """
        return _view(self, range(self.size), transform=whitening_map(self, centred=centred), law=self.law.white())

    def mapped(self: Source, transform: Affine, law: Law) -> Whitened:
        """These rows through a map that is known already (other rows, same map); `.transform` is that map and no more."""
        return View(self, range(self.size), transform, law, self.schedule)

    def kept(self: Source) -> Source:
        """The same rows, read once and held in memory if they fit into `schedule.keep_bytes`; else as they are, same bits."""
        return keep(self)

    def with_schedule(self: Source, schedule: Schedule) -> Source:
        """The same rows, passed over in another way."""
        return replace(_view(self, range(self.size)), schedule=schedule)

    def with_progress(self: Source, progress: Progress | None) -> Source:
        """The same rows; every block that is done calls `progress`."""
        return self.with_schedule(replace(self.schedule, progress=progress))


class OfOrigin(Verbs):
    """What a source that reads from another one leaves as it is there, unless it says otherwise."""

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
class View(OfOrigin):
    """Chosen rows of a source (a range, or sorted row numbers), their inputs mapped by `transform`."""

    origin: Source
    rows: range | Array
    transform: Affine
    law: Law
    schedule: Schedule

    @property
    def size(self) -> int:
        return len(self.rows)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make the origin ready as far as these rows reach."""
        if start < stop:
            self.origin.ready(int(self.rows[start]), int(self.rows[stop - 1]) + 1, progress)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop of the view."""
        picked = self.rows[start:stop]
        x, y = self.origin.read(picked.start, picked.stop) if isinstance(picked, range) else _gather(self.origin, picked)
        return Rows(_mapped(self.transform, x), y)


@dataclass(frozen=True, eq=False)
class Derived(OfOrigin):
    """The rows of `origin`, changed as they are read. A kind of it says how, and which of dim, outputs and law it changes."""

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
        """Rows start..stop, changed."""
        return self.changed(*self.origin.read(start, stop))

    @abstractmethod
    def changed(self, x: Array, y: Array) -> Rows:
        """What becomes of rows of the origin."""


class OfArrays(Verbs):
    """What a source knows from the shapes of its arrays x (n, dim) and y (n,) or (n, outputs)."""

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


@dataclass(frozen=True, eq=False)
class KeptRows(OfArrays):
    """Rows of a source in memory: contiguous, float64, mapped already."""

    x: Array = field(repr=False)
    y: Array = field(repr=False)
    transform: Affine
    law: Law
    schedule: Schedule
    exchangeable: bool

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """They are there."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, not copied."""
        return Rows(self.x[start:stop], self.y[start:stop])

    @cached_property
    def single(self) -> Array | None:
        """[x, 1] in single precision, (n, dim + 1); nothing if that does not fit beside the rows."""
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

        deque(in_order(fill, starts, self.schedule.threads(len(starts))), maxlen=0)
        return extended

    def read_single(self, start: int, stop: int) -> Rows:
        """The same with inputs [x, 1] in single precision, where they are kept."""
        assert self.single is not None
        return Rows(self.single[start:stop], self.y[start:stop])


def keep(source: Source) -> Source:
    """The rows of `source` in memory if they fit into its `schedule.keep_bytes`, else `source` itself. One reading."""
    if isinstance(source, KeptRows) or 8 * source.size * (source.dim + source.outputs) > source.schedule.keep_bytes:
        return source
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
        deque(in_order(fill, starts, source.schedule.threads(len(starts))), maxlen=0)
    else:
        for start, (some, their) in zip(starts, engine.results(source, Rows, rows), strict=True):
            x[start : start + rows], y[start : start + rows] = some, their
    transform = getattr(source, "transform", None) or Affine.identity(source.dim)
    return KeptRows(x, y, transform, source.law, replace(source.schedule, engine=None), source.exchangeable)


def block_results(source: Source, function: Statistic) -> Iterator[Sums]:
    """What `function` returns for each block of rows, in their order; computed where the rows are, two blocks ahead at most for
    each thread."""
    source.ready(0, source.size, source.schedule.progress)
    rows = block_rows(source.dim + source.outputs, source.schedule.block_bytes)
    engine = engine_of(source)
    if engine is not None:
        return engine.results(source, function, rows)
    starts = range(0, source.size, rows)
    return in_order(partial(one_block, source.read, function, source.size, rows), starts, source.schedule.threads(len(starts)))


def leaf_of(source: Source) -> Source:
    """Where the rows of views and of changed rows come from."""
    while isinstance(source, View | Derived):
        source = source.origin
    return source


def engine_of(source: Source) -> Engine | None:
    """Whoever adds up the rows of this source elsewhere, if anybody can."""
    engine = source.schedule.engine or leaf_of(source).schedule.engine
    return engine if engine is not None and engine.carries(source) else None


def reads_one_block(source: Source, statistic: Statistic) -> bool:
    """Whether `source.sum(statistic)` is what the statistic says of rows in memory, all of them at once."""
    floats = source.dim + source.outputs
    return isinstance(source, KeptRows) and source.size <= rows_of_blocks(source.size, floats, statistic, source.schedule)


def _added_up(source: Source, statistic: Statistic, stage: str) -> Sums:
    engine, schedule, floats = engine_of(source), source.schedule, source.dim + source.outputs
    if engine is None:
        return add_up(_read_for(statistic, source), source.size, floats, statistic, schedule, stage)
    rows = rows_of_blocks(source.size, floats, statistic, schedule)
    sums = engine.total(source, statistic, rows)
    tell(schedule.progress, stage, -(-source.size // rows), -(-source.size // rows))
    return sums


def _read_for(statistic: Statistic, source: Source) -> Callable[[int, int], Rows]:
    """How rows are read: in single precision if the statistic works in it and they are kept."""
    if isinstance(source, KeptRows) and getattr(statistic, "single", False) and source.single is not None:
        return source.read_single  # they were made by the question, once, and not by several threads
    return source.read


def _view(source: Source, rows: range | Array, transform: Affine | None = None, law: Law | None = None) -> View:
    """A view of `source`; a view of a view looks at the origin itself, so that chains of splits cost nothing."""
    transform = transform or Affine.identity(source.dim)
    law = law or source.law
    if isinstance(source, View):
        return View(source.origin, _compose(source.rows, rows), source.transform.then(transform), law, source.schedule)
    return View(source, rows, transform, law, source.schedule)


def _mapped(transform: Affine, x: Array) -> Array:
    """The mapped rows, a grain at a time: so a row has the same bits in blocks of any size."""
    if transform.trivial or len(x) <= GRAIN:
        return transform.apply(x)
    z = np.empty_like(x)
    for start in range(0, len(x), GRAIN):
        z[start : start + GRAIN] = transform.apply(x[start : start + GRAIN])
    return z


def row_number(size: int) -> type[np.int32] | type[np.int64]:
    """The type of row numbers below `size`: four bytes where these do, since eight take 80 MB for ten million rows."""
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64


def _numbers_of(chosen: Array) -> Array:
    return np.flatnonzero(chosen).astype(row_number(len(chosen)), copy=False)


def _compose(outer: range | Array, inner: range | Array) -> range | Array:
    if isinstance(inner, range):
        return outer[inner.start : inner.stop]
    return inner + outer.start if isinstance(outer, range) else outer[inner]


def _gather(source: Source, index: Array) -> Rows:
    """The rows with these sorted numbers, read in stretches no longer than a block, so that few rows far apart stay cheap."""
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
