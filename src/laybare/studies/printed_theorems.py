"""What becomes of Theorems 8 and 9 of Goel and Panigrahy (2019) when they are run.

Theorem 8: ascent of h(z) = E[f(x + z)] - λ|z|₁ - γ|z|², known exactly, in a box; beside it the graph of log f from samples.
Theorem 9: even units |w·x| with orthonormal rows, by the largest fourth moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from laybare.activations import absolute, exponential
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.cliques import blocks, correlation_graph, correlations
from laybare.networks import Layer, max_angle
from laybare.planted import orthonormal_weights
from laybare.planted.high_thresholds import PlantedTarget, polynomial_top
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Gaussian, Samples
from laybare.studies.study import Study, StudyResult, headings, over, spread
from laybare.theory.shift_objective import penalised

BOX, STARTS = 4.0, 10
"""The box in which h of Theorem 8 is climbed, and from how many random points."""

SELECTED = 0.5
"""A block counts as selected by z from this height on; the theorem promises 1 on one block, and almost 0 elsewhere."""


def samples(target: PlantedTarget, rows: int, rng: np.random.Generator) -> Samples:
    """White inputs and the target's outputs."""
    x = rng.standard_normal((rows, target.layer.dim))
    return Samples(x, target(x), law=Gaussian(0, 1))


class Ends(NamedTuple):
    """Where the ascents of Theorem 8 end: at one block inside of the box, at its boundary, near zero."""

    one_block: int
    boundary: int
    zero: int


def climb_shifted(sparsity: float, size: float, seed: int) -> Ends:
    """Ascents of h from random points of the box; three blocks of two coordinates, products of two units."""
    from scipy.optimize import minimize

    rng = np.random.default_rng([seed, round(10 * sparsity)])
    weights = np.kron(np.eye(3), np.ones((1, 2)))
    top = polynomial_top(3, 2, rng=rng)

    def down(z: Array) -> tuple[float, Array]:
        value, slope = penalised(top, weights, z, sparsity, size)
        return -value, -slope

    ends = [0, 0, 0]
    for start in rng.uniform(0.0, BOX, (STARTS, weights.shape[1])):
        z = minimize(down, start, jac=True, method="L-BFGS-B", bounds=[(1e-12, BOX)] * len(start)).x
        selected = weights @ z / 2 > SELECTED
        ends[1 if (z > BOX - 1e-6).any() else 0 if selected.sum() == 1 else 2] += 1
    return Ends(*ends)


def graph_is_exact(seed: int, rows: int = 10_000) -> bool:
    """What the objective was for: the blocks, read off the second moment of log f; t = 0, as in the theorem."""
    rng = np.random.default_rng([seed, 8])
    weights = np.kron(np.eye(3), np.ones((1, 2)))
    target = PlantedTarget(Layer(weights, np.zeros(3), exponential(1.0)), polynomial_top(3, 2, rng=rng))
    try:
        found = blocks(correlation_graph(correlations(samples(target, rows, rng))))
    except LaybareError:
        return False
    return {tuple(row) for row in found} == {tuple(row) for row in weights}


class ShiftCell(NamedTuple):
    """λ and γ of the objective; None for the graph in its place."""

    sparsity: float | None
    size: float | None


class ShiftGrid(NamedTuple):
    """Pairs of λ and γ."""

    penalties: tuple[tuple[float, float], ...] = ((0.1, 1.0), (1.0, 10.0), (5.0, 50.0))

    def cells(self) -> list[ShiftCell]:
        return [*(ShiftCell(*pair) for pair in self.penalties), ShiftCell(None, None)]


class ShiftRow(NamedTuple):
    """A row of the table of Theorem 8: where ascents ended, or how often the graph was exact."""

    way: str
    one_block: int
    at_the_box: int
    near_0: int
    runs: int


def shift_once(cell: ShiftCell, seed: int) -> Ends:
    """Ends of ascents; an exact graph counts as one block."""
    if cell.sparsity is None or cell.size is None:
        return Ends(int(graph_is_exact(seed)), 0, 0)
    return climb_shifted(cell.sparsity, cell.size, seed)


def shifts(grid: ShiftGrid, runs: Mapping[ShiftCell, list[Ends]]) -> StudyResult:
    """Counts over all seeds and starts."""
    rows = [
        ShiftRow(
            "graph of log f" if cell.size is None else f"ascent, λ = {cell.sparsity:g}, γ = {cell.size:g}",
            sum(end.one_block for end in each), sum(end.boundary for end in each), sum(end.zero for end in each),
            len(each) * (1 if cell.size is None else STARTS))
        for cell, each in runs.items()]
    climbs, graph = rows[:-1], rows[-1]
    sentence = (
        f"{sum(row.one_block for row in climbs)} of {sum(row.runs for row in climbs)} ascents end at one block inside of the "
        f"box; the graph of log f is exact in {graph.one_block} of {graph.runs}.")
    return StudyResult(headings(ShiftRow), rows, sentence)


THEOREM_8 = Study(
    "gp19-theorem8", "Theorem 8 of Goel and Panigrahy: maxima of the mean of f(x + z) less penalties, and a graph instead",
    "The objective is unbounded, and no ascent ends at one block; the graph of log f finds all blocks.",
    ShiftGrid(), ShiftGrid(), over(ShiftGrid.cells, shift_once), shifts)


def layer_angle(target: PlantedTarget, method: HighThreshold, rows: int, rng: np.random.Generator) -> float:
    """Largest angle of what `recover_layer` finds, up to sign for even units; NaN if it refuses."""
    try:
        found = recover_layer(samples(target, rows, rng), method, target.layer.width, rng=rng).layer.weights
    except LaybareError:
        return np.nan
    if target.layer.activation.parity == "even":
        best = np.abs(found @ target.layer.weights.T).argmax(axis=1)
        found = found * np.sign(np.sum(found * target.layer.weights[best], axis=1, keepdims=True))
    return max_angle(found, target.layer.weights)


def even_angle(rows: int, seed: int) -> float:
    """Three units |w·x| in six dimensions, orthonormal, products of two of them."""
    rng = np.random.default_rng([seed, rows, 9])
    target = PlantedTarget(Layer(orthonormal_weights(6, 3, rng=rng), np.zeros(3), absolute), polynomial_top(3, 2, rng=rng))
    return layer_angle(target, HighThreshold.literal(absolute), rows, rng)


class EvenRow(NamedTuple):
    """A row of the table of Theorem 9: spread of the largest angle over the seeds."""

    samples: int
    median: float
    lowest_tenth: float
    highest_tenth: float
    refused: int


def even_angles(grid: tuple[int, ...], runs: Mapping[int, list[float]]) -> StudyResult:
    """Medians over samples."""
    rows = [EvenRow(n, *spread(each)) for n, each in runs.items()]
    panel = Panel("even units", "samples", "largest angle (rad)", [Curve("median", grid, [row.median for row in rows])], "xy")
    sentence = "Even units: " + ", ".join(f"{row.median:.2g} rad at n = {row.samples:,}" for row in rows) + " (medians)."
    return StudyResult(headings(EvenRow), rows, sentence, LinesFigure([panel], "Largest angle of even units over samples"))


THEOREM_9 = Study(
    "gp19-theorem9", "Theorem 9 of Goel and Panigrahy: even units without a threshold, by their fourth moments",
    "The angle falls like one over the root of the samples.",
    (5000, 20_000, 80_000), (5000, 20_000, 80_000, 320_000), over(lambda sizes: sizes, even_angle, stage="samples"),
    even_angles, seeds=10)
