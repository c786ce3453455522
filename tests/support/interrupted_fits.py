"""Fits that are interrupted: the exception carries the best so far."""

from __future__ import annotations

from typing import Any

import pytest

from laybare.solver import FitInterrupt


def best_when_interrupted(fit: Any, *given: Any, **named: Any) -> Any:
    """What the interrupt of a fit or search carries; fails if there is none."""
    with pytest.raises(FitInterrupt) as stop:
        fit(*given, **named)
    return stop.value.best
