"""Affine maps of the inputs, and networks carried back through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from laybare.blas import single_blas_thread
from laybare.networks import Layer, Network
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class Affine:
    """z = (x - mean) @ matrix, row by row; `mean` (dim,), `matrix` (dim, dim) and invertible."""

    mean: Array
    matrix: Array

    @classmethod
    def identity(cls, dim: int) -> Affine:
        """The map that changes nothing."""
        return cls(np.zeros(dim), np.eye(dim))

    @cached_property
    def trivial(self) -> bool:
        """Whether z = x exactly."""
        return not self.mean.any() and np.array_equal(self.matrix, np.eye(len(self.mean)))

    def apply(self, x: Array) -> Array:
        """The mapped rows; x itself if the map is trivial."""
        if self.trivial:
            return x
        # The mean goes first: taking it off after the product would cancel digits where it is large against the spread.
        with single_blas_thread():
            z: Array = (x - self.mean) @ self.matrix
        return z

    def then(self, following: Affine) -> Affine:
        """First this map, then `following`."""
        if self.trivial or following.trivial:
            return following if self.trivial else self
        shift = np.linalg.solve(self.matrix.T, following.mean)
        return Affine(self.mean + shift, self.matrix @ following.matrix)

    def inverse(self) -> Affine:
        """The map from z back to x."""
        return Affine(-self.mean @ self.matrix, np.linalg.inv(self.matrix))

    def pull_back_layer(self, layer: Layer) -> Layer:
        """The layer on x that equals `layer` on z."""
        if self.trivial:
            return layer
        weights = layer.weights @ self.matrix.T
        return Layer(weights, layer.biases - weights @ self.mean, layer.activation)

    def pull_back(self, network: Network) -> Network:
        """The network on x that equals `network` on z: every neuron, bias, linear part and offset is carried along.

        w·z + b = (matrix w)·x + b - (matrix w)·mean, and the same for the linear part.
        """
        if self.trivial:
            return network
        layers = (self.pull_back_layer(network.layer), *network.layers[1:])
        if network.linear is None:
            return Network(layers, network.readout, network.offset, top=network.top)
        linear = self.matrix @ network.linear
        return Network(layers, network.readout, network.offset - self.mean @ linear, linear, top=network.top)
