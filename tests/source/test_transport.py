"""Black boxes asked by workers: the same rows, answers, counts and log as when they are asked from here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_clusters import local_cluster
from numpy.testing import assert_array_equal

import laybare as lb
from laybare.numerics.shapes import Array, Sums
from laybare.source import GRAIN

TRUTH = lb.random_network(3, 2, rng=1)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_cluster(2, processes=False) as client:
        yield client


def oracle(client: Any, target: Any = TRUTH, **more: Any) -> lb.Oracle:
    engine = None if client is None else lb.source.DaskEngine(client)
    return lb.Oracle(target, 3, rng=4, schedule=lb.source.Schedule(block_bytes=1 << 15, keep_bytes=0, engine=engine), **more)


def gram(x: Array, y: Array) -> Sums:
    return x.T @ x, x.T @ y


@pytest.mark.parametrize("batch", [None, 300])
def test_workers_answer_as_this_process_does(batch: int | None, client: Any) -> None:
    here, there = (oracle(at, budget=40_000, batch=batch) for at in (None, client))
    for one, other in zip(here.sum(gram), there.sum(gram), strict=True):
        assert_array_equal(one, other)
    assert there.spent == here.spent == 40_000 and there.queries == here.queries
    views = [source.split(0.9, rng=0).first.whitened() for source in (here, there)]
    assert_array_equal(views[0].sum(gram)[0], views[1].sum(gram)[0])
    assert there.spent == 40_000


def test_rows_are_asked_on_the_workers(client: Any) -> None:
    import threading

    asked: set[str] = set()
    _SEEN["names"] = asked
    source = oracle(client, _where, budget=5000)
    source.ready(0, 5000, None)
    assert asked and threading.current_thread().name not in asked


_SEEN: dict[str, set[str]] = {}


def _where(x: Array) -> Array:
    import threading
    from importlib import import_module

    import_module(__name__)._SEEN["names"].add(threading.current_thread().name)
    return np.asarray(TRUTH(x))


def test_one_log_is_written_and_nothing_is_asked_twice(client: Any, tmp_path: Path) -> None:
    first = oracle(client, budget=20_000, log=tmp_path / "log", name="truth")
    first.ready(0, 10_000, None)
    spent = first.spent
    again = oracle(client, budget=20_000, log=tmp_path / "log", name="truth")
    again.ready(0, 20_000, None)
    assert spent <= again.replayed <= 20_000 and again.spent == 20_000
    assert_array_equal(again.read(0, 20_000).y[:, 0], TRUTH(again.read(0, 20_000).x))
    assert lb.open_samples(tmp_path / "log").size == 20_000


def test_the_budget_is_never_exceeded(client: Any) -> None:
    source = oracle(client, budget=3000)
    source.ask(np.zeros((500, 3)))
    with pytest.raises(lb.errors.BudgetExhausted):
        source.ready(0, 2501, None)
    source.ready(0, 2500, None)
    assert source.spent == 3000


def _nan_late(x: Array) -> Array:
    y = np.asarray(TRUTH(x))
    return np.where(x[:, 0] > 3.2, np.nan, y)  # once in 1500 rows


def test_answers_that_cannot_be_used_are_counted_and_no_more_are_bought(client: Any) -> None:
    source = oracle(client, _nan_late, budget=30 * GRAIN)
    with pytest.raises(lb.errors.InvalidInput, match="nan"):
        source.ready(0, 30 * GRAIN, None)
    spent = source.spent
    assert spent % GRAIN == 0 and 0 < spent <= 30 * GRAIN
    with pytest.raises(lb.errors.InvalidInput, match="nan"):
        source.ready(0, 30 * GRAIN, None)
    assert source.spent == spent


def _raises(x: Array) -> Array:
    raise ConnectionError("no route to the model")


def test_an_error_of_the_black_box_is_told(client: Any) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="no route to the model, on a worker"):
        oracle(client, _raises, budget=3000).ready(0, 10, None)
