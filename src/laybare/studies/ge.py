"""Figures 2, 3 and 4 of Ge, Kuditipudi, Li and Wang (2019), each with plain descent from random starts beside.

Figure 2: A and W random orthonormal, x ~ N(0, I), no noise; errors over the number of samples at 10x10 and 32x32, and root
normalised errors over the dimension at n = 10,000. Figure 3: 10x10, n = 10,000, label noise, Gaussian inputs and the mixture
N(±1, I). Figure 4: 10x10, n = 20,000, mixture, condition number of W or of A. The paper takes five trials each and draws three
curves: errors of W, of A, and of the outputs (MSE). Its text gives one number, an average error of about 0.15 for the printed
form at 10x10, n = 10,000; axes are not in the text, so the grids of noise and of condition numbers are ours.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.planted import gaussian_inputs, mixture_inputs, orthonormal_weights
from laybare.studies.ge_arms import ARMS, FRESH, MOMENTS, OURS, PRINTED, SymmetricProblem, SymmetricRun, conditioned, planted, run
from laybare.studies.ge_figures import DIMENSION, SymmetricRow, drawn
from laybare.studies.study import EXACT_ERROR, Study, StudyResult, headings, over

PRINTED_ERROR = 0.15
"""What the paper reports for its printed form, 10x10, n = 10,000, ten trials."""


class Square(NamedTuple):
    """Square problems: orthonormal layers, or of condition `w` and `a`."""

    size: int
    samples: int
    noise: float = 0.0
    mixture: bool = False
    w: float = 1.0
    a: float = 1.0

    def draw(self, rng: Generator) -> SymmetricProblem:
        """A problem of this kind."""
        W, A = (
            orthonormal_weights(self.size, self.size, rng=rng) if condition == 1.0 else conditioned(self.size, condition, rng)
            for condition in (self.w, self.a))
        make = mixture_inputs if self.mixture else gaussian_inputs
        x, fresh = (make(n, self.size, rng=rng) for n in (self.samples, FRESH))
        return SymmetricProblem(planted(W, A), x, fresh, self.noise)


class SymmetricCell(NamedTuple):
    """A point of a panel: its number on the axis, the problem there; and the name of the arm."""

    panel: str
    value: float
    problem: Square
    arm: str


class SymmetricGrid(NamedTuple):
    """Points of the panels; every arm at each of them."""

    points: tuple[tuple[str, float, Square], ...]

    def cells(self) -> list[SymmetricCell]:
        return [SymmetricCell(*point, arm) for point in self.points for arm in ARMS]


Runs = Mapping[SymmetricCell, list[SymmetricRun]]


def run_once(cell: SymmetricCell, seed: int) -> SymmetricRun:
    """Draw a problem, recover it, compare."""
    rng = np.random.default_rng([seed, zlib.crc32(cell.panel.encode()), round(1e6 * cell.value)])
    return run(cell.arm, cell.problem.draw(rng), rng)


def table(runs: Runs) -> list[SymmetricRow]:
    """Means over the trials that were not refused."""
    return [_row(cell, some) for cell, some in runs.items()]


def _row(cell: SymmetricCell, runs: Sequence[SymmetricRun]) -> SymmetricRow:
    weights, readout, mse = (
        _mean(each) for each in ([one.weights for one in runs], [one.readout for one in runs], [one.mse for one in runs]))
    return SymmetricRow(
        cell.panel, cell.value, cell.arm, len(runs), weights, readout, mse, float(np.sqrt(weights / cell.problem.size)),
        float(np.sqrt(readout / cell.problem.size)), sum(one.largest < EXACT_ERROR for one in runs),
        float(np.median([one.seconds for one in runs])))


def _mean(values: Sequence[float]) -> float:
    kept = [value for value in values if np.isfinite(value)]
    return float(np.mean(kept)) if kept else float("nan")


def _exact(rows: Sequence[SymmetricRow]) -> str:
    own = {arm: [row for row in rows if row.arm == arm] for arm in ARMS}
    return ", ".join(f"{arm} {sum(r.all_numbers_exact for r in some)}/{sum(r.runs for r in some)}" for arm, some in own.items())


def figure_2(grid: SymmetricGrid, runs: Runs) -> StudyResult:
    """Errors over the number of samples, and over the dimension."""
    rows = table(runs)
    (literal,) = (row.error_of_A for row in rows if (row.panel, row.value, row.arm) == ("10x10", 10_000, PRINTED))
    flat = [row for row in rows if (row.panel, row.arm) == (DIMENSION, MOMENTS)]
    sentence = (
        f"The printed form has a mean error of A of {literal:.2g} at 10x10 and n = 10,000; the paper says about {PRINTED_ERROR}. "
        f"Root mean error of A by our moments alone: {', '.join(f'{r.root_mean_A:.2g} at dimension {r.value:g}' for r in flat)}. "
        f"Every number within 1e-10: {_exact(rows)}.")
    return StudyResult(headings(SymmetricRow), rows, sentence, drawn(rows, "samples", "Errors over samples and dimension"))


def figure_3(grid: SymmetricGrid, runs: Runs) -> StudyResult:
    """Errors over the noise of the outputs."""
    rows = table(runs)
    floors = {cell.value: _floor(cell.problem) for cell in runs}
    ratios = [row.mse_of_outputs / floors[row.value] for row in rows if row.arm == OURS]
    means = {arm: np.nanmean([row.error_of_A for row in rows if row.arm == arm]) for arm in ARMS}
    sentence = (
        f"SymmetricInputs' error of the outputs is {min(ratios):.2f} to {max(ratios):.2f} of noise² · free numbers / (samples · "
        f"outputs), so it grows in step with the noise, as the paper says of its own. Mean error of A over all points: "
        f"{', '.join(f'{arm} {value:.2g}' for arm, value in means.items())}.")
    return StudyResult(headings(SymmetricRow), rows, sentence, drawn(rows, "noise", "Errors over label noise"))


def _floor(problem: Square) -> float:
    """noise² · free numbers / (samples · outputs), samples without the held-out twentieth."""
    free = problem.size * (2 * problem.size - 1) + problem.size
    return problem.noise**2 * free / ((problem.samples - problem.samples // 20) * problem.size)


def figure_4(grid: SymmetricGrid, runs: Runs) -> StudyResult:
    """Errors over the condition number of either layer."""
    rows = table(runs)
    worst = {arm: max(row.mse_of_outputs for row in rows if row.arm == arm) for arm in ARMS}
    sentence = (
        f"Every number within 1e-10: {_exact(rows)}. Largest mean squared error of the outputs: "
        f"{', '.join(f'{arm} {value:.1e}' for arm, value in worst.items())}.")
    return StudyResult(headings(SymmetricRow), rows, sentence, drawn(rows, "condition number", "Errors over condition numbers"))


def _figure_2_grid(small: Sequence[int], large: Sequence[int], dims: Sequence[int]) -> SymmetricGrid:
    return SymmetricGrid((
        *(("10x10", float(n), Square(10, n)) for n in small), *(("32x32", float(n), Square(32, n)) for n in large),
        *((DIMENSION, float(d), Square(d, 10_000)) for d in dims)))


def _figure_3_grid(*levels: float) -> SymmetricGrid:
    return SymmetricGrid(tuple(
        (panel, noise, Square(10, 10_000, noise, panel == "mixture")) for panel in ("Gaussian", "mixture") for noise in levels))


def _figure_4_grid(*conditions: float) -> SymmetricGrid:
    return SymmetricGrid((
        *(("condition of W", c, Square(10, 20_000, mixture=True, w=c)) for c in conditions),
        *(("condition of A", c, Square(10, 20_000, mixture=True, a=c)) for c in conditions)))


FIGURE_2 = Study(
    "ge19-fig2", "Symmetric inputs: errors of both layers and of the outputs over samples and dimension, no noise",
    "A few times as many samples as parameters suffice; the root of the normalised error is flat in the dimension.",
    _figure_2_grid((160, 500, 2000, 10_000), (1200, 2400), (5, 10, 20)),
    _figure_2_grid((160, 500, 1000, 2000, 5000, 10_000), (1600, 2500, 5000, 10_000), (10, 16, 20, 26, 32)),
    over(SymmetricGrid.cells, run_once, stage="points"), figure_2, seeds=5)
FIGURE_3 = Study(
    "ge19-fig3", "Symmetric inputs: errors over label noise, Gaussian and mixture inputs",
    "The error of the outputs grows in step with the noise.",
    _figure_3_grid(0.05, 0.2, 0.5), _figure_3_grid(0.01, 0.05, 0.1, 0.2, 0.5, 1.0),
    over(SymmetricGrid.cells, run_once, stage="points"), figure_3, seeds=5)
FIGURE_4 = Study(
    "ge19-fig4", "Symmetric inputs: errors over the condition numbers of W and A, mixture inputs",
    "Steady for well-conditioned layers, then it fluctuates; the error of the outputs stays low.",
    _figure_4_grid(1.0, 10.0, 100.0), _figure_4_grid(1.0, 3.0, 10.0, 100.0, 1e3, 1e4),
    over(SymmetricGrid.cells, run_once, stage="points"), figure_4, seeds=5)
