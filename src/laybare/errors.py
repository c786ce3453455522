"""Findings, not accidents: everything laybare refuses to do, and why.

A message has three parts: what was seen (with its numbers), why it matters, what to do about it. The exception carries the
numbers in `values`, so that a program can act on them. Non-convergence is not an exception: it is a claim that failed inside
the returned certificate.
"""

from __future__ import annotations

from typing import Any


class LaybareError(Exception):
    """Base of all findings: `seen`, `why`, `do`, and the numbers in `values`."""

    def __init__(self, seen: str, why: str, do: str, **values: Any) -> None:
        seen, why, do = printable(seen), printable(why), printable(do)
        super().__init__(f"{seen} {why} {do}")
        self.seen = seen
        self.why = why
        self.do = do
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.seen, self.why, self.do, self.values)

    def with_advice(self, more: str) -> LaybareError:
        """The same finding with one more sentence about what to do."""
        return type(self)(self.seen, self.why, f"{self.do} {more}", **self.values)


def printable(text: str) -> str:
    """Text whose control characters are written out: a file name, an answer or a cell must not steer the terminal."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in text)


class InvalidInput(LaybareError, ValueError):
    """The data, a file or an argument cannot be what it should be."""


class Unidentifiable(LaybareError):
    """No amount of such data determines the weights."""


class TooFewSamples(LaybareError, ValueError):
    """More samples would help; the message says how many."""


class NotSeparated(LaybareError):
    """Two things that must be distinguished are closer than their noise."""


class AssumptionViolated(LaybareError):
    """The data contradict an assumption of the chosen method."""


class BudgetExhausted(LaybareError):
    """The queries, the memory or the disk space that were granted are used up."""


class ClusterFailure(LaybareError, RuntimeError):
    """A cluster did not carry out a pass; nothing is wrong with the data as far as is known."""


class Interrupted(KeyboardInterrupt):
    """Somebody wants to stop: Ctrl-C, SIGTERM, a time limit. The only exception that a signal handler of laybare raises.

    It is no Exception, so that no handler for failures takes it for one. Whoever catches KeyboardInterrupt returns what was
    found, or raises it again; `pytest tests/hostile/test_interrupt_handlers.py` names those places.
    """


def _rebuild(kind: type[LaybareError], seen: str, why: str, do: str, values: dict[str, Any]) -> LaybareError:
    return kind(seen, why, do, **values)
