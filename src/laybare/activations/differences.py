"""Second derivatives of activations that come as two callables, by differences that never straddle a kink."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from laybare.shapes import Array

STEP = 1e-4
"""Of the central difference: its error is about STEP² where the derivative bends over a unit length, rounding is 1e-12."""


def bend_of(slope: Callable[[Array], Array], kinks: tuple[float, ...], t: Array) -> Array:
    """Derivative of `slope` at `t`; within two steps of a kink the point moves away from it, to the left if it is the kink."""
    for kink in kinks:
        near = np.abs(t - kink) < 2 * STEP
        t = np.where(near, kink + np.where(t > kink, 2 * STEP, -2 * STEP), t)
    above, below = (np.asarray(slope(t + side * STEP), dtype=float) for side in (1, -1))
    bend: Array = (above - below) / (2 * STEP)
    return bend
