"""What lies above the layers that are known: the black box itself, as a function of their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from laybare.errors import NotSeparated
from laybare.lines.asking import Purse
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class Above:
    """The black box on the features (n, width) of the highest known layer; one query a row.

    Features are taken back to an input that has them, layer by layer: those of the lowest layer by its pseudo-inverse, others by
    a linear program. NotSeparated if no input was found, which does not happen for features of one or two layers.
    """

    layers: tuple[tuple[Array, Array], ...]
    purse: Purse

    def __call__(self, features: Array) -> Array:
        """Answers (n, outputs)."""
        x = np.array([self._input(h) for h in features]).reshape(len(features), self.layers[0][0].shape[1])
        return self.purse.ask(x, "checks")

    def _input(self, h: Array) -> Array:
        for weights, biases in self.layers[:0:-1]:
            h = _below(weights, biases, h)
        weights, biases = self.layers[0]
        on = h > 0.0
        before = np.where(on, h, -1.0)
        return np.asarray(np.linalg.pinv(weights) @ (before - biases))


def _below(weights: Array, biases: Array, h: Array) -> Array:
    """Features below, none of them negative, from which a layer makes h."""
    on = h > 0.0
    off = ~on
    found = linprog(
        np.ones(weights.shape[1]), A_ub=weights[off] if off.any() else None, b_ub=-biases[off] if off.any() else None,
        A_eq=weights[on] if on.any() else None, b_eq=(h - biases)[on] if on.any() else None)
    if found.status != 0:
        raise NotSeparated(
            "No input was found with these features.", "The layers that are known cannot make them, up to rounding.",
            "Evaluate the network at inputs instead.")
    return np.asarray(found.x)
