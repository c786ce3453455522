"""Gauss-Newton with damping: one loop for every least-squares fit of the library, large or small, and a step rule for each kind.

The loop (`loop.py`) owns trial, acceptance, damping, stopping, trace, progress and interrupts. A rule knows the system at a
point, the step at a damping and the loss where it leads: dense normal equations (`dense.py`), conjugate gradients (`cg.py`),
directions of a tensor (`laybare.decomposition`). `minimise.py` chooses the rule by the cost of a step.
"""

from typing import TYPE_CHECKING

from laybare.numerics.lazy import on_demand
from laybare.solver.loop import (
    Effort,
    FitInterrupt,
    FitScale,
    Iterate,
    Rule,
    SolverResult,
    Trace,
    TraceRow,
    Trial,
    best_so_far,
    check_finite,
    damped_descent,
    damped_steps,
)

if TYPE_CHECKING:
    from laybare.solver.first_order import Descent

__getattr__ = on_demand(__name__, {"Descent": "laybare.solver.first_order"})

__all__ = [
    "Descent", "Effort", "FitInterrupt", "FitScale", "Iterate", "Rule", "SolverResult", "Trace", "TraceRow", "Trial",
    "best_so_far", "check_finite", "damped_descent", "damped_steps",
]
