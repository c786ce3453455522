"""What a step by normal equations costs, in seconds, and the three levels that choices are made by.

A step takes n·P² operations for n rows and P parameters. One rate turns them into seconds. It is calibrated at release, not when
the program runs: choices, and with them bits, must not depend on the machine.

cheap
: many runs can be made: what is uncertain is tried again.

fair
: a run may be repeated.

expensive
: steps are saved: a subsample or a subspace first, one matrix for several steps, independent runs at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Seconds of a step, and where the levels end."""

    rate: float = 2e10  # n·P² per second of one core. Checked by `make bench BENCH_ARGS=refine`.
    cheap: float = 0.001  # seconds of a step below which it is cheap. Checked by `make bench BENCH_ARGS=recover`.
    expensive: float = 0.025  # seconds of a step from which it is expensive. Checked by `make bench BENCH_ARGS=recover`.

    def step_seconds(self, rows: int, parameters: float) -> float:
        """Of normal equations on one core."""
        return rows * float(parameters) ** 2 / self.rate

    def is_cheap(self, rows: int, parameters: float) -> bool:
        return self.step_seconds(rows, parameters) < self.cheap

    def is_expensive(self, rows: int, parameters: float) -> bool:
        return self.step_seconds(rows, parameters) >= self.expensive


COST = CostModel()
"""The model in use."""
