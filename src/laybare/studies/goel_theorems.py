"""What becomes of Theorems 8, 9 and 13 and appendix B.8 of Goel and Panigrahy (2019) when they are run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import absolute, exponential, relu, sigmoid
from laybare.lowest_layer import HighThreshold, PrintedRoute, recover_layer
from laybare.lowest_layer.printed.objectives import hermite_correlation
from laybare.lowest_layer.smooth_route import correlation_graph, correlation_matrix, disjoint_cliques
from laybare.networks import Layer, max_angle
from laybare.networks.polynomials import Polynomial, multilinear, with_powers
from laybare.numerics.shapes import Array
from laybare.planted import PlantedTarget, orthonormal_weights, polynomial_top, threshold_layer
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, cross, gaussian_samples, refused_as, table
from laybare.theory.high_threshold_forms import composed_coefficients, penalised_objective


def samples(target: PlantedTarget, rows: int, rng: Generator) -> Samples:
    """White inputs and the target's outputs."""
    return gaussian_samples(target, target.layer.dim, rows, rng)


class ShiftCell(NamedTuple):
    """λ and γ of the objective, ascents from random points of a box and its side; no λ and γ for the graph in its place."""

    sparsity: float | None
    size: float | None
    starts: int = 10
    box: float = 4.0


class AscentEnds(NamedTuple):
    """Where the ascents of Theorem 8 end: at one block inside of the box, at its boundary, near zero."""

    one_block: int
    boundary: int
    zero: int


def climb_shifted(cell: ShiftCell, seed: int) -> AscentEnds:
    """Ascents of h from random points of the box; three blocks of two coordinates, products of two units.

    A block counts as selected by z from a height of 1/2 on; the theorem promises 1 on one block, and almost 0 elsewhere.
    """
    from scipy.optimize import minimize

    sparsity, size, starts, box = cell
    assert sparsity is not None and size is not None
    rng = np.random.default_rng([seed, round(10 * sparsity)])
    weights = np.kron(np.eye(3), np.ones((1, 2)))
    top = polynomial_top(3, 2, rng=rng)

    def down(z: Array) -> tuple[float, Array]:
        value, slope = penalised_objective(top, weights, z, sparsity, size)
        return -value, -slope

    ends = [0, 0, 0]
    for start in rng.uniform(0.0, box, (starts, weights.shape[1])):
        z = minimize(down, start, jac=True, method="L-BFGS-B", bounds=[(1e-12, box)] * len(start)).x
        selected = weights @ z / 2 > 0.5
        ends[1 if (z > box - 1e-6).any() else 0 if selected.sum() == 1 else 2] += 1
    return AscentEnds(*ends)


@refused_as(False)
def graph_is_exact(seed: int, rows: int = 10_000) -> bool:
    """What the objective was for: the blocks, read off the second moment of log f; t = 0, as in the theorem."""
    rng = np.random.default_rng([seed, 8])
    weights = np.kron(np.eye(3), np.ones((1, 2)))
    target = PlantedTarget(Layer(weights, np.zeros(3), exponential(1.0)), polynomial_top(3, 2, rng=rng))
    found = disjoint_cliques(correlation_graph(correlation_matrix(samples(target, rows, rng))))
    return {tuple(row) for row in found} == {tuple(row) for row in weights}


def shift_once(cell: ShiftCell, seed: int) -> AscentEnds:
    """Ends of ascents; an exact graph counts as one block."""
    return AscentEnds(int(graph_is_exact(seed)), 0, 0) if cell.size is None else climb_shifted(cell, seed)


def _shift_sentence(m: StudyMeasurement) -> str:
    *climbs, graph = m.rows
    return (
        f"{sum(row.one_block for row in climbs)} of {sum(row.runs for row in climbs)} ascents end at one block inside of the "
        f"box; the graph of log f is exact in {graph.one_block} of {graph.runs}.")


PENALTIES = ((0.1, 1.0), (1.0, 10.0), (5.0, 50.0))
THEOREM_8 = Study(
    "gp19-theorem8", "Theorem 8 of Goel and Panigrahy: maxima of the mean of f(x + z) less penalties, and a graph instead",
    "The objective is unbounded, and no ascent ends at one block; the graph of log f finds all blocks.",
    quick=PENALTIES, full=PENALTIES, cells=lambda pairs: [*(ShiftCell(*pair) for pair in pairs), ShiftCell(None, None)],
    run_cell=shift_once,
    table=table(
        way=lambda cell, runs: "graph of log f" if cell.size is None else f"ascent, λ = {cell.sparsity:g}, γ = {cell.size:g}",
        one_block=lambda cell, runs: sum(col.values(runs, "one_block")),
        at_the_box=lambda cell, runs: sum(col.values(runs, "boundary")), near_0=lambda cell, runs: sum(col.values(runs, "zero")),
        runs=lambda cell, runs: len(runs) * (1 if cell.size is None else cell.starts)),
    sentence=_shift_sentence)
"""Theorem 8 of Goel and Panigrahy (2019): ascent of h(z) = E[f(x + z)] - λ|z|₁ - γ|z|², known exactly, in a box; beside it the
graph of log f from samples. The grid is of pairs λ, γ."""


@refused_as(np.nan)
def layer_angle(target: PlantedTarget, method: HighThreshold, rows: int, rng: Generator) -> float:
    """Largest angle of what `recover_layer` finds, up to sign for even units; NaN if it refuses."""
    found = recover_layer(samples(target, rows, rng), method, target.layer.width, rng=rng).layer.weights
    if target.layer.activation.parity == "even":
        best = np.abs(found @ target.layer.weights.T).argmax(axis=1)
        found = found * np.sign(np.sum(found * target.layer.weights[best], axis=1, keepdims=True))
    return max_angle(found, target.layer.weights)


def even_angle(rows: int, seed: int) -> float:
    """Three units |w·x| in six dimensions, orthonormal, products of two of them."""
    rng = np.random.default_rng([seed, rows, 9])
    target = PlantedTarget(Layer(orthonormal_weights(6, 3, rng=rng), np.zeros(3), absolute), polynomial_top(3, 2, rng=rng))
    return layer_angle(target, HighThreshold.literal(absolute), rows, rng)


THEOREM_9 = Study(
    "gp19-theorem9", "Theorem 9 of Goel and Panigrahy: even units without a threshold, by their fourth moments",
    "The angle falls like one over the root of the samples.",
    quick=(5000, 20_000, 80_000), full=(5000, 20_000, 80_000, 320_000), run_cell=even_angle, seeds=10,
    table=table(samples=col.itself, **col.spread_columns("refused")),
    sentence=lambda m: (
        "Even units: " + ", ".join(f"{row.median:.2g} rad at n = {row.samples:,}" for row in m.rows) + " (medians)."),
    figure=lambda m: LinesFigure([
        Panel("even units", "samples", "largest angle (rad)", [Curve("median", m.grid, col.values(m.rows, "median"))], "xy")],
        "Largest angle of even units over samples"))
"""Theorem 9 of Goel and Panigrahy (2019): even units |w·x| with orthonormal rows, by the largest fourth moments."""


class SigmoidCell(NamedTuple):
    """A way, the threshold, and the rows it looks at; rows drawn for each one retained in proportion to f.

    The paper's oracle gives retained rows away.
    """

    way: str
    threshold: float
    samples: int
    drawn: int = 40


class SigmoidGrid(NamedTuple):
    """Sample sizes and thresholds; every way at each."""

    samples: tuple[int, ...]
    thresholds: tuple[float, ...] = (5.0, 8.0)


SIGMOID_WAYS = ("printed", "printed, retained rows", "default")


def sigmoid_angle(cell: SigmoidCell, seed: int) -> float:
    """Two sigmoid units in four dimensions, a bilinear top."""
    way, threshold, rows, drawn = cell
    rng = np.random.default_rng([seed, rows, round(threshold), 13])
    target = PlantedTarget(threshold_layer(4, 2, sigmoid, threshold, rng=rng), polynomial_top(2, 2, rng=rng))
    biased = "retained" in way
    literal = HighThreshold.literal(sigmoid, threshold, PrintedRoute(biased=biased))
    method = HighThreshold(activation=sigmoid) if way == "default" else literal
    return layer_angle(target, method, drawn * rows if biased else rows, rng)


def _sigmoid_sentence(m: StudyMeasurement) -> str:
    parts = "; ".join(f"{row.way}, t = {row.threshold:g}, n = {row.samples:,}: {col.radians(row.median)}" for row in m.rows)
    return f"{parts} (medians)."


THEOREM_13 = Study(
    "gp19-theorem13",
    "Theorem 13 (B.7) of Goel and Panigrahy: sigmoid units, plain rows and rows retained in proportion to f",
    "Retained rows help the printed objective; the default fit needs neither.",
    quick=SigmoidGrid((20_000,)), full=SigmoidGrid((20_000, 80_000)),
    cells=lambda grid: [SigmoidCell(way, t, n) for t, n, way in cross(lambda *v: v, grid.thresholds, grid.samples, SIGMOID_WAYS)],
    run_cell=sigmoid_angle, table=table("way", "threshold", "samples", **col.spread_columns("refused")),
    sentence=_sigmoid_sentence)
"""Theorem 13 (appendix B.7) of Goel and Panigrahy (2019): sigmoid units, by the printed objective on plain rows and on rows
retained in proportion to f, beside the default."""


class PowerRun(NamedTuple):
    """Measured over expected moment along a unit, orders 2 and 4; largest angles of the printed form and of the default."""

    second: float
    fourth: float
    printed: float
    default: float


def powers_once(rows: int, seed: int, threshold: float = 2.0) -> PowerRun:
    """Two ReLU units in four dimensions under X + X²/2 and products: q∘u takes the place of u."""
    rng = np.random.default_rng([seed, rows, 18])
    exponents = with_powers(multilinear(2, 2), 2)
    top = Polynomial(exponents, np.array([0.0, 1.0, 1.0, 0.3, 0.5, 0.5]))
    target = PlantedTarget(threshold_layer(4, 2, relu, threshold, rng=rng), top)
    source, cosines = samples(target, rows, rng), target.layer.weights @ target.layer.weights.T
    measured = [hermite_correlation(source, w) for w in target.layer.weights]
    expected = [float(np.mean(cosines**order @ composed_coefficients(top, relu, threshold, order))) for order in (2, 4)]
    second, fourth = (float(np.mean([m[at] for m in measured])) / expected[at] for at in (0, 1))
    ways = (HighThreshold.literal(relu, threshold), HighThreshold())
    return PowerRun(second, fourth, *(layer_angle(target, way, rows, rng) for way in ways))


def _median_of_finite(name: str) -> col.Column:
    return lambda cell, runs: col.spread(col.values(runs, name))[0]


def _powers_sentence(m: StudyMeasurement) -> str:
    last = m.rows[-1]
    return (
        f"At n = {last.samples:,} moments of order 2 and 4 are {last.order_2_over_expected:.2f} and "
        f"{last.order_4_over_expected:.2f} times those of q∘u; the printed form ends at {last.angle_printed:.2g} rad, the "
        f"default at {last.angle_default:.2g} (medians).")


GENERAL_DEGREE = Study(
    "gp19-powers", "Appendix B.8 of Goel and Panigrahy: units that enter the top with powers",
    "Each unit acts like one of the activation q∘u; products of units add little.",
    quick=(20_000, 80_000), full=(20_000, 80_000, 320_000), run_cell=powers_once,
    table=table(
        samples=col.itself, order_2_over_expected=_median_of_finite("second"), order_4_over_expected=_median_of_finite("fourth"),
        angle_printed=_median_of_finite("printed"), angle_default=_median_of_finite("default"), runs=col.count),
    sentence=_powers_sentence)
"""Appendix B.8 of Goel and Panigrahy (2019): ReLU units under X + X²/2; what each adds to moments of order 2 and 4, the printed
objective and the default. The grid is of samples."""
