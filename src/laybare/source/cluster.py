"""Passes on a Dask cluster: runs of blocks are added up where their rows are, and the runs in a tree on the workers.

A pass is one graph (`run_graph`). Its tasks are runs of 2^j blocks, about half a chunk each, so every run is a node of the
tree of `laybare.source.tree` and the bits are those of the local pass. A run whose rows lie in one chunk goes to the worker
that has it; at the border of two chunks only the rows of that run move. The statistic and the maps of the views are sent once
to each worker.

Dask moves, repeats and forgets tasks as it likes: they are pure, so that changes nothing. What belongs to the data (NaN, rows
that are missing) comes back as a finding, by the name of its block. What belongs to the cluster is tried again, then said in
a sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from laybare.errors import ClusterFailure, InvalidInput, LaybareError
from laybare.shapes import Statistic, Sums
from laybare.source.portions import RunFault, added_run, listed_run, work_of
from laybare.source.protocol import Source
from laybare.source.run_graph import Bought, Chunk, Chunked, Graph, Run, new_key, run_tasks, travels, tree_tasks
from laybare.source.views import leaf_of

WINDOW = 16
"""Runs whose results are under way to this process at a time."""

RETRIES = 2
"""Times that a task which stumbles (a disk that does not answer), or a pass that lost its data, is tried again."""

PATIENCE = 60.0
"""Seconds without a single worker after which a pass is given up."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class DaskEngine:
    """Adds up blocks on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional; by default the client that is there, and without one Dask's threads in this process

    Rows of DaskSamples, of files that stay on disk (which every worker must see under the same path), of a Simulation and of an
    Oracle are read by the workers. Rows that lie in this process are added up here.
    """

    client: Any = None

    def carries(self, source: Source) -> bool:
        """Whether workers can read these rows."""
        leaf = leaf_of(source)
        return isinstance(leaf, Chunked | Bought) or travels(leaf)

    def total(self, source: Source, statistic: Statistic, rows: int) -> Sums:
        """One pass."""

        def once() -> Sums:
            graph, nodes = self._runs(source, statistic, rows, added_run)
            sums: Sums = _opened(self.computed(graph, [tree_tasks(graph, nodes)])[0])
            return sums

        return self._patiently(once, source)

    def results(self, source: Source, function: Statistic, rows: int) -> Iterator[Sums]:
        """What `function` returns for each block, in order."""
        graph, nodes = self._runs(source, function, rows, listed_run)
        for at in range(0, len(nodes), WINDOW):
            some = nodes[at : at + WINDOW]
            for run in self._patiently(lambda some=some: self.computed(graph, some), source):  # type: ignore[misc]
                yield from _opened(run)

    def found(self) -> Any:
        """The client, or None."""
        if self.client is not None or "distributed" not in sys.modules:
            return self.client
        try:
            return sys.modules["distributed"].default_client()
        except ValueError:
            return None

    def workers(self) -> int:
        """Threads of all workers; 1 if there is no cluster."""
        client = self.found()
        return 1 if client is None else max(1, sum(client.nthreads().values()))

    def computed(self, graph: Graph, keys: Sequence[Any], *, retries: int = RETRIES) -> list[Any]:
        """The results of these keys."""
        try:
            from dask import compute
            from dask.delayed import Delayed
        except ImportError:
            raise InvalidInput(
                "Dask is not installed.", "A DaskEngine hands its passes to it.", "Run pip install 'laybare[dask]'.") from None
        wanted = [Delayed(key, graph) for key in keys]
        client = self.found()
        if client is None:
            return list(compute(*wanted, scheduler="threads"))
        with client.as_current():
            return _gathered(client, client.compute(wanted, retries=retries))

    def send(self, rows: Source) -> Any:
        """Something small onto the workers; by itself where there are none."""
        client = self.found()
        return rows if client is None else client.scatter(rows, hash=False)

    def _runs(self, source: Source, statistic: Statistic, rows: int, run: Run) -> tuple[Graph, list[str]]:
        leaf = leaf_of(source)
        work = work_of(source, leaf if travels(leaf) else None, statistic, rows)
        return run_tasks(source, work, run, self.workers(), self.send)

    def _patiently(self, once: Callable[[], Result], source: Source) -> Result:
        """Tried again where data were lost on the way; else the block that cannot be computed, or the cluster, is named."""
        for attempt in range(RETRIES + 1):
            try:
                return once()
            except LaybareError:
                raise
            except (Exception, CancelledError) as error:
                if attempt == RETRIES or not self._alive():
                    raise self._cause(error, leaf_of(source)) from error
                broken = self._broken_chunk(leaf_of(source)) if not _lost(error) else None
                if broken is not None:
                    raise broken from error
        raise AssertionError

    def _alive(self) -> bool:
        client = self.found()
        return client is not None and getattr(client, "status", "") == "running"

    def _cause(self, error: BaseException, leaf: Source) -> LaybareError:
        if self._alive() or self.found() is None:
            broken = self._broken_chunk(leaf)
            if broken is not None:
                return broken
        return ClusterFailure(
            f"The cluster gave up a pass ({type(error).__name__}: {_first_line(error)}).",
            "Without all of its blocks there is no sum, and none is made up.",
            "Look at the workers' logs and memory, start the cluster again and call again; with checkpoint= the call goes on "
            "where it stopped.", error=type(error).__name__)

    def _broken_chunk(self, leaf: Source) -> InvalidInput | None:
        """The first chunk that cannot be computed by itself, if there is one."""
        if not isinstance(leaf, Chunked):
            return None
        for chunk in (*leaf.x_chunks, *leaf.y_chunks):
            graph, key = dict(leaf.graph), new_key("probe")
            graph[key] = (len, chunk.key)
            try:
                self.computed(graph, [key], retries=0)
            except (Exception, CancelledError) as error:
                return _unreadable(chunk, error)
        return None


def _unreadable(chunk: Chunk, error: BaseException) -> InvalidInput:
    return InvalidInput(
        f"{chunk.name} cannot be computed ({type(error).__name__}: {_first_line(error)}).",
        "A pass needs every block.", "Mend or write that block again, and call again.", block=chunk.name)


def _gathered(client: Any, futures: list[Any]) -> list[Any]:
    """The results, as long as there is anybody to work on them."""
    from distributed import wait

    idle = 0.0
    while True:
        try:
            wait(futures, timeout=PATIENCE / 6)
            return list(client.gather(futures))
        except TimeoutError:
            idle = 0.0 if client.nthreads() else idle + PATIENCE / 6
            if idle >= PATIENCE:
                client.cancel(futures, force=True)
                raise ClusterFailure(
                    f"The cluster has had no worker for {PATIENCE:.0f} seconds.", "A pass needs at least one.",
                    "Start workers and call again; with checkpoint= the call goes on where it stopped.") from None


def _opened(result: Any) -> Any:
    if isinstance(result, RunFault):
        raise result.error
    return result


def _lost(error: BaseException) -> bool:
    """Whether results went away with a worker, which says nothing about the data."""
    return isinstance(error, CancelledError) or type(error).__name__ in ("FutureCancelledError", "CommClosedError")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]
