"""Is an activation that a user wrote what it claims to be? Asked once, when it is made, on a few dozen points."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array

STEP = 1e-5
"""Of the central difference; its error is then about 1e-10 for a function that bends over a unit length."""
PROBES = 0.1 * np.arange(1, 40) + 0.003 * np.cos(np.arange(1, 40))
"""Positive points, irregular so that no pattern of a function falls in with them; used with both signs."""

Function = Callable[[Array], Array]


class Claims(NamedTuple):
    """What is declared beside the two callables; meanings as in `Activation`."""

    kinks: tuple[float, ...]
    degree: float | None
    centre: float | None
    mirror: float | None


def check_claims(name: str, value: Function, derivative: Function, claims: Claims) -> None:
    """Raise InvalidInput unless value, derivative and declared symmetries agree on the probes."""
    kinks, degree, centre, mirror = claims
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"The activation's name is {name!r}.", "Reports and errors speak of it by name.", "Give some text.")
    if not all(isfinite(number) for number in (*kinks, *(c for c in (degree, centre, mirror) if c is not None))):
        raise InvalidInput(
            f"Activation {name} declares kinks {kinks}, degree {degree}, centre {centre}, mirror {mirror}.",
            "They are finite numbers.", "Leave out what does not apply.")
    _check_derivative(name, value, derivative, kinks)
    t = PROBES
    up, down = _values(name, value, t), _values(name, value, -t)
    if degree is not None:
        for sign, here in ((1, up), (-1, down)):
            _agree(name, f"degree {degree:g}", "act(2t) = 2^degree act(t)", _values(name, value, sign * 2 * t), 2**degree * here)
    if centre is not None:
        _agree(name, f"centre {centre:g}", "act(t) + act(-t) = 2 centre", up + down, np.full_like(t, 2 * centre))
    if mirror is not None:
        _agree(name, f"mirror {mirror:g}", "act(t) - act(-t) = mirror t", up - down, mirror * t)


def _check_derivative(name: str, value: Function, derivative: Function, kinks: tuple[float, ...]) -> None:
    t = np.concatenate([-PROBES, PROBES])
    for kink in kinks:
        t = t[np.abs(t - kink) > 10 * STEP]
    slope = _values(name, derivative, t)
    above, below = _values(name, value, t + STEP), _values(name, value, t - STEP)
    seen = (above - below) / (2 * STEP)
    error = np.abs(seen - slope)
    worst = int(np.argmax(error))
    if error[worst] > 1e-5 * (1 + np.abs(slope).max() + np.abs(above).max()):
        raise InvalidInput(
            f"Activation {name} has derivative {slope[worst]:.6g} at {t[worst]:.4g}, but its values there have slope "
            f"{seen[worst]:.6g}.",
            "A wrong derivative stops every refinement short of the answer.",
            "Correct the derivative, or declare a kink at that point.", where=float(t[worst]))


def _agree(name: str, claim: str, meaning: str, left: Array, right: Array) -> None:
    worst = float(np.max(np.abs(left - right)))
    if worst > 1e-9 * (1 + np.abs(right).max()):
        raise InvalidInput(
            f"Activation {name} declares {claim}, but {meaning} is off by {worst:.1e}.",
            "Networks are compared and recovered modulo the symmetries that their activation declares.",
            "Correct the function, or leave the declaration out.", error=worst)


def _values(name: str, function: Function, t: Array) -> Array:
    found = function(t)
    if not isinstance(found, np.ndarray) or found.shape != t.shape or found.dtype.kind not in "fiub":
        raise InvalidInput(
            f"A callable of activation {name} returned {type(found).__name__} of shape {np.shape(found)} for an array of "
            f"shape {t.shape}.", "It is called on whole arrays.", "Write it with NumPy functions, elementwise.")
    if not np.isfinite(found).all():
        raise InvalidInput(
            f"A callable of activation {name} is not finite at {t[~np.isfinite(found)][0]:.4g}.",
            "An activation is finite everywhere.", "Find where the NaN or infinity arises.")
    return found.astype(float)
