"""Black boxes for the tests of lines: counted, watched, and with known units."""

from __future__ import annotations

import numpy as np

import laybare as lb


class Counted:
    """A black box that counts its queries and remembers the range of its inputs."""

    def __init__(self, f):
        self.f, self.queries = f, 0
        self.low, self.high = np.inf, -np.inf

    def __call__(self, x):
        self.queries += len(x)
        self.low, self.high = min(self.low, x.min()), max(self.high, x.max())
        return self.f(x)


def teacher(dim, width, rng, outputs=1, activation=lb.relu, smallest=0.5):
    """Unit rows, biases .5 N(0, 1), readouts of random sign and size `smallest` to 1.5."""
    weights = rng.standard_normal((width, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    readout = rng.uniform(smallest, 1.5, (width, outputs)) * rng.choice([-1.0, 1.0], (width, outputs))
    layer = lb.Layer(weights, 0.5 * rng.standard_normal(width), activation)
    return lb.Network(layer, readout[:, 0], 0.3) if outputs == 1 else lb.Network(layer, readout, np.full(outputs, 0.3))


def parameters(network):
    return network.width * (network.dim + 1 + network.outputs) + network.outputs
