"""Theorem 13 and appendix B.8 of Goel and Panigrahy (2019): sigmoid units, and units that enter the top with powers.

Theorem 13 (appendix B.7): the printed objective on plain rows and on rows retained in proportion to f, beside the default.
Appendix B.8: ReLU units under X + X²/2; what each adds to moments of order 2 and 4, the printed objective and the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from laybare.activations import relu, sigmoid
from laybare.lowest_layer import HighThreshold
from laybare.lowest_layer.printed.hermite_objective import correlation
from laybare.networks.polynomials import Polynomial, multilinear, with_powers
from laybare.planted.high_thresholds import PlantedTarget, polynomial_top, threshold_layer
from laybare.studies.printed_theorems import layer_angle, samples
from laybare.studies.study import Study, StudyResult, headings, over, radians, spread
from laybare.theory.unit_coefficients import composed_coefficients

SIGMOID_WAYS = ("printed", "printed, retained rows", "default")
DRAWN = 40
"""Rows that are drawn for each plain one where they are then retained in proportion to f: the paper's oracle gives them away."""


class SigmoidCell(NamedTuple):
    """A way, the threshold, and the rows it looks at."""

    way: str
    threshold: float
    samples: int


class SigmoidGrid(NamedTuple):
    """Sample sizes and thresholds; every way at each."""

    samples: tuple[int, ...]
    thresholds: tuple[float, ...] = (5.0, 8.0)

    def cells(self) -> list[SigmoidCell]:
        return [SigmoidCell(way, t, n) for t in self.thresholds for n in self.samples for way in SIGMOID_WAYS]


class SigmoidRow(NamedTuple):
    """A row of the table of Theorem 13: spread of the largest angle over the seeds."""

    way: str
    threshold: float
    samples: int
    median: float
    lowest_tenth: float
    highest_tenth: float
    refused: int


def sigmoid_angle(cell: SigmoidCell, seed: int) -> float:
    """Two sigmoid units in four dimensions, a bilinear top."""
    way, threshold, rows = cell
    rng = np.random.default_rng([seed, rows, round(threshold), 13])
    target = PlantedTarget(threshold_layer(4, 2, sigmoid, threshold, rng=rng), polynomial_top(2, 2, rng=rng))
    biased = "retained" in way
    literal = HighThreshold.literal(sigmoid, threshold, biased=biased)
    method = HighThreshold(activation=sigmoid) if way == "default" else literal
    return layer_angle(target, method, DRAWN * rows if biased else rows, rng)


def sigmoid_angles(grid: SigmoidGrid, runs: Mapping[SigmoidCell, list[float]]) -> StudyResult:
    """Medians for every way."""
    rows = [SigmoidRow(cell.way, cell.threshold, cell.samples, *spread(each)) for cell, each in runs.items()]
    told = "; ".join(f"{row.way}, t = {row.threshold:g}, n = {row.samples:,}: {radians(row.median)}" for row in rows)
    return StudyResult(headings(SigmoidRow), rows, f"{told} (medians).")


THEOREM_13 = Study(
    "gp19-theorem13", "Theorem 13 (B.7) of Goel and Panigrahy: sigmoid units, plain rows and rows retained in proportion to f",
    "Retained rows help the printed objective; the default fit needs neither.",
    SigmoidGrid((20_000,)), SigmoidGrid((20_000, 80_000)), over(SigmoidGrid.cells, sigmoid_angle), sigmoid_angles)

POWERS_THRESHOLD = 2.0


class PowerRun(NamedTuple):
    """Measured over expected moment along a unit, orders 2 and 4; largest angles of the printed form and of the default."""

    second: float
    fourth: float
    printed: float
    default: float


def powers_once(rows: int, seed: int) -> PowerRun:
    """Two ReLU units in four dimensions under X + X²/2 and products: q∘u takes the place of u."""
    rng = np.random.default_rng([seed, rows, 18])
    exponents = with_powers(multilinear(2, 2), 2)
    top = Polynomial(exponents, np.array([0.0, 1.0, 1.0, 0.3, 0.5, 0.5]))
    target = PlantedTarget(threshold_layer(4, 2, relu, POWERS_THRESHOLD, rng=rng), top)
    source, cosines = samples(target, rows, rng), target.layer.weights @ target.layer.weights.T
    measured = [correlation(source, w) for w in target.layer.weights]
    expected = [
        float(np.mean(cosines**order @ composed_coefficients(top, relu, POWERS_THRESHOLD, order))) for order in (2, 4)]
    second, fourth = (float(np.mean([m[at] for m in measured])) / expected[at] for at in (0, 1))
    ways = (HighThreshold.literal(relu, POWERS_THRESHOLD), HighThreshold())
    return PowerRun(second, fourth, *(layer_angle(target, way, rows, rng) for way in ways))


class PowerRow(NamedTuple):
    """A row of the table of appendix B.8: medians over the seeds."""

    samples: int
    order_2_over_expected: float
    order_4_over_expected: float
    angle_printed: float
    angle_default: float
    runs: int


def powers(grid: tuple[int, ...], runs: Mapping[int, list[PowerRun]]) -> StudyResult:
    """Medians over samples."""
    rows = [PowerRow(n, *PowerRun(*(spread(part)[0] for part in zip(*each, strict=True))), len(each)) for n, each in runs.items()]
    last = rows[-1]
    sentence = (
        f"At n = {last.samples:,} moments of order 2 and 4 are {last.order_2_over_expected:.2f} and "
        f"{last.order_4_over_expected:.2f} times those of q∘u; the printed form ends at {last.angle_printed:.2g} rad, the "
        f"default at {last.angle_default:.2g} (medians).")
    return StudyResult(headings(PowerRow), rows, sentence)


GENERAL_DEGREE = Study(
    "gp19-powers", "Appendix B.8 of Goel and Panigrahy: units that enter the top with powers",
    "Each unit acts like one of the activation q∘u; products of units add little.",
    (20_000, 80_000), (20_000, 80_000, 320_000), over(lambda sizes: sizes, powers_once, stage="samples"), powers)
