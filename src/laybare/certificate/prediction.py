"""Standard errors of what a network predicts, by the delta method, from the covariance of its parameters."""

from __future__ import annotations

import numpy as np

from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.solver.point import Point, output_gradients, point_of
from laybare.source.sums import block_rows


def prediction_errors(network: Network, covariance: Array, x: Array) -> Array:
    """Standard errors of the outputs at the rows of x, (n, outputs); blocks of rows at a time."""
    point = covered_point(network, len(covariance))
    errors, step = np.empty((len(x), network.outputs)), block_rows(3 * len(covariance))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        for output in range(network.outputs):
            J = output_gradients(point, x[rows], output)
            errors[rows, output] = np.sqrt(np.maximum(np.einsum("np,np->n", J @ covariance, J), 0.0))
    return errors


def covered_point(network: Network, parameters: int) -> Point:
    """The network with the parts that a covariance of so many parameters is about: biases may not be among them."""
    whole = point_of(network, biases=True, offset=True, linear=network.linear is not None)
    if whole.size == parameters:
        return whole
    return point_of(network, biases=False, offset=True, linear=network.linear is not None)
