"""One BLAS thread inside, whatever the library's idea of a limit is, and the old number after."""

from __future__ import annotations

import threading

import pytest

from laybare.numerics.workspace import BlasLimit


class Shared:
    """One number for the process."""

    threading_layer = "pthreads"

    def __init__(self) -> None:
        self.number = 8

    def get_num_threads(self) -> int:
        return self.number

    def set_num_threads(self, number: int) -> None:
        self.number = number


class Own(threading.local):
    """A number for each thread, as OpenBLAS on OpenMP has."""

    threading_layer = "openmp"
    number = 8

    def get_num_threads(self) -> int:
        return self.number

    def set_num_threads(self, number: int) -> None:
        self.number = number


@pytest.mark.parametrize("library", [Shared(), Own()])
def test_every_thread_is_limited_until_it_leaves(library: Shared | Own) -> None:
    gate = BlasLimit(lambda: [library])
    inside, leave = threading.Barrier(2, timeout=10), threading.Barrier(2, timeout=10)
    seen: list[int] = []

    def other() -> None:
        gate.enter()
        seen.append(library.number)
        inside.wait()
        leave.wait()
        seen.append(library.number)
        gate.leave()
        seen.append(library.number)

    gate.enter()
    gate.enter()
    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    gate.leave()
    assert library.number == 1
    gate.leave()
    assert library.number == (1 if isinstance(library, Shared) else 8)  # shared: the other is still inside
    leave.wait()
    thread.join()
    assert seen == [1, 1, 8]
    assert (library.number, gate.inside) == (8, 0)


@pytest.mark.parametrize("library", [Shared(), Own()])
def test_a_number_set_outside_is_kept(library: Shared | Own) -> None:
    gate = BlasLimit(lambda: [library])
    for number in (8, 3):
        library.set_num_threads(number)
        gate.enter()
        assert library.number == 1
        gate.leave()
        assert library.number == number
