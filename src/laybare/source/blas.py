"""One BLAS thread while blocks are being worked on: the cores are used by blocks, and bits do not depend on how many there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks for libraries)
from threadpoolctl import ThreadpoolController


class _Gate:
    """The limit belongs to the whole process, so it is set by the first that enters and lifted by the last that leaves."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.controller: ThreadpoolController | None = None
        self.limit: AbstractContextManager[object] | None = None

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.controller = self.controller or ThreadpoolController()
                self.limit = self.controller.limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.limit is not None:
                self.limit.__exit__(None, None, None)
                self.limit = None


_GATE = _Gate()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """One BLAS thread inside, in every thread; may be nested and entered from several threads at once."""
    _GATE.enter()
    try:
        yield
    finally:
        _GATE.leave()
