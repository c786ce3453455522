"""Figure 1(b) of Zhong et al. (2017): how far is the tensor start from the truth, over dimension and number of samples?

Teachers as in `zhong`. The error is min over permutations of max_j |w*_j - w_j|/|w*_j|, averaged over the runs; a cell is black
if Σ vᵢ of the start differs from the true one in any run. Arms: the printed start, our moments, our moments followed by
the solver inside their span (what TensorInit hands over), and random directions with the right lengths on average as control.
Beside the signs that each start has stand those that the inertia of its second moment alone gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from laybare.report.plots import rates_figure
from laybare.shapes import Array, Event
from laybare.source import Samples
from laybare.studies.study import Cell, Outcome, Settings, Study
from laybare.studies.zhong import ALL_DIMS, ALL_SAMPLES, RELU2, WIDTH, planted

DIMS, SAMPLES = (10, 20, 40), (500, 1000, 2000, 4000)
LENGTH = 1.5
"""Mean length of a true row: the singular values are evenly spaced from 1 to 2."""

DARKEST = 1.6
"""Error shown as the darkest grey, 0 being white; black is kept for wrong signs."""


class Run(NamedTuple):
    """Error of a start, whether Σ vᵢ is right, and whether the inertia of the second moment has it right (None: not asked)."""

    error: float
    signs: bool
    inertia: bool | None


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


class Arm(NamedTuple):
    """A start, and the count of positive readouts from the second moment that goes with it."""

    start: Callable[[Samples, Generator], Network]
    positive: Callable[[Samples], int] | None


ARMS = {
    "printed": Arm(moments(TensorInit.literal(RELU2)), raw_inertia),
    "our moments": Arm(moments(TensorInit(activation=RELU2, route=RefinedMoments(inside=None))), refined_inertia),
    "ours, solver in the span": Arm(moments(TensorInit(activation=RELU2)), refined_inertia),
    "random": Arm(at_random, None)}


def run_once(arm: str, dim: int, samples: int, seed: int) -> Run:
    """Plant a network, start, compare."""
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    positive = int(np.sum(truth.readout > 0))
    counted = ARMS[arm].positive
    seen = None if counted is None else counted(source) == positive
    try:
        start = ARMS[arm].start(source, rng)
    except LaybareError:  # too few samples for the power method
        return Run(np.nan, False, seen)
    return Run(
        max_relative_error(start.layer.weights, truth.layer.weights), int(np.sum(start.readout > 0)) == positive, seen)


def _study(settings: Settings) -> Outcome:
    dims, sizes = (ALL_DIMS, ALL_SAMPLES) if settings.full else (DIMS, SAMPLES)
    cells = [(arm, dim, size) for dim in dims for size in sizes for arm in ARMS]
    rows: list[tuple[Cell, ...]] = []
    for done, (arm, dim, size) in enumerate(cells):
        runs = [run_once(arm, dim, size, seed) for seed in settings.seeds]
        errors = [run.error for run in runs if np.isfinite(run.error)]
        asked = [run.inertia for run in runs if run.inertia is not None]
        rows.append((
            dim, size, arm, round(float(np.mean(errors)), 4) if errors else "", sum(not run.signs for run in runs),
            sum(not right for right in asked) if asked else "", len(runs)))
        if settings.progress is not None:
            settings.progress(Event("cells", done + 1, len(cells), f"d={dim}, n={size}, {arm}"))
    maps = {arm: _shades([row for row in rows if row[2] == arm], dims, sizes) for arm in ARMS}
    columns = ("dim", "samples", "arm", "mean error", "wrong sum of signs", "wrong by inertia", "runs")
    meaning = "Error of the start, white for 0 and black for wrong signs,"
    return Outcome(columns, rows, _sentence(rows), rates_figure(maps, dims, sizes, meaning=meaning))


def _shades(rows: list[tuple[Cell, ...]], dims: Sequence[int], sizes: Sequence[int]) -> Array:
    """1 for no error, 0.15 for the largest, 0 if the sum of signs was wrong in any run."""
    shade = {}
    for dim, size, _, error, wrong, *_ in rows:
        light = 0.0 if error == "" else 1.0 - 0.85 * min(float(error) / DARKEST, 1.0)
        shade[dim, size] = 0.0 if wrong else light
    return np.array([[shade[dim, size] for size in sizes] for dim in dims])


def _sentence(rows: list[tuple[Cell, ...]]) -> str:
    parts = []
    for arm in ARMS:
        own = [row for row in rows if row[2] == arm]
        errors = [float(row[3]) for row in own if row[3] != ""]
        wrong, runs = sum(int(row[4]) for row in own), sum(int(row[6]) for row in own)
        parts.append(f"{arm} {f'{np.mean(errors):.3g}' if errors else 'none'} (sum of signs wrong in {wrong}/{runs})")
    exponents = "; ".join(f"{arm} error ~ {law}" for arm in list(ARMS)[:-1] if (law := _power_law(rows, arm)))
    return (
        f"Mean error of the start over all cells: {', '.join(parts)}. The paper states that the error falls with the samples at "
        f"every dimension, and that the samples for one error are about proportional to the dimension, d/n; here {exponents}.")


def _power_law(rows: list[tuple[Cell, ...]], arm: str) -> str:
    """Least-squares exponents of the error in d and n, and the implied growth of n with d."""
    own = [(float(r[0]), float(r[1]), float(r[3])) for r in rows if r[2] == arm and r[3] != ""]
    logs = np.log(np.array(own).reshape(-1, 3))
    if len(set(logs[:, 0])) < 2 or len(set(logs[:, 1])) < 2:
        return ""
    (_, a, b), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, :2]]), logs[:, 2], rcond=None)
    return f"d^{a:.2f} n^{b:.2f}, so n ~ d^{-a / b:.2f}"


FIGURE_1B = Study(
    "zhong-fig1b", "Error of the start over dimension and samples: the printed tensor method, ours, random directions",
    "The error falls with the samples; for the same error they grow about proportionally to the dimension.", _study)
