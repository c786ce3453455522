"""Queries in pairs (x, -x): any law of the inputs becomes symmetric, and odd and even parts of the answers fall apart exactly.

For y(x) = A act(Wx) + c with act(t) = t above zero and a·t below,

    (y(x) - y(-x))/2 = (1+a)/2 AWx          (y(x) + y(-x))/2 = (1-a)/2 A|Wx| + c

at every single point, so the product AW takes dim pairs and no average.
Source: Ge, Kuditipudi, Li and Wang (2019), introduction: inputs augmented by their negations; the pointwise split is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.drawing import Draw
from laybare.source.oracle import Oracle


def paired_inputs(draw: Draw) -> Draw:
    """Inputs x₀, -x₀, x₁, -x₁, ... from any generator of inputs, for `Oracle(f, dim, law=Symmetric(), inputs=...)`.

    Every range of rows that starts and ends at an even row is exactly symmetric: its odd averages vanish to rounding. Half of
    the queries are new points.
    """

    def pairs(rng: Generator, n: int) -> Array:
        half = np.asarray(draw(rng, (n + 1) // 2))
        both: Array = np.stack([half, -half], axis=1).reshape(-1, half.shape[1])
        return both[:n]

    return pairs


class Parity(NamedTuple):
    """Odd and even part of a black box at some points, (n, outputs) each."""

    odd: Array
    even: Array


def split_parity(oracle: Oracle, x: Array) -> Parity:
    """Ask x and -x, two queries a point, and split the answers. Exact for a black box without noise."""
    if len(x) == 0:
        raise InvalidInput("No points were asked for.", "There is nothing to split.", "Give at least one row.", shape=np.shape(x))
    answers = oracle.ask(np.concatenate([x, -np.asarray(x)]))
    above, below = answers[: len(x)], answers[len(x) :]
    return Parity((above - below) / 2, (above + below) / 2)
