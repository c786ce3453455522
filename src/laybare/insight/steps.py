"""Borders of a function that is constant on pieces: across one input (a decision tree) or across several (step units, labels).

Two points on both sides of a border are brought together by halving. In a tree one input alone decides: changing it flips the
answer, changing all the others does not.
"""

from __future__ import annotations

import numpy as np

from laybare.insight.probe import Probe
from laybare.shapes import Array

HALVINGS = 14
"""The two sides end within 1/16,000 of their distance: a second border in between is unlikely."""

SIDEWAYS = 30.0
"""Distances of the two sides by which a border is followed sideways."""


def border(probe: Probe, first: Array, second: Array) -> tuple[Array, Array]:
    """Points on both sides of a border between two points with different answers."""
    value = probe(first[None]).y[0]
    for _ in range(HALVINGS):
        middle = (first + second) / 2
        if probe(middle[None]).y[0] == value:
            first = middle
        else:
            second = middle
    return first, second


def one_input_decides(probe: Probe, first: Array, second: Array) -> bool:
    """Whether the step from the first to the second side is made by one input: found by halving the set of inputs."""
    value = probe(first[None]).y[0]
    inputs = np.arange(len(first))
    while len(inputs) > 1:
        half = inputs[: len(inputs) // 2]
        inputs = half if _changed(probe, first, second, half) != value else inputs[len(half) :]
    others = np.delete(np.arange(len(first)), inputs)
    if _changed(probe, first, second, inputs) == value or _changed(probe, first, second, others) != value:
        return False
    aside = SIDEWAYS * (second - first)  # a border that is not square to this input is elsewhere there
    aside[inputs] = 0.0
    if probe.oracle.box is not None:
        aside = np.clip(first + aside, probe.oracle.box.low, probe.oracle.box.high) - first
    return bool(probe((first + aside)[None]).y[0] != _changed(probe, first + aside, second, inputs))


def _changed(probe: Probe, first: Array, second: Array, inputs: Array) -> float:
    """The answer at the first point with these inputs taken from the second."""
    point = first.copy()
    point[inputs] = second[inputs]
    return float(probe(point[None]).y[0])
