"""Writes the table of simplify.md: what `lb.simplify` saves in a mixed-integer program. Run it after changes.

The largest output of a network on a box as a MILP: an indicator for every unit that bends there, bounds by interval arithmetic,
solved by HiGHS (scipy.optimize.milp), before and after.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

import laybare as lb
from laybare.networks.simplification import Interval, activation_bounds, affine_bounds

PAGE = Path(__file__).parent / "simplify.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


class Program:
    """Variables with bounds, and rows low <= A v <= high."""

    def __init__(self, reach: Interval) -> None:
        self.low, self.high, self.whole = list(reach.low), list(reach.high), [0] * len(reach.low)
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def variable(self, low: float, high: float, whole: int = 0) -> int:
        self.low.append(low)
        self.high.append(high)
        self.whole.append(whole)
        return len(self.low) - 1

    def unit(self, inputs: list[int], row: Any, bias: float, low: float, high: float) -> int:
        """h = relu(row·inputs + bias) with low <= row·inputs + bias <= high."""
        h = self.variable(0.0, max(high, 0.0))
        sums = {v: -float(w) for v, w in zip(inputs, row, strict=True)} | {h: 1.0}
        if high <= 0.0:
            return h
        self.rows.append((sums, bias, bias if low >= 0.0 else np.inf))
        if low < 0.0:
            on = self.variable(0.0, 1.0, whole=1)
            self.rows += [({h: 1.0, on: -high}, -np.inf, 0.0), (sums | {on: -low}, -np.inf, bias - low)]
        return h


def largest_output(network: lb.Network, low: float, high: float) -> tuple[int, float, float]:
    """Indicators, the optimum, processor seconds."""
    reach = Interval(np.full(network.dim, low), np.full(network.dim, high))
    program, inputs = Program(reach), list(range(network.dim))
    for layer in network.layers:
        bounds = affine_bounds(layer.weights, np.asarray(layer.biases), reach)
        inputs = [
            program.unit(inputs, layer.weights[j], float(layer.biases[j]), float(bounds.low[j]), float(bounds.high[j]))
            for j in range(layer.width)]
        reach = activation_bounds(layer.activation, bounds)
    matrix, cost = np.zeros((len(program.rows), len(program.low))), np.zeros(len(program.low))
    for i, (terms, _, _) in enumerate(program.rows):
        matrix[i, list(terms)] = list(terms.values())
    cost[inputs] = -network.readout
    if network.linear is not None:
        cost[: network.dim] -= network.linear
    begun = time.process_time()
    solved = milp(
        cost, integrality=program.whole, bounds=Bounds(program.low, program.high), options={"time_limit": 100.0},
        constraints=LinearConstraint(matrix, [row[1] for row in program.rows], [row[2] for row in program.rows]))
    return sum(program.whole), float(network.offset - solved.fun), time.process_time() - begun


def as_relus(network: lb.Network, slope: float) -> lb.Network:
    """Leaky units as pairs of ReLUs, as converters write them: leaky(u) = relu(u) - slope·relu(-u)."""
    layers, spread = [], None
    for layer in network.layers:
        weights = layer.weights if spread is None else layer.weights @ spread
        layers.append(lb.Layer(np.vstack([weights, -weights]), np.concatenate([layer.biases, -np.asarray(layer.biases)])))
        spread = np.hstack([np.eye(layer.width), -slope * np.eye(layer.width)])
    return lb.Network(layers, network.readout @ spread, network.offset)


def trained(widths: tuple[int, ...], decay: float) -> lb.Network:
    """scikit-learn's MLPRegressor on the standardised diabetes data."""
    from sklearn.datasets import load_diabetes
    from sklearn.neural_network import MLPRegressor

    x, y = load_diabetes(return_X_y=True)
    mlp = MLPRegressor(hidden_layer_sizes=widths, alpha=decay, max_iter=2000, random_state=0)
    return lb.from_sklearn(mlp.fit((x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()))


def cases() -> dict[str, tuple[lb.Network, float]]:
    """Networks, and half the side of the box."""
    leaky = lb.leaky_relu(0.1)
    return {
        "leaky 5-12-1, written as ReLUs": (as_relus(lb.random_network(5, 12, leaky, rng=0), 0.1), 1.0),
        "leaky 5-16-1, written as ReLUs": (as_relus(lb.random_network(5, 16, leaky, rng=1), 0.1), 1.0),
        "leaky 3-8-6-1, written as ReLUs": (as_relus(lb.random_network(3, widths=(8, 6), activation=leaky, rng=0), 0.1), 1.0),
        "trained 10-32-32-1, weight decay 10": (trained((32, 32), 10.0), 0.5),
        "trained 10-64-1, weight decay 10": (trained((64,), 10.0), 1.0),
    }


def table() -> str:
    """Before and after, with the proved bound of the difference."""
    lines = ["| network | units | | indicators | | HiGHS, s | | same optimum | proved difference |",
             "|---|---|---|---|---|---|---|---|---|", "| | before | after | before | after | before | after | | |"]
    for name, (network, half) in cases().items():
        small = lb.simplify(network, box=(-half, half))
        (many, best, slow), (few, same, fast) = (largest_output(one, -half, half) for one in (network, small.network))
        lines.append(
            f"| {name} | {sum(small.before)} | {sum(small.after)} | {many} | {few} | {slow:.2f} | {fast:.2f} | "
            f"{'yes' if abs(best - same) < 1e-6 * max(1.0, abs(best)) else 'no'} | {small.bound:.0e} |")
        print(lines[-1], flush=True)  # noqa: T201
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
