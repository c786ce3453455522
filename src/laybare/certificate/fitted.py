"""A fitted network and the sums that every check starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from laybare.damping import Effort
from laybare.levels import NOISELESS_LOSS
from laybare.linear_algebra import Precision
from laybare.networks import Network
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import dear, deciding_refit
from laybare.refinement.normal import Fit, FitStatistic, Point, Step, StepStatistic, point_of, quick_precision, step_of
from laybare.refinement.part_curvature import ANY_SIZE, PartNormal, normal_of
from laybare.refinement.parts import enough_rows, one_lot_and_another, some_and_others
from laybare.refinement.problem import Problem
from laybare.refinement.pruning import columns_of, parameter_count, without
from laybare.shapes import Array, Progress
from laybare.source import Source
from laybare.source.lanes import side_by_side
from laybare.source.protocol import Parts
from laybare.source.sums import even_pair

ROWS_AN_UNKNOWN, FEWEST_ROWS, SHARE, ENOUGH_ROWS = 4, 4000, 24, 1 << 18
"""Rows on which much can be tried: so many per unknown, so many at least, and at least one of so many, up to a number that leaves
memory for others."""

INFORMING_A_NUMBER, FEWEST_INFORMING, INFORMING = 8, 8192, 5_000_000_000
"""Rows for the curvature: so many per number, so many at least, and with noise as many as take so many operations, if that is
more. A standard error is then known to about √(1/(2 n₁)), less than one per cent."""

MANY = 30_000
"""Rows that are looked at for what is left: some hundred features then show what explains a three-hundredth of the residual. On a
million rows these passes took four fifths of a recovery."""

SEEN_SINGLE = 1e-8
"""Mean square of residuals, over the variance of y, from which single precision knows them to a hundredth."""

ROUNDED, FINE = 16.0, 1e-10
"""Residuals of labels that were rounded are exact up to 4 times their rounding (16 in squares), if that is fine: 1e-5 of the
spread of y (1e-10 in squares), as float32 and six decimals are. Coarser rounding is noise, and is tested as noise."""


AT_ONCE = 3e8
"""n·P² from which parts of a certificate that know nothing of each other are worth a core each."""


@dataclass(frozen=True, eq=False)
class State:
    """A network on the given inputs and on white ones, as the solver sees it (`point`), and the sums of the used rows there."""

    network: Network
    white: Network
    point: Point
    problem: Problem
    fit: Fit
    progress: Progress | None = None

    def refit(
        self, start: Point, effort: Effort, rows: Source | None = None, nearby: PartNormal | None = None
    ) -> Refined:
        """Another network fitted to the used rows, or to some of them; an interrupt ends the certificate.

        `nearby` is the curvature of all those rows at a point that is near, if known.
        """
        source = self.view if rows is None else rows
        scale = self.variation * source.size / self.view.size
        return deciding_refit(source, start, scale, nearby=nearby, effort=effort, progress=self.progress)

    def at_once(self, *parts: Callable[[], Any]) -> list[Any]:
        """What parts return that know nothing of each other: side by side where that pays."""
        if self.equations * self.unknowns**2 < AT_ONCE:
            return [part() for part in parts]
        return side_by_side(self.view, *parts)

    @cached_property
    def informing(self) -> Source:
        """Enough of the used rows, at random, for the curvature; all of them if that is not much less."""
        numbers = int(self.point.units.size + self.point.coefficients.size)
        rows = max(FEWEST_INFORMING, INFORMING_A_NUMBER * numbers)
        if not self.exact:
            rows = max(rows, 2 * self._rows_of_some, INFORMING // max(1, numbers**2))
        return enough_rows(self.view, even_pair(rows))

    @cached_property
    def some_and_rest(self) -> tuple[Source, Source | None]:
        """Some of the used rows on which much can be tried, and the rest of the informing ones, if they come from these."""
        if self.informing is not self.view and 2 * self._rows_of_some <= self.informing.size:
            return some_and_others(self.informing, self._rows_of_some)
        return enough_rows(self.view, self._rows_of_some), None

    @property
    def _rows_of_some(self) -> int:
        return even_pair(max(self._fewest_rows, min(ENOUGH_ROWS, self.view.size // SHARE)))

    @property
    def _fewest_rows(self) -> int:
        return max(FEWEST_ROWS, ROWS_AN_UNKNOWN * self.unknowns // self.view.outputs)

    @property
    def some(self) -> Source:
        """Some of the used rows, at random, on which much can be tried: one of 24 or more, or enough; all where that is not much
        less."""
        return self.some_and_rest[0]

    @cached_property
    def few(self) -> Source:
        """As few of the used rows as much can be tried on, however many there are: among some of them, which are in memory."""
        return self.some if self.some is self.view else enough_rows(self.some, even_pair(self._fewest_rows))

    @cached_property
    def _looked_at(self) -> Parts:
        return one_lot_and_another(self.view, MANY, 2 * MANY)

    @property
    def many(self) -> Source:
        """As many of the used rows as tests of what is left look at; all of them if that is not much less."""
        return self.view if self.view.size < 2 * MANY else self._looked_at.first

    @property
    def others(self) -> Source:
        """Twice as many that are not among these, or all such, where `many` are not all."""
        return self._looked_at.second

    @cached_property
    def own_on_some(self) -> Refined:
        """The network fitted to some of the rows, as others are that are compared with it there: it is near, one step does."""
        return self.refit(self.point, Effort(max_steps=1), self.some, self.curvature_on_some(np.arange(self.point.width)))

    @cached_property
    def gram_on_some(self) -> Array:
        """Gram matrix of a step on some of the rows; readouts do not enter it."""
        return Step(*self.some.sum(StepStatistic(self.point, quick_precision(self.point)), stage="certificate")).gram

    @cached_property
    def own_on_few(self) -> float:
        """What the network leaves of few rows, fitted to these."""
        return self._own_on(self.few)

    @cached_property
    def own_on_many(self) -> float:
        """The same for as many rows as tests of what is left look at."""
        return self._own_on(self.many)

    def _own_on(self, rows: Source) -> float:
        if rows is self.view:
            return float(self.fit.loss)
        if rows is self.some:
            return self.own_on_some.loss
        nearby = self.curvature_on_some(np.arange(self.point.width), self.some.size / rows.size)
        return self.refit(self.point, Effort(max_steps=1), rows, nearby).loss

    def curvature_on_some(self, kept: Array, share: float = 1.0) -> PartNormal | None:
        """Curvature of these rows, or of those that they are such a share of, at the network with such units alone, from that
        matrix, where steps are dear."""
        if self.exact or quick_precision(self.point) is not np.float32 or not dear(self.some, self.point):
            return None
        columns = columns_of(self.point, kept)
        step = step_of(self.gram_on_some[np.ix_(columns, columns)])
        return normal_of(step, without(self.point, kept), share, dtype=np.float32)

    @property
    def view(self) -> Source:
        """The used rows, white."""
        return self.problem.used

    @property
    def variation(self) -> float:
        return self.problem.variation

    @property
    def equations(self) -> int:
        return self.view.size * self.view.outputs

    @property
    def unknowns(self) -> int:
        return parameter_count(self.point)

    @property
    def spare(self) -> int:
        """Equations beyond the unknowns, at least one."""
        return max(1, self.equations - self.unknowns)

    @property
    def variance(self) -> float:
        """Of y, about its mean."""
        return self.variation / self.equations

    @property
    def noise(self) -> float:
        """Estimated variance of the noise in each output."""
        return float(self.fit.loss) / self.spare

    @property
    def floor(self) -> float:
        """Mean square below which a residual is rounding, of the arithmetic or of the labels."""
        rounding = self.problem.rounding
        return max(NOISELESS_LOSS * self.variance, ROUNDED * rounding if rounding <= FINE * self.variance else 0.0)

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.noise <= self.floor

    @property
    def precision(self) -> Precision:
        """Of sums in which residuals enter and that need not be exact: single where that pays, residuals are not rounding, and
        numbers of that precision hold the coefficients."""
        held = 1.0 / ANY_SIZE < float(np.abs(self.point.coefficients).max(initial=0.0)) < ANY_SIZE
        return quick_precision(self.point) if held and self.noise >= SEEN_SINGLE * self.variance else np.float64

    @property
    def explained(self) -> float:
        """Share of the variance of y that the network explains, the unknowns counted."""
        return 1.0 - min(1.0, self.noise / self.variance)


def state_of(network: Network, problem: Problem, progress: Progress | None = None) -> State:
    """The state of a fit; one pass. Rows have length one on white inputs where their length is free.

    `progress` hears of the steps of refits under the stage "certifying": they have ends of their own, and no clock stops them.
    """
    white = problem.white(network)
    point = with_unit_rows(point_of(white, biases=problem.biases, offset=True, linear=network.linear is not None))
    told = None if progress is None else lambda event: progress(event._replace(stage="certifying"))
    return State(network, white, point, problem, Fit(*problem.used.sum(FitStatistic(point), stage="certificate")), told)


def with_unit_rows(point: Point) -> Point:
    """The same function with rows w of length one, where their length is free."""
    if point.normals is None:
        return point
    lengths = np.linalg.norm(point.units[:, : point.units.shape[1] - point.biases], axis=1)[:, None]
    lengths[lengths == 0.0] = 1.0
    readout = point.coefficients[: point.width] * lengths ** (point.activation.degree or 0)
    return point.moved(point.units / lengths, np.vstack([readout, point.coefficients[point.width :]]))
