"""A network as other libraries hold it: affine maps with an activation after each but the last."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.shapes import Array


class Map(NamedTuple):
    """x ↦ W x + b: weights (out, in), biases (out,)."""

    weights: Array
    biases: Array


class Chain(NamedTuple):
    """`maps` from the lowest up, an activation between each two, and a linear part (dim, outputs) beside all of them."""

    maps: Sequence[Map]
    activations: Sequence[Activation]
    linear: Array | None = None


def chain_of(network: Network) -> Chain:
    """The network's numbers, every map (out, in); a black box above the layers is refused."""
    if network.top is not None:
        raise InvalidInput(
            f"The network {network.architecture} ends in a black box.", "Other libraries would need its weights.",
            "Export Network(network.layers, readout) with a readout of your own.")
    hidden = [Map(np.array(layer.weights), np.array(layer.biases)) for layer in network.layers]
    m = network.outputs
    last = Map(np.array(network.readout.reshape(-1, m).T), np.array(np.reshape(network.offset, m), dtype=float))
    linear = None if network.linear is None else np.array(network.linear.reshape(-1, m))
    return Chain([*hidden, last], [layer.activation for layer in network.layers], linear)


def network_from(chain: Chain) -> Network:
    """The network of a chain. One output gives a readout that is a vector: other libraries do not tell it from a matrix."""
    *hidden, last = chain.maps
    layers = [Layer(w, b, activation) for (w, b), activation in zip(hidden, chain.activations, strict=True)]
    if len(last.weights) > 1:
        return Network(layers, last.weights.T, last.biases, chain.linear)
    return Network(layers, last.weights[0], float(last.biases[0]), None if chain.linear is None else chain.linear[:, 0])


def extra(name: str, purpose: str) -> ModuleType:
    """An optional package, or the sentence that says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(
            f"{name} is not installed.", f"It is needed {purpose}.", f"Run pip install 'laybare[{name}]'.",
            package=name) from None
