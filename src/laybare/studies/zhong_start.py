"""Figure 1(b) of Zhong et al. (2017): how far is the tensor start from the truth, over dimension and number of samples?

Teachers as in `zhong`. The error is min over permutations of max_j |w*_j - w_j|/|w*_j|, averaged over the runs; a cell is black
if Σ vᵢ of the start differs from the true one in any run. Arms: the printed start, our moments, our moments followed by
the solver inside their span (what TensorInit hands over), and random directions with the right lengths on average as control.
Beside the signs that each start has stand those that the inertia of its second moment alone gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.assembly.magnitudes import unit_readout
from laybare.decomposition import dense_subspace
from laybare.errors import LaybareError
from laybare.methods import TensorInit
from laybare.methods.start import network_at
from laybare.methods.tensor_init.routes import RefinedMoments
from laybare.moments import refine_subspace, second_moment
from laybare.networks import Layer, Network, max_relative_error
from laybare.planted import gaussian_rows
from laybare.report.plots import RatesFigure
from laybare.shapes import Array
from laybare.source import Samples
from laybare.studies.study import Study, StudyResult, headings, over
from laybare.studies.zhong import RELU2, WHOLE, WIDTH, DimensionCell, DimensionGrid, planted

LENGTH = 1.5
"""Mean length of a true row: the singular values are evenly spaced from 1 to 2."""

DARKEST = 1.6
"""Error shown as the darkest grey, 0 being white; black is kept for wrong signs."""


class StartRun(NamedTuple):
    """Error of a start, whether Σ vᵢ is right, and whether the inertia of the second moment has it right (None: not asked)."""

    error: float
    signs: bool
    inertia: bool | None


class StartRow(NamedTuple):
    """A row of the table."""

    dim: int
    samples: int
    arm: str
    mean_error: float | str
    wrong_sum_of_signs: int
    wrong_by_inertia: int | str
    runs: int


def moments(method: TensorInit) -> Callable[[Samples, Generator], Network]:
    """The start of a method alone."""

    def run(source: Samples, rng: Generator) -> Network:
        return unit_readout(network_at(method.start(source, WIDTH, rng=rng)))

    return run


def at_random(source: Samples, rng: Generator) -> Network:
    """Directions and signs drawn at random."""
    rows = LENGTH * gaussian_rows(source.dim, WIDTH, rng=rng)
    return Network(Layer(rows, None, RELU2), rng.choice([-1.0, 1.0], WIDTH))


def raw_inertia(source: Samples) -> int:
    """Positive ones among the eigenvalues of M₂ of largest size."""
    return dense_subspace(second_moment(source)[0], source.dim, WIDTH).positive


def refined_inertia(source: Samples) -> int:
    """Positive eigenvalues of M₂ in the refined span."""
    inside = refine_subspace(source, WIDTH, RELU2, order=2).moments.tensor(2)[0]
    return int(np.sum(np.linalg.eigvalsh(inside) > 0))


class StartArm(NamedTuple):
    """A start, and the count of positive readouts from the second moment that goes with it."""

    start: Callable[[Samples, Generator], Network]
    positive: Callable[[Samples], int] | None


ARMS = {
    "printed": StartArm(moments(TensorInit.literal(RELU2)), raw_inertia),
    "our moments": StartArm(moments(TensorInit(activation=RELU2, route=RefinedMoments(inside=None))), refined_inertia),
    "ours, solver in the span": StartArm(moments(TensorInit(activation=RELU2)), refined_inertia),
    "random": StartArm(at_random, None)}


def run_once(cell: DimensionCell, seed: int) -> StartRun:
    """Plant a network, start, compare."""
    dim, samples, arm = cell
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    positive = int(np.sum(truth.readout > 0))
    counted = ARMS[arm].positive
    seen = None if counted is None else counted(source) == positive
    try:
        start = ARMS[arm].start(source, rng)
    except LaybareError:  # too few samples for the power method
        return StartRun(np.nan, False, seen)
    return StartRun(
        max_relative_error(start.layer.weights, truth.layer.weights), int(np.sum(start.readout > 0)) == positive, seen)


def cells(grid: DimensionGrid) -> list[DimensionCell]:
    """Every arm at every dimension and number of samples."""
    return [DimensionCell(dim, samples, arm) for dim in grid.dims for samples in grid.samples for arm in ARMS]


def summary(grid: DimensionGrid, runs: Mapping[DimensionCell, list[StartRun]]) -> StudyResult:
    """Mean errors and wrong signs in every cell, and a map of both for every arm."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    maps = {arm: shades([row for row in rows if row.arm == arm], grid) for arm in ARMS}
    meaning = "Error of the start, white for 0 and black for wrong signs,"
    figure = RatesFigure(maps, grid.dims, grid.samples, meaning=meaning, scale=f"1: exact, 0.15: error {DARKEST:g}, 0: signs")
    return StudyResult(headings(StartRow), rows, _sentence(rows), figure)


def _row(cell: DimensionCell, runs: list[StartRun]) -> StartRow:
    errors = [run.error for run in runs if np.isfinite(run.error)]
    asked = [run.inertia for run in runs if run.inertia is not None]
    return StartRow(
        *cell, float(np.mean(errors)) if errors else "", sum(not run.signs for run in runs),
        sum(not right for right in asked) if asked else "", len(runs))


def shades(rows: list[StartRow], grid: DimensionGrid) -> Array:
    """1 for no error, 0.15 for the largest, 0 if the sum of signs was wrong in any run."""
    shade = {}
    for row in rows:
        light = 0.0 if row.mean_error == "" else 1.0 - 0.85 * min(float(row.mean_error) / DARKEST, 1.0)
        shade[row.dim, row.samples] = 0.0 if row.wrong_sum_of_signs else light
    return np.array([[shade[dim, size] for size in grid.samples] for dim in grid.dims])


def _sentence(rows: list[StartRow]) -> str:
    own = {arm: [row for row in rows if row.arm == arm] for arm in ARMS}
    exponents = "; ".join(f"{arm} error ~ {law}" for arm in list(ARMS)[:-1] if (law := power_law(own[arm])))
    return (
        f"Mean error of the start over all cells: {', '.join(f'{arm} {_mean(part)}' for arm, part in own.items())}. The paper "
        "states that the error falls with the samples at every dimension, and that the samples for one error are about "
        f"proportional to the dimension, d/n; here {exponents}.")


def _mean(rows: list[StartRow]) -> str:
    errors = [float(row.mean_error) for row in rows if row.mean_error != ""]
    wrong, runs = sum(row.wrong_sum_of_signs for row in rows), sum(row.runs for row in rows)
    return f"{f'{np.mean(errors):.3g}' if errors else 'none'} (sum of signs wrong in {wrong}/{runs})"


def power_law(rows: list[StartRow]) -> str:
    """Least-squares exponents of the error in d and n, and the implied growth of n with d."""
    own = [(float(row.dim), float(row.samples), float(row.mean_error)) for row in rows if row.mean_error != ""]
    logs = np.log(np.array(own).reshape(-1, 3))
    if len(set(logs[:, 0])) < 2 or len(set(logs[:, 1])) < 2:
        return ""
    (_, a, b), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, :2]]), logs[:, 2], rcond=None)
    return f"d^{a:.2f} n^{b:.2f}, so n ~ d^{-a / b:.2f}"


FIGURE_1B = Study(
    "zhong-fig1b", "Error of the start over dimension and samples: the printed tensor method, ours, random directions",
    "The error falls with the samples; for the same error they grow about proportionally to the dimension.",
    DimensionGrid((10, 20, 40), (500, 1000, 2000, 4000)), WHOLE, over(cells, run_once), summary, seeds=10)
