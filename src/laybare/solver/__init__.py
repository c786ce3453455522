"""Gauss-Newton with damping: one loop for every least-squares fit of the library, large or small, and a step rule for each kind.

The loop (`loop.py`) owns trial, acceptance, damping, stopping, trace, progress and interrupts. A rule knows the system at a
point, the step at a damping and the loss where it leads: dense normal equations (`dense.py`), conjugate gradients
(`matrix_free.py`), directions of a tensor (`laybare.decomposition`). `minimise.py` chooses the rule by the cost of a step.
"""

from laybare.solver.loop import (
    Effort,
    FitInterrupt,
    FitScale,
    Iterate,
    Rule,
    Trace,
    TraceRow,
    Trial,
    best_so_far,
    check_finite,
    damped_descent,
    damped_steps,
)

__all__ = [
    "Effort", "FitInterrupt", "FitScale", "Iterate", "Rule", "Trace", "TraceRow", "Trial",
    "best_so_far", "check_finite", "damped_descent", "damped_steps",
]
