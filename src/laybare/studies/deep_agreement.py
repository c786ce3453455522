"""Whether a deep network that was found is the one that was planted, as far as any input can tell.

A unit that is off at every input is no part of the function. So units that are active on less than one of the probed inputs in
ten thousand may be left out of the planted network before the two are compared, all or those that were not found; of a unit that
is always on the row is compared and not the bias, which no answer tells from the offset. And the two functions must agree at
probed inputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.networks import Layer, Network, compare
from laybare.shapes import Array

PROBES, SCALES = 40_000, np.array([0.5, 1.0, 2.0, 4.0])
NEVER = 1e-4
"""Share of the probed inputs below which a unit counts as never active, and above one minus which as always."""


class Agreement(NamedTuple):
    """Largest error of a number in canonical form (infinite if a unit is missing or spurious), and largest relative difference of
    the functions."""

    error: float
    difference: float

    def right(self, tol: float) -> bool:
        """Every unit that bends is there, and all numbers agree."""
        return self.error <= tol and self.difference <= tol


def agreement(found: Network, truth: Network) -> Agreement:
    """How far a found network is from the planted one."""
    x = _probes(truth.dim)
    scale = float(np.abs(truth(x)).max())
    difference = np.inf if found.top is not None else float(np.abs(found(x) - truth(x)).max()) / scale
    if found.top is not None or found.depth != truth.depth:
        return Agreement(np.inf, difference)
    never = [[int(i) for i in np.flatnonzero(share < NEVER)] for share in _activity(truth, x)]
    planted = [truth, _without(truth, never)] if any(never) else [truth]
    return Agreement(min(_error(found, network, x) for network in planted), difference)


def _error(found: Network, truth: Network, x: Array) -> float:
    active = _activity(truth, x)
    for _ in range(truth.depth):
        match = compare(found, truth, pairing="hungarian")  # one bias that is free must not loosen the other pairs
        asleep = [
            [unit for unit in layer.missing if share[unit] < NEVER]
            for layer, share in zip(match.layers, active, strict=True)]
        if not any(asleep):
            break
        truth, active = _without(truth, asleep), [np.delete(s, a) for s, a in zip(active, asleep, strict=True)]
    always = any((share > 1.0 - NEVER).any() for share in active[1:])
    error = max(match.weight_error, match.linear_error) if always else match.max_error
    return np.inf if match.missing or match.spurious else error


def _probes(dim: int) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray(rng.choice(SCALES, (PROBES, 1)) * rng.standard_normal((PROBES, dim)))


def _activity(network: Network, x: Array) -> list[Array]:
    shares = []
    for layer in network.layers:
        x = layer(x)
        shares.append(np.mean(x > 0.0, axis=0))
    return shares


def _without(network: Network, units: list[list[int]]) -> Network:
    """The network without some units of each layer."""
    layers: list[Layer] = []
    below: list[int] = []
    for layer, gone in zip(network.layers, units, strict=True):
        weights = np.delete(np.delete(layer.weights, gone, axis=0), below, axis=1)
        layers.append(Layer(weights, np.delete(np.asarray(layer.biases), gone), layer.activation))
        below = gone
    return Network(layers, np.delete(network.readout, below, axis=0), network.offset)
