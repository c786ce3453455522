"""What libraries in C print goes to stderr. HiGHS writes some lines of its mixed-integer search to stdout, whatever its options.

Standard output is for results: a line among the JSON of a command is damage.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STDOUT, STDERR = 1, 2
"""Convention: the numbers of the two streams in every process."""

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Inside, what is written to the process's standard output arrives at its standard error."""
    with _ONE_AT_A_TIME:
        try:
            with suppress(OSError, ValueError, AttributeError):  # closed, or not there
                sys.stdout.flush()
            saved = os.dup(STDOUT)
            os.dup2(STDERR, STDOUT)
        except OSError:  # one of the streams is closed: nothing can be mixed up
            yield
            return
        try:
            yield
        finally:
            os.dup2(saved, STDOUT)
            os.close(saved)
