"""Several hidden layers: the symmetries of one layer, each carried to the next.

Seen from a layer, the next one's pre-activations are a readout: W_{l+1}ᵀ its columns, b_{l+1} its offset. So everything that
`laybare.networks.canonical` says about one layer holds for each piece (W_l, b_l | W_{l+1}ᵀ, b_{l+1}): order, scale, shift and
reflection, with what they change in the columns and biases above. What a deep network is known up to, therefore, is a
permutation of every layer, a positive scale per unit where the activation is homogeneous, a sign where it is odd, even or
symmetric about a centre. The sign of a ReLU unit is not free: its mirror image differs by a linear function of the layer's
input, which no layer above can take up. (With a single layer, the network's own linear part can.)

Units that never bend where inputs can reach are units all the same here: only the law of the inputs could tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.networks.canonical import Units, canonical_units
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class Chained:
    """A black box that used to read features h and now reads h' with h = h' R + r."""

    matrix: Array
    shift: Array
    top: Callable[[Array], Array]

    def __call__(self, features: Array) -> Array:
        return self.top(features @ self.matrix + self.shift)


class Stack(NamedTuple):
    """Layers from the lowest up: weights (k_l, k_{l-1}), biases (k_l,); readout (k, m) and offset (m,) of the highest.

    `parts[l][i]` lists the units of layer l of the original network that unit i is made of.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[Activation, ...]
    readout: Array
    offset: Array
    parts: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, layers: Iterable[tuple[Array, Array, Activation]], readout: Array, offset: Array) -> Stack:
        """From layers as (weights, biases, activation), every unit made of itself."""
        weights, biases, activations = zip(*layers, strict=True)
        return cls(weights, biases, activations, readout, offset, tuple(tuple((i,) for i in range(len(b))) for b in biases))

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(biases) for biases in self.biases)

    def piece(self, level: int) -> Units:
        """Layer `level` with the layer above it as its readout."""
        last = level == len(self.weights) - 1
        readout, offset = (self.readout, self.offset) if last else (self.weights[level + 1].T, self.biases[level + 1])
        nothing = np.zeros((self.weights[level].shape[1], readout.shape[1]))
        return Units(self.weights[level], self.biases[level], readout, offset, nothing, self.parts[level])

    def with_piece(self, level: int, units: Units) -> Stack:
        """The stack with that layer replaced, and the columns and biases above it."""
        weights, biases = list(self.weights), list(self.biases)
        weights[level], biases[level] = units.weights, units.biases
        readout, offset = self.readout, self.offset
        if level == len(weights) - 1:
            readout, offset = units.readout, units.offset
        else:
            weights[level + 1], biases[level + 1] = units.readout.T, units.offset
        parts = (*self.parts[:level], units.parts, *self.parts[level + 1 :])
        return Stack(tuple(weights), tuple(biases), self.activations, readout, offset, parts)


def canonical_stack(stack: Stack) -> Stack:
    """Every layer in its canonical form, from the lowest up: normalised, turned, merged, ordered.

    A layer that loses a unit may leave units below it that nobody reads, so it is done again until no unit is lost.
    """
    while True:
        before = stack.widths
        for level, activation in enumerate(stack.activations):
            stack = stack.with_piece(level, canonical_units(stack.piece(level), activation, has_linear=False))
        if stack.widths == before:
            return stack
