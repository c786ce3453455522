"""Faults of a cluster in the middle of a pass: the same sum, or one sentence that says what broke; never another sum."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask_clusters import local_cluster
from numpy.testing import assert_array_equal

import laybare as lb
from laybare.numerics.shapes import Array, Sums
from laybare.source import dask_engine as engine
from laybare.source.dask_engine import ClusterOptions, RunFailure, sum_nodes

pytestmark = pytest.mark.usefixtures("unchecked")
SIZE = 24_000


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    x = np.random.default_rng(0).standard_normal((SIZE, 3))
    return x, np.tanh(x[:, 0])


def on(client: Any, x: Any, y: Any, **more: Any) -> lb.DaskSamples:
    schedule = lb.source.Schedule(block_bytes=1, keep_bytes=0, engine=lb.source.DaskEngine(client))
    return lb.DaskSamples(x, y, schedule=schedule, **more)


def chunked(data: tuple[Array, Array], rows: int = 4096) -> list[Any]:
    return [da.from_array(part, chunks=(rows, *part.shape[1:])) for part in data]


def gram(x: Array, y: Array) -> Sums:
    return x.T @ x, x.T @ y


def slow_gram(x: Array, y: Array) -> Sums:
    time.sleep(0.02)
    return gram(x, y)


def check_killed_workers(data: tuple[Array, Array], kills: int, seed: int = 1) -> None:
    """A worker process is killed -9 at a random moment of a pass; the nanny starts another."""
    expected = lb.Samples(*data, schedule=lb.source.Schedule(block_bytes=1)).sum(gram)
    rng = np.random.default_rng(seed)
    with local_cluster(2, processes=True) as client:
        source = on(client, *(part.persist(scheduler=client) for part in chunked(data)))
        for _ in range(kills):
            client.wait_for_workers(2, timeout=60)
            victim = list(client.run(os.getpid).values())[int(rng.integers(2))]
            killer = threading.Timer(float(rng.uniform(0.0, 0.4)), os.kill, (victim, signal.SIGKILL))
            killer.start()
            for here, there in zip(expected, source.sum(slow_gram), strict=True):
                assert_array_equal(here, there)
            killer.join(30.0)


def test_a_killed_worker_changes_nothing(data: tuple[Array, Array]) -> None:
    check_killed_workers(data, 1)


@pytest.mark.slow
def test_twenty_killed_workers_change_nothing(data: tuple[Array, Array]) -> None:
    """Two of each cluster: a nanny whose workers die again and again may give up, which is not what is tested."""
    for seed in range(10):
        check_killed_workers(data, 2, seed)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_cluster(2, processes=False) as client:
        yield client


def with_block(array: Any, number: int, make: Any) -> Any:
    """The array with one block made by a function of it, announced as it was."""
    blocks = list(array.to_delayed().ravel())
    blocks[number] = dask.delayed(make)(blocks[number])
    shapes = [(length, *array.shape[1:]) for length in array.chunks[0]]
    parts = [da.from_delayed(block, shape, array.dtype) for block, shape in zip(blocks, shapes, strict=True)]
    return da.concatenate(parts)


def _raise(block: Array) -> Array:
    raise OSError("the disk does not answer")


def _nan(block: Array) -> Array:
    block = block.copy()
    block[17] = np.nan
    return block


FAULTS = {
    "short": (lambda block: block[:-5], r"Block 2 of x \(rows 8192 to 12288\) is an array of shape \(4091, 3\)"),
    "long": (lambda block: np.vstack([block, block]), r"Block 2 of x .* is an array of shape \(8192, 3\)"),
    "nan": (_nan, r"Block 2 of x .* has nan in column 0, row 17"),
    "broken": (_raise, r"Block 2 of x .* cannot be computed \(OSError: the disk does not answer\)"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("workers", ["cluster", "threads"])
def test_a_block_that_is_wrong_is_named(fault: str, workers: str, data: tuple[Array, Array], client: Any) -> None:
    make, sentence = FAULTS[fault]
    x, y = chunked(data)
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        on(client if workers == "cluster" else None, with_block(x, 2, make), y)


def test_a_block_that_breaks_in_a_later_pass_is_named(data: tuple[Array, Array], client: Any) -> None:
    broken = threading.Event()

    def reading(block: Array) -> Array:
        return _nan(block) if broken.is_set() else block

    x, y = chunked(data)
    with dask.config.set(scheduler="threads"):
        source = on(None, with_block(x, 1, reading), y)
        first = source.sum(gram)
        assert_array_equal(first[0], source.sum(gram)[0])
        broken.set()
        with pytest.raises(lb.errors.InvalidInput, match="Block 1 of x"):
            source.sum(gram)


def test_a_disk_that_answers_at_the_second_try_changes_nothing(data: tuple[Array, Array], client: Any) -> None:
    tries: list[int] = []
    lock = threading.Lock()

    def reading(block: Array) -> Array:
        with lock:
            tries.append(1)
        if len(tries) % 2:
            raise OSError("not now")
        return block

    _TRIES["reading"] = reading
    x, y = chunked(data)
    source = on(client, with_block(x, 0, _reading), y)
    assert_array_equal(source.sum(gram)[0], lb.Samples(*data, schedule=lb.source.Schedule(block_bytes=1)).sum(gram)[0])
    assert len(tries) > 3


_TRIES: dict[str, Any] = {}


def _reading(block: Array) -> Array:
    """By its name in this module: threads of the cluster are threads of this process."""
    from importlib import import_module

    return import_module(__name__)._TRIES["reading"](block)


def test_an_error_in_a_statistic_is_told(data: tuple[Array, Array], client: Any) -> None:
    def faulty(x: Array, y: Array) -> Sums:
        raise ZeroDivisionError("in the statistic")

    def ragged(x: Array, y: Array) -> Sums:
        return (np.zeros(2 + int(x[0, 0] > 0)),)

    source = on(client, *chunked(data))
    with pytest.raises(lb.errors.ClusterFailure, match="ZeroDivisionError: in the statistic"):
        source.sum(faulty)
    with pytest.raises(lb.errors.InvalidInput, match="shapes"):
        source.sum(ragged)


def test_a_fault_is_never_added_to_a_sum() -> None:
    fault = RunFailure(lb.errors.InvalidInput("seen.", "why.", "do."))
    assert sum_nodes([(np.ones(2),), fault, (np.ones(2),)]) is fault


def test_a_scheduler_that_is_lost_is_one_sentence(data: tuple[Array, Array]) -> None:
    quick = {"distributed.comm.timeouts.connect": "1s", "distributed.comm.timeouts.tcp": "2s"}
    with dask.config.set(quick), local_cluster(1, processes=False) as client:
        source = on(client, *chunked(data))
        closing = threading.Timer(0.2, lambda: client.sync(client.cluster.scheduler.close))
        closing.start()
        with pytest.raises(lb.errors.ClusterFailure, match="checkpoint="):
            many_passes(source)
        closing.join(30.0)


def many_passes(source: lb.Source) -> None:
    for _ in range(200):
        source.sum(slow_gram)


def test_a_cluster_without_workers_is_given_up(data: tuple[Array, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLUSTER", ClusterOptions(patience=0.6))
    with local_cluster(1, processes=False) as client:
        source = on(client, *chunked(data))
        client.cluster.scale(0)
        until = time.monotonic() + 30.0
        while client.scheduler_info()["workers"] and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(lb.errors.ClusterFailure, match="no worker"):
            source.sum(gram)
