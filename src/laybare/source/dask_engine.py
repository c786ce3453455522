"""Passes on a Dask cluster: runs of blocks are summed where their rows are, and the runs in a tree on the workers.

A pass is one graph (`dask_graph`). Its tasks are runs of 2^j blocks, about half a chunk each: every run is a node of the tree
of `laybare.source.sums`, and the bits are those of a local pass. A run whose rows are in one chunk goes to the worker that has
it; at the border of two chunks only the rows of that run are sent. The statistic and the maps of the views are sent once to
each worker.

Tasks are pure, so Dask may move and repeat them. Errors in the data (NaN, missing rows) come back as results that name the
block. Failures of the cluster are retried, then raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from laybare.errors import ClusterFailure, InvalidInput, LaybareError
from laybare.numerics.shapes import Statistic, Sums
from laybare.source.dask_graph import (
    CLUSTER,
    Chunk,
    ChunkedLeaf,
    Graph,
    RedrawableLeaf,
    Run,
    RunFailure,
    is_portable,
    list_run,
    new_key,
    plan_pass,
    run_tasks,
    sum_run,
    sum_tasks,
)
from laybare.source.protocol import Source
from laybare.source.views import leaf_of

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
