"""The loop on one screen: source -> problem -> start -> search -> signs -> certificate."""

from laybare.pipeline.loop import recover, refine
from laybare.pipeline.recovery import Recovery
from laybare.pipeline.saved import load

__all__ = ["Recovery", "load", "recover", "refine"]
