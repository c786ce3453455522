"""A network as other libraries hold it: affine maps with an activation after each but the last."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.numerics.checks import check_instance
from laybare.numerics.shapes import Array


class AffineMap(NamedTuple):
    """x ↦ W x + b: weights (out, in), biases (out,)."""

    weights: Array
    biases: Array


class Chain(NamedTuple):
    """`maps` from the lowest up, an activation between each two, and a linear part (dim, outputs) beside all of them."""

    maps: Sequence[AffineMap]
    activations: Sequence[Activation]
    linear: Array | None = None


def as_network(given: Any) -> Network:
    """What is exported is a network."""
    return check_instance("network", given, Network, "Give a Network: that of a recovery is found.network.")


def chain_from_network(network: Network) -> Chain:
    """The affine maps and activations of a network; a black box above the layers is refused."""
    as_network(network)
    if network.top is not None:
        raise InvalidInput(
            f"The network {network.architecture} ends in a black box.", "Other libraries would need its weights.",
            "Export Network(network.layers, readout) with a readout of your own.")
    hidden = [AffineMap(np.array(layer.weights), np.array(layer.biases)) for layer in network.layers]
    m = network.outputs
    last = AffineMap(np.array(network.readout.reshape(-1, m).T), np.array(np.reshape(network.offset, m), dtype=float))
    linear = None if network.linear is None else np.array(network.linear.reshape(-1, m))
    return Chain([*hidden, last], [layer.activation for layer in network.layers], linear)


def network_from_chain(chain: Chain) -> Network:
    """The network of a chain. One output gives a readout that is a vector: other libraries have one form for both."""
    *hidden, last = chain.maps
    layers = [Layer(w, b, activation) for (w, b), activation in zip(hidden, chain.activations, strict=True)]
    if len(last.weights) > 1:
        return Network(layers, last.weights.T, last.biases, chain.linear)
    return Network(layers, last.weights[0], float(last.biases[0]), None if chain.linear is None else chain.linear[:, 0])


def import_optional(name: str, purpose: str) -> ModuleType:
    """An optional package, or the sentence that says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(
            f"{name} is not installed.", f"It is needed {purpose}.", f"Run pip install 'laybare[{name}]'.",
            package=name) from None
