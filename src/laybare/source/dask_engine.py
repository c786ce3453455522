"""Samples in Dask arrays, and passes on a Dask cluster: runs of blocks are summed where their rows are, and the runs in a tree on
the workers.

A pass is one graph (`plan_pass`). Its tasks are runs of 2^j blocks, about half a chunk each: every run is a node of the tree of
`laybare.source.sums`, and the bits are those of a local pass. A run whose rows are in one chunk goes to the worker that has it;
at the border of two chunks only the rows of that run are sent. The statistic and the maps of the views are sent once to each
worker.

Tasks are pure, so Dask may move and repeat them. Errors in the data (NaN, missing rows) come back as results that name the block.
Failures of the cluster are retried, then raised.

The graph of a pass has tasks that sum runs of blocks where their rows are, and tasks that sum the runs. A source is a chain of
views and derived sources above a leaf that has the rows. What all runs share (maps, matrices, the statistic) is a `PassPlan` and
is sent once; a run adds its row indices and its rows. The worker rebuilds the chain and reads block by block exactly as a local
pass does, so the bits are the same.

Tasks follow Dask's graph specification: a function, then keys of other tasks. All other arguments are bound to the function, so
that Dask does not look for keys in them.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from laybare.errors import ClusterFailure, InvalidInput, LaybareError
from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.numerics.workspace import keep_freed_memory
from laybare.source.derived import StackedRows
from laybare.source.laws import Gaussian, Unknown, as_law
from laybare.source.protocol import Affine, Law, Rows, Source
from laybare.source.samples import StackedArrays, check_block, check_shapes, constant_data_error, is_dask
from laybare.source.sums import Schedule, evaluate_block, pairwise_sum
from laybare.source.views import ArraySource, DerivedSource, View, leaf_of, row_index_dtype


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How passes are cut into tasks, and when a cluster is given up."""

    run_bytes: int = 32 << 20
    """Memory of the rows of one run if there are no chunks: at least 0.1 s of work, against 1-2 ms overhead per task.
    Checked by `make bench BENCH_ARGS=dask`."""
    fan_in: int = 8
    """Nodes that one task sums. Derived: a power of two, so that the result is a node of the tree. Checked by `make bench
    BENCH_ARGS=dask`."""
    window: int = 16
    """Runs whose results are on their way to this process at a time. Checked by `pytest tests/source/test_dask_engine.py`."""
    retries: int = 2
    """Times that a failed task, or a pass that lost its data, is tried again. Checked by `pytest
    tests/hostile/test_cluster_faults.py`."""
    patience: float = 60.0
    """Seconds without any worker after which a pass is given up. Checked by `pytest tests/hostile/test_cluster_faults.py`."""
    grains_per_call: int = 8
    """Grains of 1024 rows that one task asks of a black box: about 0.1 s for a network of moderate size. Checked by `pytest
    tests/source/test_transport.py`."""


CLUSTER = ClusterOptions()


class PassPlan(NamedTuple):
    """What all runs share: the chain without its rows, from the leaf upwards, the leaf if it is portable, and the statistic."""

    chain: tuple[View | DerivedSource, ...]
    leaf: Source | None
    statistic: Statistic
    rows: int  # per block


class RunSlice(NamedTuple):
    """What one run reads: rows low..high of the leaf, and for each view, from the leaf upwards, its rows among those."""

    low: int
    high: int
    picks: tuple[range | Array, ...]


class ChunkRows(NamedTuple):
    """Rows of the leaf as received, their expected number, and the name of the chunk."""

    values: Array
    rows: int
    name: str


RunRows: TypeAlias = Source | tuple[Sequence[ChunkRows], Sequence[ChunkRows]] | None
"""Rows low..high of the leaf: a source, or pieces of x and of y; None if the plan holds the leaf."""


@dataclass(frozen=True)
class RunFailure:
    """An error in the data, returned as a result: trying again would not help."""

    error: LaybareError


def plan_pass(source: Source, leaf: Source | None, statistic: Statistic, rows: int) -> PassPlan:
    """The chain of `source` without anything large or bound to this process."""
    if leaf is not None:
        leaf = copy(leaf)
        object.__setattr__(leaf, "schedule", Schedule())
    chain: list[View | DerivedSource] = []
    while isinstance(source, View | DerivedSource):
        below = _empty_source(source.origin.dim, source.origin.outputs)
        if isinstance(source, View):
            chain.append(replace(source, origin=below, rows=range(0), schedule=Schedule()))
        else:
            chain.append(replace(source, origin=below))
        source = source.origin
    return PassPlan(tuple(reversed(chain)), leaf, statistic, rows)


def slice_run(source: Source, start: int, stop: int) -> RunSlice:
    """What is needed to read rows start..stop of `source`."""
    picks: list[range | Array] = []
    while isinstance(source, View | DerivedSource):
        if isinstance(source, View):
            picked = source.rows[start:stop]
            start, stop = int(picked[0]), int(picked[-1]) + 1
            picks.append(range(stop - start) if isinstance(picked, range) else _compact(picked - start))
        source = source.origin
    return RunSlice(start, stop, tuple(reversed(picks)))


def sum_run(plan: PassPlan, where: RunSlice, rows: RunRows) -> Sums | RunFailure:
    """The sum of a run's blocks, one node of the tree."""
    try:
        return pairwise_sum(_blocks(plan, where, rows))
    except LaybareError as error:
        return RunFailure(error)


def list_run(plan: PassPlan, where: RunSlice, rows: RunRows) -> list[Sums] | RunFailure:
    """The results of a run's blocks, one by one."""
    try:
        return list(_blocks(plan, where, rows))
    except LaybareError as error:
        return RunFailure(error)


def sum_nodes(nodes: Sequence[Sums | RunFailure]) -> Sums | RunFailure:
    """The sum of nodes of one level, or the first failure among them."""
    failure = next((node for node in nodes if isinstance(node, RunFailure)), None)
    if failure is not None:
        return failure
    try:
        return pairwise_sum(node for node in nodes if not isinstance(node, RunFailure))
    except LaybareError as error:
        return RunFailure(error)


def _blocks(plan: PassPlan, where: RunSlice, rows: RunRows) -> Iterator[Sums]:
    """Block by block, in order."""
    source = _rebuild_source(plan, where, rows)
    for start in range(0, source.size, plan.rows):
        yield evaluate_block(source.read, plan.statistic, source.size, plan.rows, start)


def _rebuild_source(plan: PassPlan, where: RunSlice, rows: RunRows) -> Source:
    source = _leaf(plan, where, rows)
    picks = iter(where.picks)
    for level in plan.chain:
        if isinstance(level, View):
            source = replace(level, origin=source, rows=next(picks))
        else:
            source = replace(level, origin=source)
    return source


def _leaf(plan: PassPlan, where: RunSlice, rows: RunRows) -> Source:
    """Rows low..high of the leaf."""
    if isinstance(rows, tuple):
        x, y = (StackedArrays([check_block(np.asarray(chunk.values), chunk.rows, chunk.name) for chunk in part]) for part in rows)
        return StackedRows(x, y)
    if rows is not None:
        return rows
    assert plan.leaf is not None
    return View(plan.leaf, range(where.low, where.high), Affine.identity(plan.leaf.dim), Unknown(), Schedule())


def _compact(picked: Array) -> Array:
    """Row indices of a run as int32."""
    return picked.astype(row_index_dtype(int(picked[-1])), copy=False)


def _empty_source(dim: int, outputs: int) -> Source:
    return StackedRows(StackedArrays([np.empty((0, dim))]), StackedArrays([np.empty((0, outputs))]))




Graph = dict[Any, Any]
Run = Callable[[PassPlan, RunSlice, RunRows], Any]


class Chunk(NamedTuple):
    """A chunk of an array: its key in the graph, its rows start..stop, its name in error messages."""

    key: Any
    start: int
    stop: int
    name: str


@runtime_checkable
class ChunkedLeaf(Protocol):
    """A leaf whose rows are in chunks on the cluster."""

    graph: Graph
    x_chunks: tuple[Chunk, ...]
    y_chunks: tuple[Chunk, ...]


@runtime_checkable
class RedrawableLeaf(Protocol):
    """A leaf whose answers are in this process and whose inputs can be drawn anywhere."""

    def as_redrawn(self, start: int, stop: int) -> Source:
        """Rows start..stop as a source that a worker can read."""


def is_portable(leaf: Any) -> bool:
    """Whether the leaf can be sent to a worker: it describes its rows and holds none."""
    return bool(getattr(leaf, "is_portable", False))


class ChunkCut(NamedTuple):
    """Rows start..stop of a chunk that should have `rows` rows."""

    start: int
    stop: int
    rows: int
    name: str

    @property
    def whole(self) -> bool:
        return self.stop - self.start == self.rows


def run_tasks(source: Source, plan: PassPlan, run: Run, workers: int, send: Callable[[Source], Any]) -> tuple[Graph, list[str]]:
    """The graph of all runs of a pass, and their keys in order; `send` sends the answers of a black box to the workers."""
    leaf = leaf_of(source)
    shared, name = new_key("work"), new_key("run")
    graph: Graph = {shared: (partial(_identity, plan),), **(leaf.graph if isinstance(leaf, ChunkedLeaf) else {})}
    step = plan.rows * _blocks_per_run(source, leaf, plan.rows, workers)
    starts = range(0, source.size, step)
    for start in starts:
        where = slice_run(source, start, min(start + step, source.size))
        graph[f"{name}-{start}"] = _run_task(graph, leaf, run, where, shared, send)
    return graph, [f"{name}-{start}" for start in starts]


def sum_tasks(graph: Graph, nodes: list[str]) -> str:
    """Add tasks that sum these nodes, in groups of `fan_in`, to the graph; returns the key of the last."""
    name, level, fan_in = new_key("sum"), 0, CLUSTER.fan_in
    while len(nodes) > 1 or level == 0:
        groups = [nodes[at : at + fan_in] for at in range(0, len(nodes), fan_in)]
        nodes = [f"{name}-{level}-{number}" for number in range(len(groups))]
        graph.update((key, (sum_nodes, group)) for key, group in zip(nodes, groups, strict=True))
        level += 1
    return nodes[0]


def new_key(name: str) -> str:
    """A key that no other task has."""
    return f"laybare-{name}-{uuid.uuid4().hex[:12]}"


def _run_task(
    graph: Graph, leaf: Source, run: Run, where: RunSlice, shared: str, send: Callable[[Source], Any]
) -> tuple[Any, ...]:
    if isinstance(leaf, ChunkedLeaf):
        cuts = [list(_cuts(chunks, where.low, where.high)) for chunks in (leaf.x_chunks, leaf.y_chunks)]
        alone = all(len(part) == 1 for part in cuts)
        keys = [[chunk.key if alone or cut.whole else _cut_task(graph, chunk, cut) for chunk, cut in part] for part in cuts]
        return partial(_run_on_chunks, run, where, [[cut for _, cut in part] for part in cuts]), shared, *keys
    if isinstance(leaf, RedrawableLeaf):
        key = new_key("answers")
        graph[key] = send(leaf.as_redrawn(where.low, where.high))
        return partial(_run_on_source, run, where), shared, key
    return partial(_run_on_source, run, where), shared


def _cuts(chunks: Sequence[Chunk], low: int, high: int) -> Iterator[tuple[Chunk, ChunkCut]]:
    """The cuts of chunks that make up rows low..high."""
    first = int(np.searchsorted([chunk.stop for chunk in chunks], low, side="right"))
    for chunk in chunks[first:]:
        if chunk.start >= high:
            return
        start, stop = (min(max(row, chunk.start), chunk.stop) - chunk.start for row in (low, high))
        yield chunk, ChunkCut(start, stop, chunk.stop - chunk.start, chunk.name)


def _cut_task(graph: Graph, chunk: Chunk, cut: ChunkCut) -> str:
    """A task that cuts rows out of a chunk on the worker that has it: only these rows are sent."""
    key = new_key("rows")
    graph[key] = (partial(_rows_of, cut), chunk.key)
    return key


def _rows_of(cut: ChunkCut, chunk: Array) -> Array:
    """Rows of a chunk; the whole chunk if its length is wrong: `check_block` then raises an error that names it."""
    return chunk[cut.start : cut.stop] if len(chunk) == cut.rows else chunk


def _chunk_rows(cut: ChunkCut, given: Array) -> ChunkRows:
    values = given if cut.whole or len(given) == cut.stop - cut.start else _rows_of(cut, given)
    return ChunkRows(np.asarray(values), cut.stop - cut.start, cut.name)


def _identity(plan: PassPlan) -> PassPlan:
    return plan


def _run_on_chunks(run: Run, where: RunSlice, cuts: list[list[ChunkCut]], plan: PassPlan, x: list[Array], y: list[Array]) -> Any:
    of_x, of_y = ([_chunk_rows(*both) for both in zip(part, some, strict=True)] for part, some in zip(cuts, (x, y), strict=True))
    keep_freed_memory()
    return run(plan, where, (of_x, of_y))


def _run_on_source(run: Run, where: RunSlice, plan: PassPlan, rows: Source | None = None) -> Any:
    keep_freed_memory()
    return run(plan, where, rows)


def _blocks_per_run(source: Source, leaf: Source, rows: int, workers: int) -> int:
    """A power of two: half a chunk, or `run_bytes`; fewer if workers would be idle otherwise."""
    wanted = CLUSTER.run_bytes / (8 * (source.dim + source.outputs))
    if isinstance(leaf, ChunkedLeaf):
        wanted = float(np.median([chunk.stop - chunk.start for chunk in leaf.x_chunks])) / 2
    wanted = min(wanted, source.size / (2 * workers))
    return int(2 ** np.floor(np.log2(max(1.0, wanted / rows))))


Result = TypeVar("Result")


@dataclass(frozen=True)
class DaskEngine:
    """Sums blocks on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional; by default the current client, or Dask's threads in this process if there is none

    Workers read the rows of DaskSamples, of files that stay on disk (under the same path on every worker), of a Simulation and
    of an Oracle. Rows in this process are summed here.
    """

    client: Any = None

    def can_read(self, source: Source) -> bool:
        """Whether workers can read these rows."""
        leaf = leaf_of(source)
        return isinstance(leaf, ChunkedLeaf | RedrawableLeaf) or is_portable(leaf)

    def sum_blocks(self, source: Source, statistic: Statistic, rows: int) -> Sums:
        """`statistic` summed over all rows; one pass."""

        def once() -> Sums:
            graph, nodes = self._runs(source, statistic, rows, sum_run)
            sums: Sums = _unwrap(self.compute(graph, [sum_tasks(graph, nodes)])[0])
            return sums

        return self._with_retries(once, source)

    def map_blocks(self, source: Source, function: Statistic, rows: int) -> Iterator[Sums]:
        """Results of `function` for all blocks, in order."""
        graph, nodes = self._runs(source, function, rows, list_run)
        for at in range(0, len(nodes), CLUSTER.window):
            some = nodes[at : at + CLUSTER.window]
            for run in self._with_retries(lambda some=some: self.compute(graph, some), source):  # type: ignore[misc]
                yield from _unwrap(run)

    def find_client(self) -> Any:
        """The client in use, or None."""
        if self.client is not None or "distributed" not in sys.modules:
            return self.client
        try:
            return sys.modules["distributed"].default_client()
        except ValueError:
            return None

    def workers(self) -> int:
        """Threads of all workers; 1 if there is no cluster."""
        client = self.find_client()
        return 1 if client is None else max(1, sum(client.nthreads().values()))

    def compute(self, graph: Graph, keys: Sequence[Any], *, retries: int = CLUSTER.retries) -> list[Any]:
        """The results of these keys."""
        try:
            from dask import compute
            from dask.delayed import Delayed
        except ImportError:
            raise InvalidInput(
                "Dask is not installed.", "A DaskEngine needs it.", "Run pip install 'laybare[dask]'.") from None
        wanted = [Delayed(key, graph) for key in keys]
        client = self.find_client()
        if client is None:
            return list(compute(*wanted, scheduler="threads"))
        with client.as_current():
            return _gather(client, client.compute(wanted, retries=retries))

    def send(self, rows: Source) -> Any:
        """Send a small source to the workers; itself if there are none."""
        client = self.find_client()
        return rows if client is None else client.scatter(rows, hash=False)

    def _runs(self, source: Source, statistic: Statistic, rows: int, run: Run) -> tuple[Graph, list[str]]:
        leaf = leaf_of(source)
        work = plan_pass(source, leaf if is_portable(leaf) else None, statistic, rows)
        return run_tasks(source, work, run, self.workers(), self.send)

    def _with_retries(self, once: Callable[[], Result], source: Source) -> Result:
        """Try again if data were lost with a worker; else raise an error that names the broken block, or the cluster."""
        for attempt in range(CLUSTER.retries + 1):
            try:
                return once()
            except LaybareError:
                raise
            except (Exception, CancelledError) as error:
                if attempt == CLUSTER.retries or not self._alive():
                    raise self._cause(error, leaf_of(source)) from error
                broken = self._broken_chunk(leaf_of(source)) if not _is_lost(error) else None
                if broken is not None:
                    raise broken from error
        raise AssertionError

    def _alive(self) -> bool:
        client = self.find_client()
        return client is not None and getattr(client, "status", "") == "running"

    def _cause(self, error: BaseException, leaf: Source) -> LaybareError:
        if self._alive() or self.find_client() is None:
            broken = self._broken_chunk(leaf)
            if broken is not None:
                return broken
        return ClusterFailure(
            f"The cluster could not finish a pass ({type(error).__name__}: {_first_line(error)}).",
            "A sum needs all of its blocks.",
            "Check the workers' logs and memory, restart the cluster and call again; with checkpoint= the call continues where "
            "it stopped.", error=type(error).__name__)

    def _broken_chunk(self, leaf: Source) -> InvalidInput | None:
        """The error for the first chunk that cannot be computed, if there is one."""
        if not isinstance(leaf, ChunkedLeaf):
            return None
        for chunk in (*leaf.x_chunks, *leaf.y_chunks):
            graph, key = dict(leaf.graph), new_key("probe")
            graph[key] = (len, chunk.key)
            try:
                self.compute(graph, [key], retries=0)
            except (Exception, CancelledError) as error:
                return _unreadable(chunk, error)
        return None


def _unreadable(chunk: Chunk, error: BaseException) -> InvalidInput:
    return InvalidInput(
        f"{chunk.name} cannot be computed ({type(error).__name__}: {_first_line(error)}).",
        "A pass needs every block.", "Write that block again, and call again.", block=chunk.name)


def _gather(client: Any, futures: list[Any]) -> list[Any]:
    """The results; raises ClusterFailure after `patience` seconds without workers."""
    from distributed import wait

    idle, patience = 0.0, CLUSTER.patience
    while True:
        try:
            wait(futures, timeout=patience / 6)
            return list(client.gather(futures))
        except TimeoutError:
            idle = 0.0 if client.nthreads() else idle + patience / 6
            if idle >= patience:
                client.cancel(futures, force=True)
                raise ClusterFailure(
                    f"The cluster has had no worker for {patience:.0f} seconds.", "A pass needs at least one.",
                    "Start workers and call again; with checkpoint= the call continues where it stopped.") from None


def _unwrap(result: Any) -> Any:
    if isinstance(result, RunFailure):
        raise result.error
    return result


def _is_lost(error: BaseException) -> bool:
    """Whether results were lost with a worker, which is no error in the data."""
    return isinstance(error, CancelledError) or type(error).__name__ in ("FutureCancelledError", "CommClosedError")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


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
