"""One BLAS thread while a network is recovered.

Blocks of rows use the cores, so that results do not depend on the number of cores. Between passes matrices are small: BLAS
threads would spend more time waiting for each other than they save.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks for libraries)
from threadpoolctl import ThreadpoolController

Saved = list[tuple[Any, int]]


class BlasLimit:
    """Limit BLAS while any thread is inside. May be nested, and entered by several threads at once.

    Most libraries have one number of threads for the whole process: the first that enters sets it, the last that leaves restores
    it. OpenBLAS on OpenMP has a number for each thread: every thread sets and restores its own.
    """

    def __init__(self, libraries: Callable[[], list[Any]]) -> None:
        self.libraries = libraries
        self.lock = threading.Lock()
        self.inside = 0
        self.shared: Saved = []
        self.own: list[Any] = []
        self.mine = threading.local()

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                libraries = self.libraries()
                self.own = [library for library in libraries if getattr(library, "threading_layer", "") == "openmp"]
                self.shared = _limit([library for library in libraries if library not in self.own])
        self.mine.depth = getattr(self.mine, "depth", 0) + 1
        if self.mine.depth == 1:
            self.mine.saved = _limit(self.own)

    def leave(self) -> None:
        self.mine.depth -= 1
        if self.mine.depth == 0:
            _restore(self.mine.saved)
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                _restore(self.shared)


def _limit(libraries: list[Any]) -> Saved:
    saved = [(library, library.get_num_threads()) for library in libraries]
    _restore([(library, 1) for library in libraries])
    return saved


def _restore(saved: Saved) -> None:
    for library, threads in saved:
        free = getattr(library, "clear_controlling_thread", _nothing)
        free(force=True)  # the controller listens to one thread only; the limit may have been set by another than this
        library.set_num_threads(threads)
        free(force=True)


def _nothing(force: bool) -> None:
    """For controllers that listen to every thread."""


@lru_cache(maxsize=1)
def _blas_libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_LIMIT = BlasLimit(_blas_libraries)


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """One BLAS thread inside."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
