"""Experiments of Zhong et al. (2017), section 7: squared-ReLU networks by the tensor method, as printed and ours.

Teachers as there: W = U S Vᵀ with singular values evenly spaced from 1 to 2, five units, readout ±1 at random, no noise, and
x ~ N(0, I). Gradient descent has a step of 0.02 and all samples in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import power_relu
from laybare.assembly.unit_scalars import with_unit_readout
from laybare.decomposition import dense_subspace
from laybare.errors import LaybareError
from laybare.landscape.first_order import Descent, gradient_descent
from laybare.methods import Method, RandomStart, Route, TensorInit
from laybare.methods.printed.zhong_2017 import PrintedDescent, PrintedMoments
from laybare.methods.start import required_network
from laybare.methods.tensor_init import RefinedMoments
from laybare.moments import refine_subspace, second_moment
from laybare.networks import Layer, Network, max_relative_error, recovered
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import random_network, random_unit_rows
from laybare.report.drawings import Curve, LinesFigure, Panel, RatesFigure
from laybare.solver.point import network_of, point_of
from laybare.source import Samples
from laybare.source.problem import total_variation
from laybare.studies import columns as col
from laybare.studies.columns import Value
from laybare.studies.study import Study, StudyMeasurement, cross, gaussian_samples, table, timed

RELU2 = power_relu(2)
DESCENT = Descent(step=0.02, max_steps=6000, tol=1e-7, flat=0.01)
"""Descent ends early at a relative loss of 1e-7, where the weights are right to about 1e-3, and in another minimum, where the
loss falls by less than a hundredth in 500 steps."""


class DimensionGrid(NamedTuple):
    """Dimensions and sample sizes, the axes of the paper's figures 1(a) and 1(b)."""

    dims: tuple[int, ...]
    samples: tuple[int, ...]


class DimensionCell(NamedTuple):
    """Dimension, samples, name of the arm."""

    dim: int
    samples: int
    arm: str


class RecoveryRun(NamedTuple):
    """Whether the network was recovered, the largest relative error of the start (NaN if there was none), seconds."""

    success: bool
    start_error: float
    seconds: float


WIDTH, PAPER_GRID = 5, DimensionGrid(tuple(range(10, 101, 10)), tuple(range(1000, 10_001, 1000)))
"""Paper: Zhong et al. (2017), section 7, Figure 1."""

PAPER_RANGE = DimensionGrid((10, 20, 40, 70, 100), (500, 1000, 2000, 5000, 10_000))
"""The range of the paper's grid in fewer points, and 500 samples for the other methods: their threshold is below the paper's."""


def planted(dim: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """A teacher of the paper's experiments, and samples from it."""
    truth = random_network(dim, WIDTH, RELU2, biases=0.0, condition=2.0, rng=rng)
    return truth, gaussian_samples(truth, dim, samples, rng)


def printed(source: Samples, rng: Generator) -> Any:
    """Algorithms 1 and 2 with all samples in every step, as the experiments have it: neither Partition is done."""
    ways = PrintedDescent(route=PrintedMoments(partition=False), descent=DESCENT, printed_step=False)
    return ways.run(source, WIDTH, RELU2, rng=rng)


def by_method(method: Method) -> Callable[[Samples, Generator], Any]:
    """The library's own pipeline; the start is what the method gave before the solver."""
    return lambda source, rng: recover(source, method, WIDTH, rng=rng)


RecoveryArms: TypeAlias = Mapping[str, Callable[[Samples, Generator], Any]]

RECOVERY_ARMS: RecoveryArms = {
    "printed": printed, "TensorInit": by_method(TensorInit(activation=RELU2)),
    "RandomStart": by_method(RandomStart(activation=RELU2, biases=False))}
"""What is returned has the network, and the start: where it was before the solver."""


def recover_once(cell: DimensionCell, seed: int, arms: RecoveryArms = RECOVERY_ARMS) -> RecoveryRun:
    """Plant a network, recover it, compare; too few samples, or a step too large, is not recovered."""
    dim, samples, arm = cell
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    found, seconds = timed(lambda: arms[arm](source, rng))
    if found is None:
        return RecoveryRun(False, np.nan, seconds)
    error = start_error(found.start, truth) if arm in ("printed", "TensorInit") else np.nan
    return RecoveryRun(found.network.width == WIDTH and recovered(found.network, truth), error, seconds)


def start_error(start: Network, truth: Network) -> float:
    """Largest relative error of a row of the start, readouts taken up by the rows."""
    return max_relative_error(with_unit_readout(start).layer.weights, truth.layer.weights)


def _recovery_sentence(m: StudyMeasurement) -> str:
    own = col.group_rows(m.rows, "arm")
    parts = (f"{arm} {sum(col.values(part, 'recovered'))}/{sum(col.values(part, 'runs'))}" for arm, part in own.items())
    enough = "; ".join(f"{arm} {least_samples(part)}" for arm, part in own.items())
    half = "; ".join(f"{arm} {half_samples(part)}" for arm, part in own.items())
    return (
        f"Recovered over all cells: {', '.join(parts)}. The paper states that the least number of samples with 100 % recovery is "
        f"about proportional to the dimension; here, dimension: least number from which on every run recovered: {enough}. "
        f"Where half of the runs recover: {half}.")


def half_samples(rows: Sequence[Any]) -> str:
    """Samples at which half of the runs of a dimension recover, where the grid has that; and how they grow with d."""
    found = {dim: _half_of(own) for dim, own in sorted(col.group_rows(rows, "dim").items())}
    known = {dim: size for dim, size in found.items() if np.isfinite(size)}
    said = ", ".join(f"{dim}: {size:,.0f}" for dim, size in known.items()) or "below the grid"
    if len(known) < 3:
        return said
    slope = np.polyfit(np.log(list(known)), np.log(list(known.values())), 1)[0]
    return f"{said}, so n ~ d^{slope:.2f}"


def _half_of(rows: Sequence[Any]) -> float:
    """Where the largest share of recoveries so far passes one half, linear in log n; NaN if the grid does not have it."""
    logs = np.log(col.values(rows, "samples"))
    shares = np.maximum.accumulate([row.recovered / row.runs for row in rows])
    if shares[0] >= 0.5 or shares[-1] < 0.5:
        return float("nan")
    after = int(np.argmax(shares >= 0.5))
    return float(np.exp(np.interp(0.5, shares[after - 1 : after + 1], logs[after - 1 : after + 1])))


def least_samples(rows: Sequence[Any]) -> str:
    """For every dimension the least number of samples from which on all runs recovered."""
    found = []
    for dim, own in sorted(col.group_rows(rows, "dim").items()):
        failed = max((row.samples for row in own if row.recovered < row.runs), default=0)
        found.append(f"{dim}: {next((f'{size:,}' for size in sorted(col.values(own, 'samples')) if size > failed), 'none')}")
    return ", ".join(found)


def _recovery_study(arms: RecoveryArms) -> Study[DimensionGrid]:
    """Figure 1(a) with these arms."""
    return Study(
        "zhong-fig1a",
        "Recovery of squared-ReLU networks over dimension and samples: the printed tensor method, ours, random starts",
        "The printed method's threshold in samples grows about proportionally to the dimension.",
        quick=PAPER_RANGE, full=PAPER_GRID, seeds=10,
        cells=lambda grid: cross(DimensionCell, grid.dims, grid.samples, arms),
        run_cell=lambda cell, seed: recover_once(cell, seed, arms),
        table=table(
            "dim", "samples", "arm", recovered=col.total("success"), runs=col.count,
            mean_start_error=col.mean_of_finite("start_error", ""), median_s=col.median("seconds")),
        sentence=_recovery_sentence,
        figure=lambda m: RatesFigure(
            col.rate_maps(m.rows, "arm", lambda row: row.recovered / row.runs, (len(m.grid.dims), len(m.grid.samples))),
            m.grid.dims, m.grid.samples),
        with_method=lambda name, method: _recovery_study({**arms, name: by_method(method)}))


FIGURE_1A = _recovery_study(RECOVERY_ARMS)
"""Figure 1(a): how often is a network recovered? A run succeeds if no unit is off by more than 0.01, relatively, and all signs
are right. Beside the printed route (plain moments, KCL, then gradient descent in the hidden weights alone) stand TensorInit and,
as control, RandomStart; these two set samples aside for their certificate. The paper gives neither the number of gradient steps
nor the numbers behind its grey scale."""


class StartRun(NamedTuple):
    """Error of a start, whether Σ vᵢ is right, and whether the inertia of the second moment has it right (None: not asked)."""

    error: float
    signs: bool
    inertia: bool | None


def start_of(method: TensorInit) -> Callable[[Samples, Generator], Network]:
    """The start of a method alone."""
    return lambda source, rng: with_unit_readout(required_network(method.start(source, WIDTH, rng=rng)))


def random_directions(source: Samples, rng: Generator) -> Network:
    """Directions and signs drawn at random; 1.5 is the mean length of a true row, whose singular values run from 1 to 2."""
    rows = 1.5 * random_unit_rows(source.dim, WIDTH, rng=rng)
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


START_ARMS = {
    "printed": StartArm(start_of(TensorInit.literal(RELU2, partition=False)), raw_inertia),
    "our moments": StartArm(start_of(TensorInit(activation=RELU2, route=RefinedMoments(inside=None))), refined_inertia),
    "ours, solver in the span": StartArm(start_of(TensorInit(activation=RELU2)), refined_inertia),
    "random": StartArm(random_directions, None)}


def start_once(cell: DimensionCell, seed: int) -> StartRun:
    """Plant a network, start, compare."""
    dim, samples, arm = cell
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    positive = int(np.sum(truth.readout > 0))
    counted = START_ARMS[arm].positive
    seen = None if counted is None else counted(source) == positive
    try:
        start = START_ARMS[arm].start(source, rng)
    except LaybareError:  # too few samples for the power method
        return StartRun(np.nan, False, seen)
    return StartRun(
        max_relative_error(start.layer.weights, truth.layer.weights), int(np.sum(start.readout > 0)) == positive, seen)


def _wrong_by_inertia(cell: DimensionCell, runs: Sequence[StartRun]) -> Value:
    asked = [run.inertia for run in runs if run.inertia is not None]
    return sum(not right for right in asked) if asked else ""


def shade_of(row: Any) -> float:
    """1 for no error, 0.15 for one of 1.6 or more, 0 if the sum of signs was wrong in any run."""
    light = 0.0 if row.mean_error == "" else 1.0 - 0.85 * min(float(row.mean_error) / 1.6, 1.0)
    return 0.0 if row.wrong_sum_of_signs else light


def _start_sentence(m: StudyMeasurement) -> str:
    own = col.group_rows(m.rows, "arm")
    exponents = "; ".join(f"{arm} error ~ {law}" for arm in own if arm != "random" and (law := power_law(own[arm])))
    return (
        f"Mean error of the start over all cells: {', '.join(f'{arm} {_mean_error(part)}' for arm, part in own.items())}. "
        "The paper states that the error falls with the samples at every dimension, and that the samples for one error are about "
        f"proportional to the dimension, d/n; here {exponents}.")


def _mean_error(rows: Sequence[Any]) -> str:
    errors = [float(row.mean_error) for row in rows if row.mean_error != ""]
    wrong, runs = sum(col.values(rows, "wrong_sum_of_signs")), sum(col.values(rows, "runs"))
    return f"{f'{np.mean(errors):.3g}' if errors else 'none'} (sum of signs wrong in {wrong}/{runs})"


def power_law(rows: Sequence[Any]) -> str:
    """Least-squares exponents of the error in d and n, and the implied growth of n with d."""
    own = [(float(row.dim), float(row.samples), float(row.mean_error)) for row in rows if row.mean_error != ""]
    logs = np.log(np.array(own).reshape(-1, 3))
    if len(set(logs[:, 0])) < 2 or len(set(logs[:, 1])) < 2:
        return ""
    (_, a, b), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, :2]]), logs[:, 2], rcond=None)
    return f"d^{a:.2f} n^{b:.2f}, so n ~ d^{-a / b:.2f}"


FIGURE_1B = Study(
    "zhong-fig1b",
    "Error of the start over dimension and samples: the printed tensor method, ours, random directions",
    "The error falls with the samples; for the same error they grow about proportionally to the dimension.",
    quick=PAPER_RANGE, full=PAPER_GRID, seeds=10,
    cells=lambda grid: cross(DimensionCell, grid.dims, grid.samples, START_ARMS), run_cell=start_once,
    table=table(
        "dim", "samples", "arm", mean_error=col.mean_of_finite("error", ""),
        wrong_sum_of_signs=col.total(lambda run: not run.signs), wrong_by_inertia=_wrong_by_inertia, runs=col.count),
    sentence=_start_sentence,
    figure=lambda m: RatesFigure(
        col.rate_maps(m.rows, "arm", shade_of, (len(m.grid.dims), len(m.grid.samples))), m.grid.dims, m.grid.samples,
        meaning="Error of the start, white for 0 and black for wrong signs,", scale="1: exact, 0.15: error 1.6, 0: signs"))
"""Figure 1(b): how far is the tensor start from the truth? The error is min over permutations of max_j |w*_j - w_j|/|w*_j|,
averaged over the runs; a cell is black if Σ vᵢ of the start differs from the true one in any run. Arms: the printed start, our
moments, our moments followed by the solver inside their span (what TensorInit hands over), and random directions with the right
lengths on average as control. Beside the signs that each start has stand those that the inertia of its second moment alone
gives."""


class DescentCell(NamedTuple):
    """Name of the arm, steps of gradient descent, samples, dimension."""

    arm: str
    steps: int
    samples: int = 10_000
    dim: int = 10


class CurveRun(NamedTuple):
    """Relative loss after every step, whether the network was recovered, seconds; no losses if the step was too large."""

    losses: Array
    success: bool
    seconds: float


Arm = Callable[[Samples, Network, int, Generator], tuple[Network, Array]]
"""(source, truth, steps of descent) -> a network, and the relative losses on the way to it."""


def from_moments(route: Route) -> Arm:
    """(I): the start of `route`, then descent in W."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> tuple[Network, Array]:
        descent = replace(DESCENT, tol=1e-28, flat=0.0, max_steps=steps)
        ran = PrintedDescent(route=route, descent=descent, printed_step=False).run(source, WIDTH, RELU2, rng=rng)
        return ran.network, np.array([row.loss for row in ran.trace.rows])

    return run


def from_gaussian(*, narrow: bool, readout: bool) -> Arm:
    """(II) with `readout`, (III) without: entries N(0, 1), or N(0, 1/d); readout Gaussian and moved, or the true one and kept."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> tuple[Network, Array]:
        scale = 1.0 / np.sqrt(source.dim) if narrow else 1.0
        rows = scale * rng.standard_normal((WIDTH, source.dim))
        v = rng.standard_normal(WIDTH) if readout else truth.readout
        point = point_of(Network(Layer(rows, None, RELU2), v), biases=False, offset=False, linear=False)
        descent = replace(DESCENT, tol=1e-28, flat=0.0, max_steps=steps, readout=readout)
        ran = gradient_descent(source, point, total_variation(source), descent)
        return network_of(ran.point, vector=True), np.array([row.loss for row in ran.trace.rows])

    return run


def by_solver(method: Method) -> Arm:
    """The library's own way, its solver in place of descent."""

    def run(source: Samples, truth: Network, steps: int, rng: Generator) -> tuple[Network, Array]:
        found = recover(source, method, WIDTH, rng=rng)
        return found.network, np.minimum.accumulate([row.loss for row in found.traces[0].rows])

    return run


DESCENT_ARMS: dict[str, Arm] = {
    "I printed start": from_moments(PrintedMoments(partition=False)),
    "I our start": from_moments(RefinedMoments()),
    "II Gaussian, N(0, 1)": from_gaussian(narrow=False, readout=True),
    "II Gaussian, N(0, 1/d)": from_gaussian(narrow=True, readout=True),
    "III v true, N(0, 1)": from_gaussian(narrow=False, readout=False),
    "III v true, N(0, 1/d)": from_gaussian(narrow=True, readout=False),
    "TensorInit, solver": by_solver(TensorInit(activation=RELU2)),
    "RandomStart, solver": by_solver(RandomStart(activation=RELU2, biases=False))}


def descend_once(cell: DescentCell, seed: int) -> CurveRun:
    """Plant a network, run the arm, follow its loss; there is none after a step too large, or without a start."""
    rng = np.random.default_rng([seed, cell.dim, cell.samples])
    truth, source = planted(cell.dim, cell.samples, rng)
    found, seconds = timed(lambda: DESCENT_ARMS[cell.arm](source, truth, cell.steps, rng))
    if found is None:
        return CurveRun(np.empty(0), False, seconds)
    network, losses = found
    return CurveRun(losses, network.width == WIDTH and recovered(network, truth), seconds)


class LossAt(NamedTuple):
    """The cell of a row: an arm and the step after which the row has its loss."""

    arm: str
    steps: int


def losses_at_steps(grid: int, runs: Mapping[DescentCell, list[CurveRun]]) -> dict[LossAt, list[CurveRun]]:
    """The runs of an arm once for every step that the table shows; once if all diverged."""
    shown = (0, 5, 20, 100, 300, 1000, 3000, 6000)
    return {
        LossAt(cell.arm, step): each for cell, each in runs.items()
        for step in (shown if any(len(run.losses) for run in each) else shown[:1]) if step <= cell.steps}


def loss_after(run: CurveRun, step: int) -> float:
    """Loss after `step` steps; a run that ended before stays where it was."""
    return float(run.losses[min(step, len(run.losses) - 1)])


def _loss(reduce: Callable[[list[float]], Any]) -> Callable[[LossAt, Sequence[CurveRun]], Value]:
    def column(cell: LossAt, runs: Sequence[CurveRun]) -> Value:
        losses = [loss_after(run, cell.steps) for run in runs if len(run.losses)]
        return float(reduce(losses)) if losses else ""

    return column


def steps_needed(runs: Sequence[CurveRun], small: float = 1e-6) -> float:
    """Median number of steps to a relative loss of `small`; infinite if half of the runs never got there."""
    needed = [int(np.argmax(run.losses < small)) if (run.losses < small).any() else np.inf for run in runs]
    return float(np.sort(needed)[len(needed) // 2])


def rate(runs: Sequence[CurveRun]) -> float:
    """Median factor of the error (the root of the loss) per step, between a loss of 1e-6 and the end or 1e-20."""
    rates = []
    for run in runs:
        tail = run.losses[(run.losses < 1e-6) & (run.losses > 1e-20)]
        if len(tail) > 20:
            rates.append(np.exp(np.polyfit(np.arange(len(tail)), np.log(tail), 1)[0] / 2))
    return float(np.median(rates)) if rates else np.nan


def _text(value: float) -> Value:
    return round(value, 5) if np.isfinite(value) else "none"


def _descent_sentence(m: StudyMeasurement) -> str:
    parts = ", ".join(
        f"{cell.arm} {sum(run.success for run in runs)}/{len(runs)} ({_text(steps_needed(runs))})"
        for cell, runs in m.runs.items())
    return (
        f"Recovered, and in brackets median steps to a relative loss of 1e-06: {parts}. The paper states that (I) is "
        "fastest, that (II) does not converge, and that (I) and (III) converge linearly: the column of rates is that linear "
        "factor. Whether (II) converges depends on the scale of its start, which the paper does not give.")


def _descent_figure(m: StudyMeasurement) -> LinesFigure:
    """The paper's axes, loss over steps, once for descent and once for the solvers."""
    at = np.unique(np.concatenate([np.arange(0, 20), np.linspace(20, m.grid, 60).astype(int)]))

    def line(cell: DescentCell, points: Array) -> Curve:
        ran = [run for run in m.runs[cell] if len(run.losses)]
        losses = np.array([[max(loss_after(run, int(step)), 1e-32) for step in points] for run in ran]).reshape(-1, len(points))
        middle = np.median(losses, axis=0) if len(losses) else np.full(len(points), np.nan)
        return Curve(cell.arm, points.tolist(), middle.tolist())

    solvers = [cell for cell in m.runs if cell.arm.endswith("solver")]
    panels = (
        Panel("gradient descent", "steps", "relative loss, median", [line(cell, at) for cell in m.runs if cell not in solvers]),
        Panel("Levenberg-Marquardt", "steps", "relative loss, median", [line(cell, np.arange(40)) for cell in solvers]))
    return LinesFigure(panels, "Loss of a squared-ReLU network over the steps of gradient descent and of the solver")


FIGURE_1C = Study(
    "zhong-fig1c",
    "Convergence of gradient descent from the tensor start, from Gaussian starts, and of the solver",
    "Descent from the tensor start (I) is fastest, from Gaussian W and v (II) it does not converge; (I) and (III) are linear.",
    quick=1000, full=6000, seeds=10,
    cells=lambda steps: cross(DescentCell, DESCENT_ARMS, [steps]), run_cell=descend_once, group=losses_at_steps,
    table=table(
        "arm", recovered=col.total("success"), diverged=col.total(lambda run: not len(run.losses)), runs=col.count,
        median_steps_to_1e_6=lambda cell, runs: _text(steps_needed(runs)), median_rate=lambda cell, runs: _text(rate(runs)),
        steps=lambda cell, runs: cell.steps, median_loss=_loss(np.median), smallest=_loss(min), largest=_loss(max),
        median_s=col.median("seconds")),
    sentence=_descent_sentence, figure=_descent_figure)
"""Figure 1(c): how fast does gradient descent converge from which start? d = 10, n = 10,000. The paper's arms are (I) W and v
from the tensor method, v kept; (II) W and v Gaussian, both moved; (III) v = v*, W Gaussian, v kept. It does not state the scale
of the Gaussian entries, on which (II) depends, so both N(0, 1) and N(0, 1/d) are run. Beside them: descent from our start, and
the solver of TensorInit and of RandomStart, whose steps cost more each (the last column). A fixed step can be too large far from
the truth: such runs diverge. The grid is the number of gradient steps."""
