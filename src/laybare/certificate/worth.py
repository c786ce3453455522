"""What a unit must be worth, and what two networks that differ by units say about it (see `width`)."""

from __future__ import annotations

import numpy as np

from laybare.certificate.fitted import State
from laybare.damping import Effort
from laybare.refinement.pruning import parameters_per_unit, telling

CLEAR, NEEDED = 1.5, 1.2
"""Times its price from which a further unit is real, and one that is there is needed: between the 1.07 of noise and the 2.8 of
clearly visible units (see `width`)."""


def price_of_a_unit(state: State) -> float:
    """What a unit must be worth: Schwarz's price of its free numbers."""
    return float(parameters_per_unit(state.point) * np.log(state.equations))


def worth_of(state: State, narrow: float, wide: float, wider: int) -> float:
    """(N - p) log(narrow / wide), rounding apart."""
    rounding = state.floor * state.equations
    spare = max(1, state.equations - state.unknowns - wider * parameters_per_unit(state.point))
    return float(spare * np.log((max(narrow, 0.0) + rounding) / (max(wide, 0.0) + rounding)))


def effort_of(state: State) -> Effort:
    """Steps of a refit: as long as they could change the answer."""
    return telling(Effort(max_steps=40), price_of_a_unit(state), state.spare)
