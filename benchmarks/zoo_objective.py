"""The objective of the benchmark of real networks: which units are right, how far the function is off, what was claimed.

A unit is judged by its input z(x) at points of the domain, which no permutation or scale of the units below changes: z / sd(z) of
a found unit and of a true one differ by less than `UNIT_TOL` (root mean square; relative to |mean| / sd where that is larger).
The function is judged by its largest error at these points, relative to the standard deviation of the true outputs there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from zoo_data import Array, RealNetwork

import laybare as lb

POINTS = 4096
UNIT_TOL, FUNCTION_TOL = 1e-2, 1e-3
"""Largest error of a unit that counts as right; largest error of a function that may be called verified."""

BENDS = 1e-3
"""A unit bends in the domain if this share of points lies on either side of it."""


class Score(NamedTuple):
    """`layers`: for every layer (right, true, found); `unit_error`: the largest of the right ones.

    `open`: units that bend in the domain and are not right; `function`: NaN if not all of the function was read.
    """

    layers: list[tuple[int, int, int]]
    unit_error: float
    open: int
    function: float

    @property
    def whole(self) -> bool:
        return self.open == 0 and self.function <= FUNCTION_TOL


def score(network: RealNetwork, form: str, found: lb.Network | None) -> Score:
    """Judge what was found; nothing was, if it is None."""
    x = network.draw(np.random.default_rng(1), POINTS)
    truth = network.truth.canonical()
    true_inputs = unit_inputs(truth, x)
    found_inputs = [] if found is None else unit_inputs(found, x)
    signed = found is not None and (found.top is not None or bool(np.any(found.readout)))
    layers, worst, missed = [], 0.0, 0
    for level, true in enumerate(true_inputs):
        mine = found_inputs[level] if level < len(found_inputs) else np.empty((POINTS, 0))
        errors = nearest_errors(mine, true, signed=signed)
        right = errors <= UNIT_TOL
        layers.append((int(right.sum()), true.shape[1], mine.shape[1]))
        worst = max(worst, float(errors[right].max(initial=0.0)))
        share = (true > 0.0).mean(axis=0)
        missed += int((~right & (share >= BENDS) & (share <= 1.0 - BENDS)).sum())
    layers += [(0, 0, further.shape[1]) for further in found_inputs[len(true_inputs):]]
    return Score(layers, worst, missed, function_error(network, form, found, x) if signed else np.nan)


def unit_inputs(network: lb.Network, x: Array) -> list[Array]:
    """z (points, width) of every layer."""
    inputs, h = [], x
    for layer in network.layers:
        inputs.append(h @ layer.weights.T + layer.biases)
        h = np.maximum(inputs[-1], 0.0)
    return inputs


def nearest_errors(found: Array, true: Array, *, signed: bool) -> Array:
    """For every true unit the error of the found one that it is paired with; infinite without one."""
    errors = np.full(true.shape[1], np.inf)
    if not found.shape[1]:
        return errors
    (f, f_sd), (t, t_sd) = _scaled(found), _scaled(true)
    far = np.maximum(1.0, np.abs(t.mean(axis=0)))[:, None]
    square = (t**2).mean(axis=0)[:, None] + (f**2).mean(axis=0)[None]
    product = 2.0 * (t.T @ f) / len(t)
    distance = np.sqrt(np.maximum(square - (product if signed else np.abs(product)), 0.0)) / far
    distance[t_sd == 0.0] = distance[:, f_sd == 0.0] = 1e9
    rows, columns = linear_sum_assignment(np.minimum(distance, 1.0))
    side = np.ones(len(rows)) if signed else np.sign(product[rows, columns])
    exact = np.sqrt(((t[:, rows] - side * f[:, columns]) ** 2).mean(axis=0)) / far[rows, 0]
    errors[rows] = np.where(distance[rows, columns] < 1e9, exact, np.inf)
    return errors


def _scaled(z: Array) -> tuple[Array, Array]:
    sd = z.std(axis=0)
    return z / np.where(sd > 0.0, sd, 1.0), sd


def function_error(network: RealNetwork, form: str, found: lb.Network | None, x: Array) -> float:
    """The largest |f̂ - f|, relative to the standard deviation of f; NaN if the rest of the network is the black box itself."""
    if found is None or found.top is not None:
        return float("nan")
    y = network.outputs(form, x)
    difference = np.asarray(found(x)).reshape(len(x), -1)
    return float("inf") if difference.shape != y.shape else float(np.abs(difference - y).max() / y.std(axis=0).max())


def row_of(network: RealNetwork, form: str, solver: str, judged: Score, outcome: dict[str, Any]) -> dict[str, Any]:
    """One line of the table."""
    return {
        "network": network.name, "shape": network.shape, "form": form, "solver": solver, **outcome,
        "runtime": network.runtime if form == "runtime" else "",
        "layers": judged.layers, "unit_error": judged.unit_error, "open": judged.open, "function": judged.function,
        "wrong_and_verified": bool(outcome["verdict"] == "verified" and not judged.whole)}
