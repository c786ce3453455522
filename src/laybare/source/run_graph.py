"""The graph of a pass: tasks that add up runs of blocks where their rows are, and tasks that add up the runs.

Tasks are written as Dask's graph specification has them: a function, then keys of other tasks. Everything else is bound to the
function, so that Dask does not look for keys in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.shapes import Array
from laybare.source.portions import ChunkRows, RunRows, Share, Work, added_nodes, share_of
from laybare.source.protocol import Source
from laybare.source.views import leaf_of
from laybare.workspace import keep_freed_memory

RUN_BYTES = 32 << 20
"""Rows of a run where there are no chunks: a tenth of a second of work or more, against a millisecond or two for a task."""

FAN = 8
"""Nodes that one task adds up; a power of two, so that what it returns is a node."""

Graph = dict[Any, Any]
Run = Callable[[Work, Share, RunRows], Any]


class Chunk(NamedTuple):
    """A chunk of an array: its key in the graph, its rows start..stop, and what it is called."""

    key: Any
    start: int
    stop: int
    name: str


@runtime_checkable
class Chunked(Protocol):
    """A leaf whose rows lie in chunks on the cluster."""

    graph: Graph
    x_chunks: tuple[Chunk, ...]
    y_chunks: tuple[Chunk, ...]


@runtime_checkable
class Bought(Protocol):
    """A leaf whose answers lie in this process and whose inputs can be drawn anywhere."""

    def bought(self, start: int, stop: int) -> Source:
        """Rows start..stop as a source that a worker can read."""


def travels(leaf: Any) -> bool:
    """Whether the leaf itself can be sent: it says where rows are, and has none."""
    return bool(getattr(leaf, "travels", False))


class ChunkCut(NamedTuple):
    """Rows start..stop of a chunk that should have so many rows."""

    start: int
    stop: int
    rows: int
    name: str

    @property
    def whole(self) -> bool:
        return self.stop - self.start == self.rows


def run_tasks(source: Source, work: Work, run: Run, workers: int, send: Callable[[Source], Any]) -> tuple[Graph, list[str]]:
    """All runs of a pass and their keys in order; `send` puts the answers of a black box where workers find them."""
    leaf = leaf_of(source)
    shared, name = new_key("work"), new_key("run")
    graph: Graph = {shared: (partial(_handed, work),), **(leaf.graph if isinstance(leaf, Chunked) else {})}
    step = work.rows * _blocks_of_a_run(source, leaf, work.rows, workers)
    starts = range(0, source.size, step)
    for start in starts:
        share = share_of(source, start, min(start + step, source.size))
        graph[f"{name}-{start}"] = _run_task(graph, leaf, run, share, shared, send)
    return graph, [f"{name}-{start}" for start in starts]


def tree_tasks(graph: Graph, nodes: list[str]) -> str:
    """Tasks that add up these nodes, FAN at a time, put into the graph; the key of the last."""
    name, level = new_key("sum"), 0
    while len(nodes) > 1 or level == 0:
        groups = [nodes[at : at + FAN] for at in range(0, len(nodes), FAN)]
        nodes = [f"{name}-{level}-{number}" for number in range(len(groups))]
        graph.update((key, (added_nodes, group)) for key, group in zip(nodes, groups, strict=True))
        level += 1
    return nodes[0]


def new_key(name: str) -> str:
    """A key that no other task has."""
    return f"laybare-{name}-{uuid.uuid4().hex[:12]}"


def _run_task(graph: Graph, leaf: Source, run: Run, share: Share, shared: str, send: Callable[[Source], Any]) -> tuple[Any, ...]:
    if isinstance(leaf, Chunked):
        cuts = [list(_cuts(chunks, share.low, share.high)) for chunks in (leaf.x_chunks, leaf.y_chunks)]
        alone = all(len(part) == 1 for part in cuts)
        keys = [[chunk.key if alone or cut.whole else _moved(graph, chunk, cut) for chunk, cut in part] for part in cuts]
        return partial(_with_pieces, run, share, [[cut for _, cut in part] for part in cuts]), shared, *keys
    if isinstance(leaf, Bought):
        key = new_key("answers")
        graph[key] = send(leaf.bought(share.low, share.high))
        return partial(_with_rows, run, share), shared, key
    return partial(_with_rows, run, share), shared


def _cuts(chunks: Sequence[Chunk], low: int, high: int) -> Iterator[tuple[Chunk, ChunkCut]]:
    """The parts of chunks that make up rows low..high."""
    first = int(np.searchsorted([chunk.stop for chunk in chunks], low, side="right"))
    for chunk in chunks[first:]:
        if chunk.start >= high:
            return
        start, stop = (min(max(row, chunk.start), chunk.stop) - chunk.start for row in (low, high))
        yield chunk, ChunkCut(start, stop, chunk.stop - chunk.start, chunk.name)


def _moved(graph: Graph, chunk: Chunk, cut: ChunkCut) -> str:
    """A task that cuts rows out of a chunk, where the chunk is: only they move."""
    key = new_key("rows")
    graph[key] = (partial(_rows_of, cut), chunk.key)
    return key


def _rows_of(cut: ChunkCut, chunk: Array) -> Array:
    """Rows of a chunk; all that there is if it has not the length that was announced, which is refused later by name."""
    return chunk[cut.start : cut.stop] if len(chunk) == cut.rows else chunk


def _piece(cut: ChunkCut, given: Array) -> ChunkRows:
    values = given if cut.whole or len(given) == cut.stop - cut.start else _rows_of(cut, given)
    return ChunkRows(np.asarray(values), cut.stop - cut.start, cut.name)


def _handed(work: Work) -> Work:
    return work


def _with_pieces(run: Run, share: Share, cuts: list[list[ChunkCut]], work: Work, x: list[Array], y: list[Array]) -> Any:
    of_x, of_y = ([_piece(*both) for both in zip(part, some, strict=True)] for part, some in zip(cuts, (x, y), strict=True))
    keep_freed_memory()
    return run(work, share, (of_x, of_y))


def _with_rows(run: Run, share: Share, work: Work, rows: Source | None = None) -> Any:
    keep_freed_memory()
    return run(work, share, rows)


def _blocks_of_a_run(source: Source, leaf: Source, rows: int, workers: int) -> int:
    """A power of two: half a chunk, or what takes RUN_BYTES; fewer if workers would have nothing to do."""
    wanted = RUN_BYTES / (8 * (source.dim + source.outputs))
    if isinstance(leaf, Chunked):
        wanted = float(np.median([chunk.stop - chunk.start for chunk in leaf.x_chunks])) / 2
    wanted = min(wanted, source.size / (2 * workers))
    return int(2 ** np.floor(np.log2(max(1.0, wanted / rows))))
