"""What a run of the solver did, step by step: for plots, certificates and honest budgets."""

from __future__ import annotations

from typing import NamedTuple

FINISHED = ("floor", "settled", "stalled", "flat")
"""Reasons to stop that mean "nothing more to gain": rounding floor, a step far below its noise, no progress, none that helps."""


class TraceRow(NamedTuple):
    """One accepted point: relative loss, length of the step, damping, seconds since the start, samples touched so far."""

    loss: float
    step: float
    damping: float
    seconds: float
    samples: int


class Trace(NamedTuple):
    """The accepted points of a run and why it stopped: floor, settled, stalled, flat, steps, interrupted."""

    rows: tuple[TraceRow, ...]
    reason: str

    @property
    def finished(self) -> bool:
        return self.reason in FINISHED

    @property
    def loss(self) -> float:
        """Relative loss at the end: residual sum of squares over the centred sum of squares of y."""
        return self.rows[-1].loss

    @property
    def samples(self) -> int:
        return self.rows[-1].samples

    def then(self, later: Trace) -> Trace:
        """Two runs, one after the other, as one."""
        last = self.rows[-1]
        moved = (row._replace(seconds=row.seconds + last.seconds, samples=row.samples + last.samples) for row in later.rows)
        return Trace(self.rows + tuple(moved), later.reason)

    def pass_on_interrupt(self) -> None:
        """Where a result that was cut short would be taken for one that was not: whoever interrupted hears at once."""
        if self.reason == "interrupted":
            raise KeyboardInterrupt

    def __str__(self) -> str:
        lines = ["step  relative loss       step    damping   seconds"]
        lines += [f"{i:4d}  {r.loss:13.3e} {r.step:10.2e} {r.damping:10.1e} {r.seconds:9.2f}" for i, r in enumerate(self.rows)]
        return "\n".join([*lines, f"stopped: {self.reason}"])
