"""A cluster on this machine: two workers against one, one against the plain source. One core each, same chunks and passes."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from measure import Row, row, seconds

SIZE, DIM, WIDTH = 4_000_000, 30, 12
CHUNK = 250_000
"""Rows of a chunk: 62 MB."""


class Passes(NamedTuple):
    """Seconds of a pass for all moments up to order 4, and of one for the normal equations."""

    moments: float
    gauss_newton: float


def bench_dask_speedup() -> Iterator[Row]:
    """Two single-thread workers against one."""
    if not _installed():
        return
    one, two = _on_cluster(1), _on_cluster(2)
    yield row("dask-speedup-moments", ours=two.moments, baseline=one.moments, need=1.6)
    yield row("dask-speedup-gauss-newton", ours=two.gauss_newton, baseline=one.gauss_newton, need=1.6)


def bench_dask_overhead() -> Iterator[Row]:
    """One worker against the plain source on one thread: at most a quarter slower."""
    if not _installed():
        return
    one, plain = _on_cluster(1), _plain()
    yield row("dask-overhead-moments", ours=one.moments, baseline=plain.moments, need=0.8)
    yield row("dask-overhead-gauss-newton", ours=one.gauss_newton, baseline=plain.gauss_newton, need=0.8)


def _installed() -> bool:
    if importlib.util.find_spec("distributed") is None:
        print("dask: skipped, since the extra is absent (pip install 'laybare[dask]').")
        return False
    return True


@lru_cache
def _on_cluster(workers: int) -> Passes:
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    import laybare as lb

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0,
        silence_logs=logging.ERROR,
    ) as cluster, Client(cluster):
        x = da.random.default_rng(0).standard_normal((SIZE, DIM), chunks=(CHUNK, DIM)).persist()
        y = da.tanh(x[:, 0]).persist()
        wait([x, y])
        return _timed(lb.DaskSamples(x, y))


@lru_cache
def _plain() -> Passes:
    import laybare as lb

    x = np.random.default_rng(0).standard_normal((SIZE, DIM))
    return _timed(lb.Samples(x, np.tanh(x[:, 0]), schedule=lb.source.Schedule(workers=1)))


def _timed(source: Any) -> Passes:
    import laybare as lb
    from laybare.moments import packed_moments
    from laybare.solver.normal import StepStatistic
    from laybare.solver.point import point_of

    step = StepStatistic(point_of(lb.random_network(DIM, WIDTH, rng=1), biases=True, offset=True, linear=False))
    small = source.take(4 * 1024 * 16)
    packed_moments(small, 4)
    small.sum(step)
    return Passes(seconds(lambda: packed_moments(source, 4)), seconds(lambda: source.sum(step)))
