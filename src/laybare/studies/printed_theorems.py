"""What becomes of Theorems 8, 9 and 13 and of appendix B.8 of Goel and Panigrahy (2019) when they are run.

Theorem 8: ascent of h(z) = E[f(x + z)] - λ|z|₁ - γ|z|², known exactly, in a box; beside it the graph of log f from samples.
Theorem 9: even units |w·x| with orthonormal rows, by the largest fourth moments.
Theorem 13 (appendix B.7): sigmoid units, the printed objective on plain rows and on rows retained in proportion to f.
Appendix B.8: ReLU units that enter the top with powers; what each adds to moments of order 2 and 4, and the printed objective.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, absolute, exponential, relu, sigmoid
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.cliques import blocks, correlation_graph, correlations
from laybare.lowest_layer.printed.hermite_objective import correlation
from laybare.networks import Layer, max_angle
from laybare.networks.polynomials import Polynomial, multilinear, with_powers
from laybare.planted import orthonormal_weights
from laybare.planted.high_thresholds import Target, polynomial_top, threshold_layer
from laybare.shapes import Array, Event
from laybare.source import Gaussian, Samples
from laybare.studies.study import Cell, Outcome, Settings, Study
from laybare.theory.shift_objective import penalised
from laybare.theory.unit_coefficients import composed_coefficients

BOX, STARTS = 4.0, 10
PENALTIES = ((0.1, 1.0), (1.0, 10.0), (5.0, 50.0))
"""λ and γ of Theorem 8, and the box in which h is climbed from so many random points."""

SELECTED = 0.5
"""A block counts as selected by z from this height on; the theorem promises 1 on one block, and almost 0 elsewhere."""


def samples(target: Target, rows: int, rng: np.random.Generator) -> Samples:
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
    target = Target(Layer(weights, np.zeros(3), exponential(1.0)), polynomial_top(3, 2, rng=rng))
    try:
        found = blocks(correlation_graph(correlations(samples(target, rows, rng))))
    except LaybareError:
        return False
    return {tuple(row) for row in found} == {tuple(row) for row in weights}


def _theorem_8(settings: Settings) -> Outcome:
    rows: list[tuple[Cell, ...]] = []
    for sparsity, size in PENALTIES:
        ends = [climb_shifted(sparsity, size, seed) for seed in settings.seeds]
        rows.append((f"ascent, λ = {sparsity:g}, γ = {size:g}", *np.sum(ends, axis=0).tolist(), STARTS * len(ends)))
        _tick(settings, len(rows), len(PENALTIES) + 1, "penalties")
    exact = sum(graph_is_exact(seed) for seed in settings.seeds)
    rows.append(("graph of log f, 10,000 samples", exact, 0, 0, len(settings.seeds)))
    climbs = sum(int(row[4]) for row in rows[:-1])
    sentence = (
        f"{sum(int(row[1]) for row in rows[:-1])} of {climbs} ascents end at one block inside of the box; the graph of log f is "
        f"exact in {exact} of {len(settings.seeds)}.")
    return Outcome(("way", "one block", "at the box", "near 0", "runs"), rows, sentence)


THEOREM_8 = Study(
    "gp19-theorem8", "Theorem 8 of Goel and Panigrahy: maxima of the mean of f(x + z) less penalties, and a graph instead",
    "The objective is unbounded, and no ascent ends at one block; the graph of log f finds all blocks.", _theorem_8)


def literal_angle(target: Target, method: HighThreshold, rows: int, rng: np.random.Generator) -> float:
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
    target = Target(Layer(orthonormal_weights(6, 3, rng=rng), np.zeros(3), absolute), polynomial_top(3, 2, rng=rng))
    return literal_angle(target, HighThreshold.literal(absolute), rows, rng)


def _theorem_9(settings: Settings) -> Outcome:
    sizes = (5000, 20_000, 80_000, 320_000) if settings.full else (5000, 20_000, 80_000)
    rows: list[tuple[Cell, ...]] = []
    for n in sizes:
        rows.append((n, *spread([even_angle(n, seed) for seed in settings.seeds])))
        _tick(settings, len(rows), len(sizes), "samples")
    sentence = "Even units: " + ", ".join(f"{float(row[1]):.2g} rad at n = {row[0]:,}" for row in rows) + " (medians)."
    return Outcome(("samples", "median", "10 %", "90 %", "refused"), rows, sentence)


THEOREM_9 = Study(
    "gp19-theorem9", "Theorem 9 of Goel and Panigrahy: even units without a threshold, by their fourth moments",
    "The angle falls like one over the root of the samples.", _theorem_9)

SIGMOID_WAYS = ("printed", "printed, retained rows", "default")
DRAWN = 40
"""Rows that are drawn for each plain one where they are then retained in proportion to f: the paper's oracle gives them away."""


def sigmoid_angle(way: str, threshold: float, rows: int, seed: int) -> float:
    """Two sigmoid units in four dimensions, a bilinear top."""
    rng = np.random.default_rng([seed, rows, round(threshold), 13])
    target = Target(threshold_layer(4, 2, sigmoid, threshold, rng=rng), polynomial_top(2, 2, rng=rng))
    biased = "retained" in way
    literal = HighThreshold.literal(sigmoid, threshold, biased=biased)
    method = HighThreshold(activation=sigmoid) if way == "default" else literal
    return literal_angle(target, method, DRAWN * rows if biased else rows, rng)


def _theorem_13(settings: Settings) -> Outcome:
    cells = [(way, t, n) for t in (5.0, 8.0) for n in ((20_000, 80_000) if settings.full else (20_000,)) for way in SIGMOID_WAYS]
    rows: list[tuple[Cell, ...]] = []
    for way, t, n in cells:
        rows.append((way, t, n, *spread([sigmoid_angle(way, t, n, seed) for seed in settings.seeds])))
        _tick(settings, len(rows), len(cells), f"{way}, t={t:g}")
    sentence = "; ".join(f"{row[0]}, t = {row[1]:g}, n = {row[2]:,}: {float(row[3]):.2g} rad" for row in rows) + " (medians)."
    return Outcome(("way", "threshold", "samples", "median", "10 %", "90 %", "refused"), rows, sentence)


THEOREM_13 = Study(
    "gp19-theorem13", "Theorem 13 (B.7) of Goel and Panigrahy: sigmoid units, plain rows and rows retained in proportion to f",
    "Retained rows help the printed objective; the default fit needs neither.", _theorem_13)

POWERS_THRESHOLD = 2.0


class PowerRun(NamedTuple):
    """Measured over expected moment along a unit, orders 2 and 4; largest angles of the printed form and of the default."""

    second: float
    fourth: float
    printed: float
    default: float


def powers_once(activation: Activation, rows: int, seed: int) -> PowerRun:
    """Two units in four dimensions under X + X²/2 and products: q∘u takes the place of u."""
    rng = np.random.default_rng([seed, rows, 18])
    exponents = with_powers(multilinear(2, 2), 2)
    top = Polynomial(exponents, np.array([0.0, 1.0, 1.0, 0.3, 0.5, 0.5]))
    target = Target(threshold_layer(4, 2, activation, POWERS_THRESHOLD, rng=rng), top)
    source, cosines = samples(target, rows, rng), target.layer.weights @ target.layer.weights.T
    measured = [correlation(source, w) for w in target.layer.weights]
    expected = [
        float(np.mean(cosines**order @ composed_coefficients(top, activation, POWERS_THRESHOLD, order))) for order in (2, 4)]
    second, fourth = (float(np.mean([m[at] for m in measured])) / expected[at] for at in (0, 1))
    ways = (HighThreshold.literal(activation, POWERS_THRESHOLD), HighThreshold(activation=activation))
    return PowerRun(second, fourth, *(literal_angle(target, way, rows, rng) for way in ways))


def _general_degree(settings: Settings) -> Outcome:
    sizes = (20_000, 80_000, 320_000) if settings.full else (20_000, 80_000)
    rows: list[tuple[Cell, ...]] = []
    for n in sizes:
        runs = np.array([powers_once(relu, n, seed) for seed in settings.seeds])
        rows.append((n, *np.nanmedian(runs, axis=0).tolist(), len(runs)))
        _tick(settings, len(rows), len(sizes), "samples")
    columns = ("samples", "order 2 / expected", "order 4 / expected", "angle, printed", "angle, default", "runs")
    last = rows[-1]
    sentence = (
        f"At n = {last[0]:,} moments of order 2 and 4 are {float(last[1]):.2f} and {float(last[2]):.2f} times those of q∘u; the "
        f"printed form ends at {float(last[3]):.2g} rad, the default at {float(last[4]):.2g} (medians).")
    return Outcome(columns, rows, sentence)


GENERAL_DEGREE = Study(
    "gp19-powers", "Appendix B.8 of Goel and Panigrahy: units that enter the top with powers",
    "Each unit acts like one of the activation q∘u; products of units add little.", _general_degree)


def spread(values: list[float]) -> tuple[float, float, float, int]:
    """Median, tenths, and how many are missing."""
    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return np.nan, np.nan, np.nan, len(values)
    return float(np.median(kept)), float(np.quantile(kept, 0.1)), float(np.quantile(kept, 0.9)), len(values) - len(kept)


def _tick(settings: Settings, done: int, total: int, detail: str) -> None:
    if settings.progress is not None:
        settings.progress(Event("cells", done, total, detail))
