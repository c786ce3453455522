"""Faults in the middle of a pass: they come out where the pass was asked for, and nothing stays behind."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array, Event, Sums
from laybare.numerics.workspace import single_blas_thread
from laybare.source import GRAIN, Samples, Schedule, sum_blocks

pytestmark = pytest.mark.usefixtures("unchecked")
ROWS = 40 * GRAIN


class Fault(Exception):
    pass


def source(workers: int) -> Samples:
    x = np.arange(ROWS, dtype=float)[:, None]
    return Samples(x, x[:, 0], schedule=Schedule(workers=workers, block_bytes=1))


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Any:
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threading.active_count(), blas_threads()
        yield
        assert (threading.active_count(), blas_threads()) == before


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("row", [0, 7 * GRAIN, ROWS - 1])
def test_an_exception_in_a_statistic_comes_out(workers: int, row: int) -> None:
    def faulty(x: Array, y: Array) -> Sums:
        if (y == row).any():
            raise Fault(f"at {row}")
        return (x.sum(axis=0),)

    with pytest.raises(Fault, match=f"at {row}"):
        source(workers).sum(faulty)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_stops_the_pass_early(workers: int) -> None:
    seen = []

    def faulty(x: Array, y: Array) -> Sums:
        seen.append(x[0, 0])
        raise Fault

    with pytest.raises(Fault):
        source(workers).sum(faulty)
    assert len(seen) <= 2 * workers + 1


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_in_a_reader_comes_out(workers: int) -> None:
    def read(start: int, stop: int) -> tuple[Array, Array]:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        sum_blocks(read, ROWS, 1, lambda x, y: (x,), Schedule(workers=workers, block_bytes=1))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("fault", [Fault, KeyboardInterrupt])
def test_an_exception_in_the_progress_bar_comes_out(workers: int, fault: type[BaseException]) -> None:
    def bar(event: Event) -> None:
        if event.done == 3:
            raise fault

    with pytest.raises(fault) as caught:  # `caught` keeps the traceback alive, and with it every frame
        source(workers).with_progress(bar).sum(lambda x, y: (x.sum(axis=0),))
    assert caught.value is not None


def test_one_blas_thread_inside_and_the_old_number_after() -> None:
    seen = []

    def look(x: Array, y: Array) -> Sums:
        seen.append(blas_threads())
        return (np.zeros(1),)

    source(2).sum(look)
    assert {number for numbers in seen for number in numbers} == {1}


def test_the_limit_may_be_nested_and_shared() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_blas_thread():
            inside.set()
            leave.wait(10)

    with single_blas_thread():
        other = threading.Thread(target=hold)
        other.start()
        inside.wait(10)
        with single_blas_thread():
            assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}  # the other thread is still inside
    leave.set()
    other.join()
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize(("statistic", "sentence"), [
    (lambda x, y: x.sum(axis=0), "returned a ndarray"),
    (lambda x, y: [x.sum(axis=0)], "returned a list"),
    (lambda x, y: None, "returned a NoneType"),
    (lambda x, y: (x[: 1 + int(y[0, 0]) % 3],), "arrays of shapes"),
    (lambda x, y: (x.sum(),) * (1 + int(y[0, 0] > 5)), "arrays of shapes"),
])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_added_up_is_refused(statistic: Any, sentence: str, workers: int) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        source(workers).sum(statistic)
