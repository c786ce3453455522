"""Figures 2, 3 and 4 of Ge, Kuditipudi, Li and Wang (2019), each with plain descent from random starts beside.

A and W are square, random orthonormal or of a given condition number; y = A relu(Wx), and every arm is given the width. The paper
takes five trials each and draws three curves: errors of W and of A (columns of A and rows of W scaled to length 1, paired,
squared distances added up) and of the outputs (MSE, mean squared error over outputs on 10,000 fresh inputs without noise). Its
text gives one number, an average error of about 0.15 for the printed form at 10x10, n = 10,000; axes are not in the text, so the
grids of noise and of condition numbers are ours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.landscape.first_order import adam, lbfgs
from laybare.methods import Method, Route, SymmetricInputs
from laybare.methods.printed.ge_2019 import PracticalRoute, PrintedNeurons
from laybare.methods.start import AssumptionName, required_network
from laybare.methods.symmetric_inputs import SpectralRoute
from laybare.networks import Layer, Network, compare, mean_squared_error, normalised_squared_errors
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import gaussian_inputs, mixture_inputs, orthonormal_weights
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.search.settings import random_units
from laybare.solver.point import FittedPoint, Model, Point, network_of
from laybare.source import Samples, Symmetric
from laybare.source.problem import total_variation
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, table, timed


class ArmEnd(NamedTuple):
    """Where an arm ended, and after how many gradient steps, if it takes any."""

    network: Network
    steps: float = np.nan


Arm = Callable[[Samples, int, Generator], ArmEnd]
Solver = Callable[[Samples, Point, float, Generator], FittedPoint]


def as_printed(route: Route) -> Arm:
    """A route on the samples as they are, without the solver."""

    def run(source: Samples, width: int, rng: Generator) -> ArmEnd:
        start = route(source, width, relu, rng=rng)
        steps = [claim.value for claim in start.claims if claim.name == AssumptionName.DESCENT_STEPS]
        return ArmEnd(required_network(start), steps[0] if steps else np.nan)

    return run


def moments_alone(source: Samples, width: int, rng: Generator) -> ArmEnd:
    """Our moments on whitened samples, with the quadratic control variate and no more, without the solver."""
    view = source.whitened()
    return ArmEnd(view.transform.pull_back(required_network(SpectralRoute(rounds=0)(view, width, relu, rng=rng))))


def by_method(method: Method) -> Arm:
    """The library's own pipeline, hold-out and certificate included."""
    return lambda source, width, rng: ArmEnd(recover(source, method, width, rng=rng).network)


def from_random(solve: Solver) -> Arm:
    """Descent on all parameters from unit rows in random directions and readouts N(0, 1/k)."""

    def run(source: Samples, width: int, rng: Generator) -> ArmEnd:
        model = Model(relu, biases=False, offset=False)
        units = random_units(width, source.dim, None, rng)
        start = model.start(units, source.outputs)
        start = start.moved(units, rng.standard_normal(start.coefficients.shape) / np.sqrt(width))
        found = solve(source, start, total_variation(source), rng)
        return ArmEnd(network_of(found.point, vector=False), len(found.trace.rows))

    return run


PRINTED, PRACTICAL, MOMENTS, OURS = "Algorithm 2", "practical", "moments", "SymmetricInputs"
SYMMETRIC_ARMS: Mapping[str, Arm] = {
    PRINTED: as_printed(PrintedNeurons(noise=False, halves=False)),
    "Algorithm 3": as_printed(PrintedNeurons()),
    PRACTICAL: as_printed(PracticalRoute()),
    MOMENTS: moments_alone,
    OURS: by_method(SymmetricInputs()),
    "L-BFGS": from_random(lambda source, start, scale, rng: lbfgs(source, start, scale)),
    "Adam": from_random(lambda source, start, scale, rng: adam(source, start, scale, rng=rng)),
}


class SymmetricProblem(NamedTuple):
    """A network with hidden weights (k, d) and readout (k, m), inputs for training and fresh ones, sd of the noise."""

    truth: Network
    x: Array
    fresh: Array
    noise: float


class Square(NamedTuple):
    """Square problems: orthonormal layers, or of condition `w` and `a`."""

    size: int
    samples: int
    noise: float = 0.0
    mixture: bool = False
    w: float = 1.0
    a: float = 1.0
    fresh: int = 10_000

    def draw(self, rng: Generator) -> SymmetricProblem:
        """A problem of this kind."""
        W, A = (
            orthonormal_weights(self.size, self.size, rng=rng) if condition == 1.0 else conditioned(self.size, condition, rng)
            for condition in (self.w, self.a))
        make = mixture_inputs if self.mixture else gaussian_inputs
        x, fresh = (make(n, self.size, rng=rng) for n in (self.samples, self.fresh))
        return SymmetricProblem(Network(Layer(W, None, relu), A.T), x, fresh, self.noise)

    @property
    def noise_mse(self) -> float:
        """noise² · free parameters / (samples · outputs), samples without the held-out twentieth."""
        free = self.size * (2 * self.size - 1) + self.size
        return self.noise**2 * free / ((self.samples - self.samples // 20) * self.size)


def conditioned(size: int, condition: float, rng: Generator) -> Array:
    """U S Vᵀ with random orthogonal U, V and S_ii = λ^-i, λ such that the condition number is `condition`."""
    U, V = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    sizes = float(condition) ** (-np.arange(size) / max(size - 1, 1))
    return np.asarray((U * sizes) @ V.T)


class SymmetricRun(NamedTuple):
    """Squared errors of A and W, mean squared error of the outputs, largest error of a parameter, gradient steps, seconds.

    NaN if refused, and for the steps of what takes none.
    """

    readout: float
    weights: float
    mse: float
    largest: float
    steps: float
    seconds: float


def run_arm(arm: Arm, problem: SymmetricProblem, rng: Generator) -> SymmetricRun:
    """One recovery, compared with the truth."""
    truth, x, fresh, noise = problem
    y = truth(x)
    source = Samples(x, y + noise * rng.standard_normal(y.shape), law=Symmetric())
    end, seconds = timed(lambda: arm(source, truth.width, rng))
    if end is None:
        return SymmetricRun(np.nan, np.nan, np.nan, np.inf, np.nan, seconds)
    found, steps = end
    mse = mean_squared_error(found(fresh), truth(fresh))
    if found.width != truth.width or not found.layer.weights.any(axis=1).all():
        return SymmetricRun(np.nan, np.nan, mse, np.inf, steps, seconds)
    errors = normalised_squared_errors(found, truth)
    return SymmetricRun(errors.readout, errors.weights, mse, compare(found, truth).max_error, steps, seconds)


class SymmetricCell(NamedTuple):
    """A point of a panel: its value on the axis, the problem there; and the name of the arm."""

    panel: str
    value: float
    problem: Square
    arm: str


SymmetricGrid = tuple[tuple[str, float, Square], ...]
"""Points of the panels; every arm at each of them."""


def cells(grid: SymmetricGrid, arms: Mapping[str, Arm] = SYMMETRIC_ARMS) -> list[SymmetricCell]:
    """Every arm at every point."""
    return [SymmetricCell(*point, arm) for point in grid for arm in arms]


def run_cell(cell: SymmetricCell, seed: int, arms: Mapping[str, Arm] = SYMMETRIC_ARMS) -> SymmetricRun:
    """Draw a problem, recover it, compare."""
    rng = np.random.default_rng([seed, zlib.crc32(cell.panel.encode()), round(1e6 * cell.value)])
    return run_arm(arms[cell.arm], cell.problem.draw(rng), rng)


def _root_mean(name: str) -> Callable[[SymmetricCell, Sequence[SymmetricRun]], float]:
    """√(error/dimension), of the mean error."""
    return lambda cell, runs: float(np.sqrt(col.mean_of_finite(name, np.nan)(cell, runs) / cell.problem.size))  # type: ignore[operator]


SYMMETRIC_TABLE = table(
    "panel", "value", "arm", runs=col.count, error_of_W=col.mean_of_finite("weights", np.nan),
    error_of_A=col.mean_of_finite("readout", np.nan), mse_of_outputs=col.mean_of_finite("mse", np.nan),
    root_mean_W=_root_mean("weights"), root_mean_A=_root_mean("readout"),
    all_numbers_exact=col.total(lambda run: run.largest < SUCCESS.exact_error),
    mean_steps=col.mean_of_finite("steps", ""), median_s=col.median("seconds"))
"""Means over the runs that were not refused."""


def _exact(rows: Iterable[Any]) -> str:
    own = col.group_rows(rows, "arm")
    return ", ".join(f"{arm} {sum(r.all_numbers_exact for r in some)}/{sum(r.runs for r in some)}" for arm, some in own.items())


DIMENSION = "n = 10,000"
"""The panel whose axis is the dimension."""


def draw_errors(rows: Sequence[Any], axis: str, meaning: str) -> LinesFigure:
    """The paper's panels with the paper's three curves, of its own practical variant; then the same quantities for every arm.

    Over the dimension errors are root normalised, √(error/dimension), as in Figure 2 right.
    """
    own = col.group_rows(rows, "panel", "arm")
    panels, arms = (list(col.group_rows(rows, name)) for name in ("panel", "arm"))

    def line(name: str, quantity: str, rows: Sequence[Any]) -> Curve:
        return Curve(name, col.values(rows, "value"), [max(_drawn(row, quantity), 1e-32) for row in rows])

    def panel(name: str, what: str, lines: Sequence[Curve]) -> Panel:
        if name == DIMENSION:
            return Panel(f"{name}: {what}", "dimension", "root normalised error", lines, "y")
        return Panel(f"{name}: {what}", axis, "error", lines, "xy")

    quantities = ("W", "A", "MSE")
    first = [panel(p, "practical variant", [line(q, q, own[p, PRACTICAL]) for q in quantities]) for p in panels]
    rest = [panel(p, q, [line(arm, q, own[p, arm]) for arm in arms]) for q in quantities for p in panels]
    return LinesFigure([*first, *rest], meaning, across=len(panels))


def _drawn(row: Any, quantity: str) -> float:
    """What is drawn of a curve."""
    if row.panel == DIMENSION:
        return float({"W": row.root_mean_W, "A": row.root_mean_A, "MSE": np.sqrt(row.mse_of_outputs)}[quantity])
    return float({"W": row.error_of_W, "A": row.error_of_A, "MSE": row.mse_of_outputs}[quantity])


def _samples_sentence(m: StudyMeasurement) -> str:
    (literal,) = (row.error_of_A for row in m.rows if (row.panel, row.value, row.arm) == ("10x10", 10_000, PRINTED))
    return (
        f"The printed form has a mean error of A of {literal:.2g} at 10x10 and n = 10,000; the paper says about 0.15. "
        f"Root mean error of A: {_over_dimension(m.rows, PRACTICAL)} by the practical variant, "
        f"{_over_dimension(m.rows, MOMENTS)} by our moments alone. "
        f"Every number within 1e-10: {_exact(m.rows)}.")


def _over_dimension(rows: Sequence[Any], arm: str) -> str:
    own = [row for row in rows if (row.panel, row.arm) == (DIMENSION, arm)]
    return ", ".join(f"{row.root_mean_A:.2g} at dimension {row.value:g}" for row in own)


def _noise_sentence(m: StudyMeasurement) -> str:
    expected = {cell.value: cell.problem.noise_mse for cell in m.runs}
    ratios = [row.mse_of_outputs / expected[row.value] for row in m.rows if row.arm == OURS]
    means = {arm: np.nanmean(col.values(own, "error_of_A")) for arm, own in col.group_rows(m.rows, "arm").items()}
    return (
        f"SymmetricInputs' error of the outputs is {min(ratios):.2f} to {max(ratios):.2f} of noise² · free numbers / (samples · "
        f"outputs), so it grows in step with the noise, as the paper says of its own. Mean error of A over all points: "
        f"{', '.join(f'{arm} {value:.2g}' for arm, value in means.items())}.")


def _condition_sentence(m: StudyMeasurement) -> str:
    worst = {arm: max(col.values(own, "mse_of_outputs")) for arm, own in col.group_rows(m.rows, "arm").items()}
    steps = ", ".join(f"{row.mean_steps:,.0f} at {row.panel} {row.value:g}" for row in m.rows if row.arm == PRACTICAL)
    return (
        f"The practical variant took {steps} gradient steps on average. "
        f"Every number within 1e-10: {_exact(m.rows)}. Largest mean squared error of the outputs: "
        f"{', '.join(f'{arm} {value:.1e}' for arm, value in worst.items())}.")


def _samples_grid(small: Sequence[int], large: Sequence[int], dims: Sequence[int]) -> SymmetricGrid:
    return (
        *(("10x10", float(n), Square(10, n)) for n in small), *(("32x32", float(n), Square(32, n)) for n in large),
        *((DIMENSION, float(d), Square(d, 10_000)) for d in dims))


def _noise_grid(*levels: float) -> SymmetricGrid:
    return tuple(
        (panel, noise, Square(10, 10_000, noise, panel == "mixture")) for panel in ("Gaussian", "mixture") for noise in levels)


def _condition_grid(*conditions: float) -> SymmetricGrid:
    return (
        *(("condition of W", c, Square(10, 20_000, mixture=True, w=c)) for c in conditions),
        *(("condition of A", c, Square(10, 20_000, mixture=True, a=c)) for c in conditions))


def _symmetric_study(arms: Mapping[str, Arm], **parts: Any) -> Study[SymmetricGrid]:
    """A figure, every arm at each of its points."""
    return Study(
        **parts, seeds=5, cells=lambda grid: cells(grid, arms),
        run_cell=lambda cell, seed: run_cell(cell, seed, arms), table=SYMMETRIC_TABLE,
        with_method=lambda name, method: _symmetric_study({**arms, name: by_method(method)}, **parts))


FIGURE_2 = _symmetric_study(
    SYMMETRIC_ARMS, name="ge19-fig2",
    title="Symmetric inputs: errors of both layers and of the outputs over samples and dimension, no noise",
    claim="A few times as many samples as parameters suffice; the root of the normalised error is flat in the dimension.",
    quick=_samples_grid((160, 500, 2000, 10_000), (1200, 2400), (10, 20, 32)),
    full=_samples_grid((160, 500, 1000, 2000, 5000, 10_000), (1600, 2500, 5000, 10_000), tuple(range(10, 33, 2))),
    sentence=_samples_sentence,
    figure=lambda m: draw_errors(m.rows, "samples", "Errors over samples and dimension"))
"""Figure 2: A and W random orthonormal, x ~ N(0, I), no noise; errors over the number of samples at 10x10 and 32x32, and root
normalised errors over the dimension at n = 10,000."""

FIGURE_3 = _symmetric_study(
    SYMMETRIC_ARMS, name="ge19-fig3", title="Symmetric inputs: errors over label noise, Gaussian and mixture inputs",
    claim="The error of the outputs grows in step with the noise.",
    quick=_noise_grid(0.05, 0.2, 0.5), full=_noise_grid(0.01, 0.05, 0.1, 0.2, 0.5, 1.0), sentence=_noise_sentence,
    figure=lambda m: draw_errors(m.rows, "noise", "Errors over label noise"))
"""Figure 3: 10x10, n = 10,000, label noise, Gaussian inputs and the mixture N(±1, I)."""

FIGURE_4 = _symmetric_study(
    SYMMETRIC_ARMS, name="ge19-fig4", title="Symmetric inputs: errors over the condition numbers of W and A, mixture inputs",
    claim="Steady for well-conditioned layers, then it fluctuates; the error of the outputs stays low.",
    quick=_condition_grid(1.0, 3.0, 10.0, 100.0), full=_condition_grid(1.0, 3.0, 10.0, 100.0, 1e3, 1e4),
    sentence=_condition_sentence,
    figure=lambda m: draw_errors(m.rows, "condition number", "Errors over condition numbers"))
"""Figure 4: 10x10, n = 20,000, mixture, condition number of W or of A."""
