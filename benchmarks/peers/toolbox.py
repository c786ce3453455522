"""ART's FunctionallyEquivalentExtraction (Jagielski et al. 2020), as shipped, where the toolbox is installed.

It asks a classifier of two classes for its logits and casts to float32 on the way; the logits here are (f, -f).
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from ours import Box
from tasks import Array, Given, Outcome, System, of_parts

import laybare as lb

MOST = 100_000
"""Queries after which the extraction is taken to have failed."""


def extract(given: Given) -> Outcome:
    """The extraction from a classifier with the outputs (f, -f)."""
    from art.attacks.extraction import FunctionallyEquivalentExtraction
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    box = Box(given.truth)

    def logits(x: Array) -> Array:
        f = box(np.asarray(x, dtype=float))
        if box.asked > MOST:
            raise RuntimeError(f"more than {MOST:,} queries")
        return np.column_stack([f, -f])

    np.random.seed(given.seed)  # noqa: NPY002  (ART draws from NumPy's own generator)
    x = np.random.default_rng(given.seed).standard_normal((100, given.task.dim))
    classifier = BlackBoxClassifierNeuralNetwork(logits, (given.task.dim,), 2)
    attack = FunctionallyEquivalentExtraction(classifier, num_neurons=given.task.width)
    try:
        attack.extract(x)
    except (AssertionError, RuntimeError):  # it counts the kinks that it found against the units that were given
        return Outcome(None, box.asked)
    readout = np.asarray(attack.a_1)[:1].T
    network: lb.Network = of_parts(np.asarray(attack.a_0), np.ravel(attack.b_0), readout, np.ravel(attack.b_1)[:1])
    return Outcome(network, box.asked)


def systems() -> dict[str, System]:
    """Nothing where ART is not installed."""
    return {"ART FunctionallyEquivalentExtraction": extract} if find_spec("art") is not None else {}
