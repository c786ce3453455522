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


def scaled_teacher(dim, width, rng):
    """Rows of length 0.01 to 100, biases up to 20, three units active on less than 1e-4 of Gaussian inputs."""
    net = teacher(dim, width, rng)
    scale, biases = 10.0 ** rng.uniform(-2.0, 2.0, width), rng.uniform(-20.0, 20.0, width)
    biases[:3] = -rng.uniform(3.8, 4.5, 3) * scale[:3]
    return lb.Network(lb.Layer(net.layer.weights * scale[:, None], biases), net.readout, 0.3)


def float32_inside(truth):
    """The network computed in float32 throughout."""
    W, b, a = (np.asarray(part, dtype=np.float32) for part in (truth.layer.weights, truth.layer.biases, truth.readout))
    return lambda x: np.maximum(x.astype(np.float32) @ W.T + b, 0.0) @ a + np.float32(truth.offset)
