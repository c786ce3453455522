"""Threads of BLAS and memory while a network is recovered.

Freed memory that is allocated again costs a page fault per 4 kB. Workers of Dask return freed memory at once (their
MALLOC_TRIM_THRESHOLD_ is small), which slows passes for normal equations: such a process keeps some of what it frees.

One BLAS thread while a network is recovered.

Blocks of rows use the cores, so that results do not depend on the number of cores. Between passes matrices are small: BLAS
threads would spend more time waiting for each other than they save.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from laybare.numerics.shapes import Array

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


_HELD = threading.local()

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Convention: the numbers of the two settings in glibc, mallopt(3)."""

KEPT_BYTES, LARGEST_KEPT_ARRAY = 1 << 28, 1 << 26
"""Bytes of freed memory that a worker keeps, and of the largest array among them. Checked by `make bench BENCH_ARGS=dask`."""


def workspace(owner: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """An uninitialised array, the owner's until this thread asks for it again. It must not leave the statistic."""
    held, size = _HELD.__dict__, math.prod(shape)
    flat = held.get(owner)
    if flat is None or flat.size < size or flat.dtype != dtype:
        held[owner] = flat = np.empty(size, dtype)
    space: Array = flat[:size].reshape(shape)
    return space


@lru_cache
def keep_freed_memory() -> bool:
    """On glibc, in a process that returns freed memory at once: keep up to 256 MB of it."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or not sys.platform.startswith("linux"):
        return False
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and bool(tune(M_MMAP_THRESHOLD, LARGEST_KEPT_ARRAY)) and bool(tune(M_TRIM_THRESHOLD, KEPT_BYTES))


def return_freed_memory() -> None:
    """On glibc: give freed memory back to the system. It stays with the process otherwise, and adds to what comes next."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)
