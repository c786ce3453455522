"""Samples in Dask arrays or data frames, on one or many machines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array, Sums
from laybare.source.dask_engine import Chunk, DaskEngine, Graph
from laybare.source.laws import Gaussian, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.samples import check_shapes, constant_data_error
from laybare.source.sums import Schedule
from laybare.source.views import ArraySource


@dataclass(frozen=True, eq=False)
class DaskSamples(ArraySource):
    """Pairs (x, y) in Dask collections; every pass runs where the chunks are.

    Parameters
    ----------
    x : Dask array (n, dim) or data frame; in chunks of rows, persisted or not (then every pass computes them again)
    y : Dask array (n,) or (n, outputs), series or data frame; its chunks may differ from those of x
    law : Gaussian(), Symmetric() or Unknown(): what is assumed about the inputs
    schedule : Schedule; without an engine, DaskEngine() is used: the current client, or Dask's threads
    exchangeable : whether any range of rows is a random sample; then no row indices are drawn, kept or sent

    Chunks of 60 to 500 MB work well. One pass here checks every value; later passes check every block again. Whitened rows that
    fit into `schedule.keep_bytes` are loaded into this process, larger data stay on the workers: same bits.
    """

    x: Any = field(repr=False)
    y: Any = field(repr=False)
    law: Law = Gaussian()
    schedule: Schedule = Schedule()
    exchangeable: bool = False

    def __post_init__(self) -> None:
        x, y = _array("x", self.x), _array("y", self.y)
        check_shapes(x.shape, y.shape)
        values = {
            "x": x, "y": y, "law": as_law(self.law),
            "schedule": replace(self.schedule, engine=self.schedule.engine or DaskEngine())}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.law.check(self.dim)
        _check_variation(self)

    @cached_property
    def graph(self) -> Graph:
        """The tasks that compute the chunks of both."""
        return {**dict(self.x.__dask_graph__()), **dict(self.y.__dask_graph__())}

    @cached_property
    def x_chunks(self) -> tuple[Chunk, ...]:
        return _chunks("x", self.x)

    @cached_property
    def y_chunks(self) -> tuple[Chunk, ...]:
        return _chunks("y", self.y)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, loaded into this process."""
        if start >= stop:
            return Rows(np.empty((0, self.dim)), np.empty((0, self.outputs)))
        engine = self.schedule.engine
        assert engine is not None
        blocks = list(engine.map_blocks(self.between(start, stop), Rows, stop - start))
        return Rows(*blocks[0])


def is_dask(given: Any) -> bool:
    """Whether this is a Dask array, data frame or series; Dask is not imported."""
    return type(given).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(given, "__dask_graph__")


def _array(name: str, given: Any) -> Any:
    """A Dask array of numbers with known chunks of whole rows."""
    if not is_dask(given):
        raise InvalidInput(
            f"{name} is a {type(given).__name__}.", "DaskSamples takes Dask arrays and data frames.",
            "Use Samples(x, y) for arrays in memory, or dask.array.from_array(x, chunks=(rows, -1)).")
    array = given.to_dask_array(lengths=True) if hasattr(given, "to_dask_array") else given
    if array.ndim and any(np.isnan(length) for length in array.chunks[0]):
        array = array.compute_chunk_sizes()
    if array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} has dtype {array.dtype}.", "Only real numbers can be inputs and outputs of a network.",
            "Convert it to floats first.", dtype=str(array.dtype))
    return _fused(array.rechunk(dict.fromkeys(range(1, array.ndim), -1)))


def _fused(array: Any) -> Any:
    """The array with few tasks per chunk. Persisted arrays are unchanged: Dask would compute them again."""
    import dask

    persisted = any(type(task).__module__.startswith("distributed") for task in dict(array.__dask_graph__()).values())
    return array if persisted else dask.optimize(array)[0]


def _chunks(name: str, array: Any) -> tuple[Chunk, ...]:
    ends = np.cumsum(array.chunks[0])
    keys = [key[0] if isinstance(key, list) else key for key in array.__dask_keys__()]
    spans = zip(ends - array.chunks[0], ends, strict=True)
    return tuple(
        Chunk(key, int(start), int(stop), f"Block {number} of {name} (rows {start} to {stop})")
        for number, (key, (start, stop)) in enumerate(zip(keys, spans, strict=True)) if stop > start)


def _check_variation(samples: DaskSamples) -> None:
    """One pass, which also checks every value: not all inputs equal, not all outputs equal."""
    first = samples.read(0, 1)
    sums = samples.sum(_Differences(first.x, first.y), stage="looking")
    for name, differing in zip("xy", sums, strict=True):
        if not differing:
            raise constant_data_error(name, samples.size)


@dataclass(frozen=True, eq=False)
class _Differences:
    """How many values differ from those of the first row."""

    x: Array
    y: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        return np.asarray(np.count_nonzero(x != self.x)), np.asarray(np.count_nonzero(y != self.y))
