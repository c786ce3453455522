"""The loop on one screen: source -> problem -> start -> search -> signs -> certificate."""

from laybare.pipeline.main_loop import recover, refine
from laybare.pipeline.monitor import SearchLimit
from laybare.pipeline.recovery import Recovery

__all__ = ["Recovery", "SearchLimit", "recover", "refine"]
