"""What a run of the solver did; the records live beside the loop that writes them."""

from laybare.damping import Trace, TraceRow

__all__ = ["Trace", "TraceRow"]
