"""Interval arithmetic for layers, rounded outwards: bounds that hold for the real numbers that the floats stand for.

A sum of n products is computed with an error of at most γ Σ|wᵢxᵢ|, γ = n u / (1 - n u), in any order (Higham 2002, section 3.1).
Every bound below is moved outwards by that, so that what follows from it is proved, and not only computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.numerics.levels import EPS
from laybare.numerics.shapes import Array


class Interval(NamedTuple):
    """Numbers between low and high, entry by entry."""

    low: Array
    high: Array

    @property
    def size(self) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def rounding_of_sum(terms: int) -> float:
    """γ for a sum of that many products, with a few more for what is done to it afterwards."""
    n = (terms + 4) * EPS
    return n / (1.0 - n)


def affine_bounds(weights: Array, biases: Array, inputs: Interval) -> Interval:
    """Bounds of W x + b, (k,), for inputs between bounds."""
    positive, negative = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    slack = rounding_of_sum(weights.shape[1] + 1) * (np.abs(weights) @ inputs.size + np.abs(biases))
    low = positive @ inputs.low + negative @ inputs.high + biases - slack
    high = positive @ inputs.high + negative @ inputs.low + biases + slack
    return Interval(low, high)


def activation_bounds(activation: Activation, inputs: Interval) -> Interval:
    """Bounds of a homogeneous activation of degree 1: its extremes lie at the ends, or at 0."""
    right, left = (float(activation(np.array([end]))[0]) for end in (1.0, -1.0))

    def value(t: Array) -> Array:
        return np.where(t >= 0.0, right * t, -left * t)

    ends = np.stack([value(inputs.low), value(inputs.high)])
    crosses = (inputs.low < 0.0) & (inputs.high > 0.0)
    low, high = ends.min(axis=0), ends.max(axis=0)
    low, high = np.where(crosses, np.minimum(low, 0.0), low), np.where(crosses, np.maximum(high, 0.0), high)
    slack = 2.0 * EPS * np.maximum(np.abs(low), np.abs(high))
    exact = right in (0.0, 1.0) and left in (0.0, 1.0)  # products with 0 and 1 are not rounded
    return Interval(low, high) if exact else Interval(low - slack, high + slack)


def absolute_sum(matrix: Array, sizes: Array) -> Array:
    """An upper bound of |A| s for sizes s ≥ 0."""
    return np.asarray((np.abs(matrix) @ sizes) * (1.0 + rounding_of_sum(matrix.shape[-1])))
