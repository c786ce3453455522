"""Exponents that the theorems state for their number of samples: slopes of the bounds of `laybare.theory` at the same networks.

The bounds are known up to factors, and some up to the exponents of a polynomial, which are taken as one there (`Bound.open`). So
an exponent says how the stated bound moves, not how many samples are needed. No theorem has noise in its number: there the
exponent is that of standard errors, which are as small as sd(noise)/√n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.networks import Network
from laybare.studies.smallest_samples import exponent
from laybare.theory.guarantees import global_recovery, start_accuracy
from laybare.theory.relu_guarantees import relu_recovery
from laybare.theory.symmetric_guarantees import InputLaw, symmetric_recovery

ACCURACY, NETWORKS = 0.1, 3
"""Of the bounds, which move with it by a factor; networks that a bound is a median over."""


def stated(start: bool, method: str, axis: str, plant: Callable[[Any, Generator], Network], places: Sequence[Any]) -> float:
    """The slope of the method's bound along an axis, that of its start alone if asked; NaN where no theorem states one."""
    if axis == "noise":
        return float("nan") if start else 2.0
    bound = _BOUNDS.get((method, start), _BOUNDS.get((method, False)))
    if bound is None:
        return float("nan")

    def typical(place: Any) -> float:
        return float(np.median([bound(plant(place, np.random.default_rng(seed))) for seed in range(NETWORKS)]))

    return exponent([float(getattr(place, axis)) for place in places], [typical(place) for place in places])


def _tensor_start(network: Network) -> float:
    """Samples at which the stated relative error of the start is ACCURACY: Theorem 5.6 of Zhong et al. (2017)."""
    return (start_accuracy(network, 1)["relative error of the start"] / ACCURACY) ** 2


def _detector(network: Network) -> float:
    """Lemma 15 of Ge et al. (2019); inputs of N(0, I) have a radius of about √d."""
    law = InputLaw(radius=sqrt(network.dim))
    return symmetric_recovery(network, law, ACCURACY)["samples of the detector"]


_BOUNDS: dict[tuple[str, bool], Callable[[Network], float]] = {
    ("TensorInit", False): lambda network: global_recovery(network, ACCURACY)["samples"],
    ("TensorInit", True): _tensor_start,
    ("SymmetricInputs", False): _detector,
    ("GeneralReLU", False): lambda network: relu_recovery(network, ACCURACY)["samples"]}
"""By method and whether its start alone is meant. Ge, Lee and Ma (2018) state a polynomial, and no number."""
