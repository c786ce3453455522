"""A fitted network, the sums that every check starts from, and the subsets of rows that the checks read.

Subsets are random and nested where they can be; each is all of the used rows where that is not much more.

    screening rows      4 per unknown, at least 4,000                 rival activations, first look
    search rows         the same, at least n / 24, at most 2^18       many refits, candidate units
    curvature rows      8 per parameter, at least 8,192               information matrix, standard errors
    residual rows       30,000, and twice as many others to confirm   structure of the residual
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from laybare.networks import Network
from laybare.numerics.levels import NOISELESS_LOSS
from laybare.numerics.linear_algebra import Precision, inner
from laybare.numerics.shapes import Array, Progress, Sums
from laybare.solver import Effort
from laybare.solver.minimise import is_expensive, minimise
from laybare.solver.normal import (
    Fit,
    FitStatistic,
    Step,
    StepStatistic,
    outputs_of,
    pre_activations,
    step_of,
    with_ones,
    working_precision,
)
from laybare.solver.point import FittedPoint, Point, columns_of, keep_units, parameter_count, point_of
from laybare.solver.subsampled import ReducedNormal, fits_single_precision, reduced_normal
from laybare.source import Source
from laybare.source.problem import Problem, prefix_and_next, prefix_and_rest, prefix_or_all
from laybare.source.protocol import SplitSources
from laybare.source.sums import balance_two_blocks
from laybare.source.views import run_parallel


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How many of the used rows each kind of test reads, and from where on sums are formed in another way."""

    search_rows_per_unknown: int = 4  # For tests that fit many networks. Checked by `laybare reproduce hostile`.
    min_search_rows: int = 4000  # Checked by `laybare reproduce hostile`.
    search_row_divisor: int = 24  # At least n / 24 rows, ... Checked by `make bench`.
    max_search_rows: int = 1 << 18  # ... up to this many. Convention: memory.
    curvature_rows_per_parameter: int = 8  # For the curvature. Checked by `laybare reproduce coverage --full`.
    min_curvature_rows: int = 8192  # Derived: standard errors are then known to √(1/(2 n₁)), less than one per cent.
    curvature_operations: int = 5_000_000_000
    """With noise, as many rows as take this many operations (rows · parameters²). Checked by `make bench`."""
    residual_rows: int = 30_000
    """For tests of the residual: a hundred features then show what explains a three-hundredth of it. Checked by
    `pytest tests/certificate/test_explanations.py`."""
    parallel_cost: float = 3e8  # n·P² from which independent tests get a thread each. Checked by `make bench`.
    single_precision_residual: float = 1e-8
    """Mean square residual over the variance of y from which single precision knows residuals to a hundredth.
    Derived: 1e-4, a hundred times the 1e-6 that such sums err by, squared."""
    max_label_rounding: float = 16.0
    """Mean square residual over that of the labels' rounding up to which a fit is exact. Derived: 4 roundings, squared."""
    fine_label_rounding: float = 1e-10
    """Mean square rounding of the labels over the variance of y up to which it is no noise, as in float32 or six decimals.
    Derived: 1e-5 of the spread, squared."""


ROWS = RowOptions()


class RowSums(NamedTuple):
    """Sums of squares and of fourth powers of the residual, in units of y; of every kink of every unit, the rows beyond it, and
    beyond it and another one."""

    second: Array
    fourth: Array
    beyond: Array
    beyond_both: Array


@dataclass(frozen=True, eq=False)
class _RowStatistic:
    """(z, y) -> RowSums at a point, y in units of `scale`."""

    point: Point
    scale: float

    @property
    def row_floats(self) -> int:
        return 3 * len(self.point.coefficients) + self.point.width * len(self.point.activation.kinks)

    def __call__(self, x: Array, y: Array) -> Sums:
        point, X1 = self.point, with_ones(self.point, x, np.float64)
        u, kinks = pre_activations(point, X1), np.array(point.activation.kinks)
        beyond = (u[:, :, None] > kinks).reshape(len(x), point.width * len(kinks)).astype(np.float32)
        with np.errstate(over="ignore"):
            squares = ((y - outputs_of(point, X1, point.activation.in_precision(u))) / self.scale) ** 2
            both = inner(beyond, beyond).astype(np.float64)  # whole numbers, which single precision holds
            return RowSums(np.asarray(squares.sum()), np.asarray((squares**2).sum()), both.diagonal(), both)


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A network on the given inputs and on white ones, the point of the solver there, and its sums over the used rows."""

    network: Network
    white: Network
    point: Point
    problem: Problem
    fit: Fit
    progress: Progress | None = None

    def refit(self, start: Point, effort: Effort, rows: Source | None = None, nearby: ReducedNormal | None = None) -> FittedPoint:
        """Fit another network to the used rows, or to `rows`; an interrupt ends the certificate.

        `nearby` is the curvature of those rows at a point close to `start`, if known.
        """
        source = self.used if rows is None else rows
        scale = self.variation * source.size / self.used.size
        return minimise(source, start, scale, nearby=nearby, effort=effort, progress=self.progress)

    def run_parallel(self, *parts: Callable[[], Any]) -> list[Any]:
        """Results of independent functions, in parallel where that pays."""
        if self.equations * self.unknowns**2 < ROWS.parallel_cost:
            return [part() for part in parts]
        return run_parallel(self.used, *parts)

    @cached_property
    def curvature_rows(self) -> Source:
        """Rows for the curvature; with noise at least twice the search rows."""
        parameters = int(self.point.units.size + self.point.coefficients.size)
        rows = max(ROWS.min_curvature_rows, ROWS.curvature_rows_per_parameter * parameters)
        if not self.exact:
            rows = max(rows, 2 * self._search_row_count, ROWS.curvature_operations // max(1, parameters**2))
        return prefix_or_all(self.used, balance_two_blocks(rows))

    @cached_property
    def search_rows_and_rest(self) -> tuple[Source, Source | None]:
        """The search rows, and the rest of the curvature rows if they are a part of these."""
        if self.curvature_rows is not self.used and 2 * self._search_row_count <= self.curvature_rows.size:
            return prefix_and_rest(self.curvature_rows, self._search_row_count)
        return prefix_or_all(self.used, self._search_row_count), None

    @property
    def _search_row_count(self) -> int:
        share = min(ROWS.max_search_rows, self.used.size // ROWS.search_row_divisor)
        return balance_two_blocks(max(self._screening_row_count, share))

    @property
    def _screening_row_count(self) -> int:
        return max(ROWS.min_search_rows, ROWS.search_rows_per_unknown * self.unknowns // self.used.outputs)

    @property
    def search_rows(self) -> Source:
        """Rows on which many networks are fitted."""
        return self.search_rows_and_rest[0]

    @cached_property
    def screening_rows(self) -> Source:
        """The fewest rows on which networks are compared, however many there are: a part of the search rows."""
        if self.search_rows is self.used:
            return self.used
        return prefix_or_all(self.search_rows, balance_two_blocks(self._screening_row_count))

    @cached_property
    def _residual_parts(self) -> SplitSources:
        return prefix_and_next(self.used, ROWS.residual_rows, 2 * ROWS.residual_rows)

    @property
    def residual_rows(self) -> Source:
        """Rows on which the residual is tested."""
        return self.used if self.used.size < 2 * ROWS.residual_rows else self._residual_parts.first

    @property
    def confirmation_rows(self) -> Source:
        """Twice as many others, or all others, where the residual rows are not all."""
        return self._residual_parts.second

    @cached_property
    def fit_on_search_rows(self) -> FittedPoint:
        """The network fitted to the search rows, as those are that it is compared with there."""
        return self._fit_on(self.search_rows)

    def fit_on(self, rows: Source) -> FittedPoint:
        """The same on a part of the used rows."""
        return self.fit_on_search_rows if rows is self.search_rows else self._fit_on(rows)

    def _fit_on(self, rows: Source) -> FittedPoint:
        """One step from here."""
        nearby = self.curvature_on_search_rows(np.arange(self.point.width), self.search_rows.size / rows.size)
        return self.refit(self.point, Effort(max_steps=1), rows, nearby)

    @cached_property
    def gram_on_search_rows(self) -> Array:
        """Gram matrix of a step on the search rows; readouts do not enter it."""
        return Step(*self.search_rows.sum(StepStatistic(self.point, working_precision(self.point)), stage="certificate")).gram

    @cached_property
    def row_sums(self) -> RowSums:
        """What single checks ask of all used rows, in one pass."""
        return RowSums(*self.used.sum(_RowStatistic(self.point, float(np.sqrt(self.output_variance))), stage="certificate"))

    @cached_property
    def loss_on_screening_rows(self) -> float:
        """Squared error of the network on the screening rows, fitted to these."""
        return self._loss_on(self.screening_rows)

    @cached_property
    def loss_on_residual_rows(self) -> float:
        """The same on the residual rows."""
        return self._loss_on(self.residual_rows)

    def _loss_on(self, rows: Source) -> float:
        return float(self.fit.loss) if rows is self.used else self.fit_on(rows).loss

    def curvature_on_search_rows(self, kept: Array, share: float = 1.0) -> ReducedNormal | None:
        """Curvature at the network with the `kept` units alone, on rows of which the search rows are a `share`; None where a step
        is cheap."""
        if self.exact or working_precision(self.point) is not np.float32 or not is_expensive(self.search_rows, self.point):
            return None
        columns = columns_of(self.point, kept)
        step = step_of(self.gram_on_search_rows[np.ix_(columns, columns)])
        return reduced_normal(step, keep_units(self.point, kept), share, dtype=np.float32)

    @property
    def used(self) -> Source:
        """The used rows, white."""
        return self.problem.used

    @property
    def variation(self) -> float:
        return self.problem.variation

    @property
    def equations(self) -> int:
        return self.used.size * self.used.outputs

    @property
    def unknowns(self) -> int:
        return parameter_count(self.point)

    @property
    def degrees_of_freedom(self) -> int:
        """Equations beyond the unknowns, at least one."""
        return max(1, self.equations - self.unknowns)

    @property
    def output_variance(self) -> float:
        """Variance of y about its mean."""
        return self.variation / self.equations

    @property
    def noise_variance(self) -> float:
        """Estimated variance of the noise in each output."""
        return float(self.fit.loss) / self.degrees_of_freedom

    @property
    def rounding_variance(self) -> float:
        """Mean square below which a residual is rounding, of the arithmetic or of the labels. Coarse rounding is noise."""
        rounding = self.problem.rounding
        fine = rounding <= ROWS.fine_label_rounding * self.output_variance
        return max(NOISELESS_LOSS * self.output_variance, ROWS.max_label_rounding * rounding if fine else 0.0)

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.noise_variance <= self.rounding_variance

    @property
    def precision(self) -> Precision:
        """Precision of sums of residuals: single where that pays, residuals are not rounding, and it holds the coefficients."""
        held = fits_single_precision(float(np.abs(self.point.coefficients).max(initial=0.0)))
        visible = self.noise_variance >= ROWS.single_precision_residual * self.output_variance
        return working_precision(self.point) if held and visible else np.float64

    @property
    def explained(self) -> float:
        """Share of the variance of y that the network explains, the unknowns counted."""
        return 1.0 - min(1.0, self.noise_variance / self.output_variance)


def evaluate_fit(network: Network, problem: Problem, progress: Progress | None = None) -> FittedNetwork:
    """Sums of a network over the used rows; one pass. Rows have length one on white inputs where their length is free.

    `progress` is told the steps of refits under the stage "certifying"; no clock stops them.
    """
    white = problem.white(network)
    point = with_unit_rows(point_of(white, biases=problem.biases, offset=True, linear=network.linear is not None))
    renamed = None if progress is None else lambda event: progress(event._replace(stage="certifying"))
    fit = Fit(*problem.used.sum(FitStatistic(point), stage="certificate"))
    return FittedNetwork(network, white, point, problem, fit, renamed)


def with_unit_rows(point: Point) -> Point:
    """The same function with rows w of length one, where their length is free."""
    if point.normals is None:
        return point
    lengths = np.linalg.norm(point.units[:, : point.units.shape[1] - point.biases], axis=1)[:, None]
    lengths[lengths == 0.0] = 1.0
    readout = point.coefficients[: point.width] * lengths ** (point.activation.degree or 0)
    return point.moved(point.units / lengths, np.vstack([readout, point.coefficients[point.width :]]))
