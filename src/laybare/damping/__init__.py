"""One damped loop for every least-squares fit of the library, large or small: a step rule each, everything else once.

The loop (`loop.py`) owns trial, acceptance, damping, stopping, trace, progress and interrupts. A rule knows the system at a
point, the step at a damping and the loss where it leads: dense normal equations, conjugate gradients, directions of a tensor.
"""

from laybare.damping.loop import Arrival, Effort, Place, Rule, Trial, check_finite, damped_descent, descent
from laybare.damping.trace import Trace, TraceRow

__all__ = ["Arrival", "Effort", "Place", "Rule", "Trace", "TraceRow", "Trial", "check_finite", "damped_descent", "descent"]
