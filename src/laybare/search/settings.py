"""What does not change during a search: the rows, the model, how hard to look, and the numbers that steer it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import TooFewSamples
from laybare.networks import Network
from laybare.numerics.checks import check_fields, show_choices
from laybare.numerics.levels import SOLVED_LOSS
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, Trace, options
from laybare.solver.minimise import minimise, prune
from laybare.solver.point import FittedPoint, Model, Point, network_of, parameter_count, point_of
from laybare.source import Source
from laybare.source.problem import total_variation


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Numbers of the search."""

    first_rows: int = 6  # rows per parameter of the first search. Checked by `laybare reproduce samples-per-parameter`.
    fewest_rows: int = 4000  # rows of the first search at least. Checked by `make bench BENCH_ARGS=recover`.
    later_repairs: int = 2  # repairs then: what is left is mostly noise. Checked by `laybare reproduce plain-noise`.

    early_gain_tol: float = 1.0  # `gain_tol` of expensive runs, times the width. Checked by `laybare reproduce plain-noise`.
    early_kink_tol: float = 0.3  # `kink_tol` of these, times the width. Checked by `laybare reproduce plain-noise`.

    first_width: int = 4  # units of the first search if the width is not given. Checked by `make bench BENCH_ARGS=recover`.
    close_loss: float = 1e-5  # relative loss to prune matrix-free searches. Checked by `laybare reproduce large-network`.

    same_minimum: float = 0.05  # squared standard errors between fits. Checked by `laybare reproduce plain-noise`.
    same_minimum_early: float = 0.5  # the same for runs that end early. Checked by `laybare reproduce plain-noise`.
    noise_per_spare: float = 3.0  # residual variances per spare parameter. Checked by `laybare reproduce plain-noise`.

    patience: int = 3  # times as many repairs if cheap and the width is given. Checked by `laybare reproduce plain-noise`.
    repairs_to_narrow: int = 3  # repairs until runs that need their spares may agree. Checked by `pytest tests/search`.
    equations_to_widen: int = 4  # per parameter at twice the width: widen, not repair. Checked by `pytest tests/search`.
    equations_to_compare: int = 2  # per parameter to compare runs. Checked by `laybare reproduce samples-per-parameter`.

    few_equations: float = 4.0  # per wide parameter: fewer, hops first. Checked by `pytest -m slow tests/search/test_hops.py`.
    hops_at_double: int = 20  # hops per unit at 2 equations each, ... Checked by `pytest -m slow tests/search/test_hops.py`.
    most_hops: int = 300  # ... per unit near one, ... Checked by `pytest -m slow tests/search/test_hops.py`.
    hop_seconds: float = 60.0  # ... and seconds of a step that they add up to. Convention: some minutes on one core.
    equations_to_hop: float = 1.4  # per parameter, to look for the width. Checked by `pytest -m slow tests/search/test_hops.py`.
    seconds_per_width: float = 20.0  # of a step, that hops at a width may add up to then. Convention: a minute on one core.
    hops_per_width: int = 25  # hops at each width if it is not given. Checked by `pytest -m slow tests/search/test_hops.py`.
    hop_steps: int = 200  # steps of a hop at most. Checked by `laybare reproduce phase`.
    hop_gain: float = 1e-2  # least relative gain of each of them. Checked by `laybare reproduce near-limit`.
    hop_blur: float = 0.7  # sd of the logarithm of what blurs removal costs. Checked by `laybare reproduce phase`.
    hop_temperature: float = 0.02  # relative rise of the loss that is kept, in the mean. Checked by `laybare reproduce phase`.
    hop_progress: float = 0.99  # share of the lowest loss below which a hop is progress. Checked by `laybare reproduce phase`.
    stale_hops: int = 150  # hops without progress after which all units are drawn anew. Checked by `laybare reproduce phase`.
    hop_penalty: float = 0.005  # of squared readouts, per row of variance one. Checked by `laybare reproduce phase`.
    penalty_up_to: float = 2.0  # equations per unknown up to which hops have it. Checked by `laybare reproduce near-limit`.

    subspace_share: float = 0.7  # largest dimension of it as a share of the inputs. Checked by `pytest tests/search`.
    subspace_residual: float = 0.2  # largest relative loss there that is trusted. Checked by `pytest tests/search`.

    sign_residual: float = 3.0  # times the relative residual that patterns may leave. Checked by `pytest tests/search`.
    sign_patterns: int = 16  # most patterns that are refitted, best first. Checked by `pytest tests/search`.
    sign_gap: float = 16.0  # doubled log-likelihood ratio between two patterns. Derived: the square of 4 sigmas.
    linear_part: float = 1.5  # times Schwarz's penalty that it must gain. Checked by `laybare reproduce hostile`.

    narrow_up_to: int = 32  # widest network that loses unsupported units. Checked by `laybare reproduce hostile`.
    narrow_by: int = 16  # most units that it may lose. Checked by `laybare reproduce hostile`.

    all_rows_gain_tol: float = 0.1  # `gain_tol` of the fit that chooses signs. Checked by `laybare reproduce plain-noise`.
    last_gain_tol: float = 0.005  # `gain_tol` of the last fit. Derived: steps below its root, 0.07 standard errors.
    last_kink_tol: float = 0.00025  # `kink_tol` of the last fit. Checked by `laybare reproduce coverage`.
    last_damping: float = 1e-4  # first damping after a fit to some rows. Checked by `make bench BENCH_ARGS=recover`.
    degraded: float = 1.1  # loss over that expected, above which signs are chosen again. Checked by `pytest tests/search`.


SEARCH = SearchSettings()
"""The settings in use."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How hard to look.

    `spares` None means max(2, 15 % of the width) spare units. `hops` repairs follow the first run, and up to three times as many
    where these are cheap and noise leaves open which run is best. No model has fewer than `equations` per free parameter. If all
    is `exact`, without noise, runs that do not fit are not compared.
    """

    spares: int | None = None
    hops: int = 8
    bias_scale: float = 0.5
    effort: Effort = Effort()
    equations: float = 1.2
    exact: bool = False

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_fields(self, equations=1.0)

    def count_spares(self, width: int) -> int:
        return self.spares if self.spares is not None else max(2, -(-15 * width // 100))


Trust: TypeAlias = Literal["complete", "partial", "random"]
"""What is known of the units that a search begins with: they may be all, some of them may be right, or nothing."""


class SearchContext(NamedTuple):
    """One search: its rows, its model, how hard to look, and what is known of the units.

    `scale` is the variation of y, the unit of the relative loss; `known` are rows of units, None if there are none to begin with.
    """

    source: Source
    model: Model
    search: Search
    scale: float
    rng: Generator
    progress: Progress | None = None
    known: Array | None = None
    trust: Trust = "partial"

    @staticmethod
    def of(
        source: Source, model: Model, search: Search = Search(), *, rng: Generator, progress: Progress | None = None
    ) -> SearchContext:
        """With the variation of y, which takes one pass."""
        return SearchContext(source, model, search, total_variation(source), rng, progress)

    @property
    def equations(self) -> int:
        return self.source.size * self.source.outputs

    def on(self, part: Source) -> SearchContext:
        """The same on some of the rows, with their share of the variation."""
        return self._replace(source=part, scale=part.size / self.source.size * self.scale)

    def knowing(self, units: Array | None, trust: Trust = "partial") -> SearchContext:
        """The same from other units."""
        return self._replace(known=units, trust=trust)

    def point_of(self, network: Network) -> Point:
        return point_of(network, biases=self.model.biases, offset=True, linear=network.linear is not None)

    def network_of(self, point: Point) -> Network:
        return network_of(point, vector=self.source.outputs == 1)

    def minimise(self, start: Point, floor: float = 0.0) -> FittedPoint:
        effort = self.effort(start)
        return minimise(
            self.source, start, self.scale, effort=replace(effort, floor=max(effort.floor, floor)), progress=self.progress)

    def prune(self, found: FittedPoint, width: int | None) -> FittedPoint:
        return prune(self.source, found, self.scale, width=width, effort=self.effort(found.point), progress=self.progress)

    def prune_only(self, found: FittedPoint, width: int | None) -> FittedPoint:
        """The same with a trace of the pruning alone."""
        return self.prune(replace(found, trace=Trace(found.trace.rows[-1:], found.trace.reason)), width)

    def is_expensive(self, point: Point) -> bool:
        return options.COST.is_expensive(self.source.size, parameter_count(point))

    def is_cheap(self, point: Point) -> bool:
        return options.COST.is_cheap(self.source.size, parameter_count(point))

    def effort(self, point: Point) -> Effort:
        """Of one run: where steps are expensive, runs with noise end early, since all rows come later."""
        effort = self.search.effort
        if not self.is_expensive(point):
            return effort
        gain_tol, kink_tol = (min(0.1 * share, share / point.width) for share in (SEARCH.early_gain_tol, SEARCH.early_kink_tol))
        return replace(effort, gain_tol=max(effort.gain_tol, gain_tol), kink_tol=max(effort.kink_tol, kink_tol))

    def is_solved(self, found: FittedPoint, floor: float = 0.0) -> bool:
        return found.loss <= max(SOLVED_LOSS, floor) * self.scale

    def draw_units(self, count: int) -> Array:
        return random_units(count, self.source.dim, self.search.bias_scale if self.model.biases else None, self.rng)

    def start(self, units: Array) -> Point:
        return self.model.start(units, self.source.outputs)

    def with_spares(self, width: int) -> int:
        """The width with its spares, as many as the samples allow."""
        return min(width + self.search.count_spares(width), self.largest_width())

    def count_parameters(self, width: int) -> int:
        return parameter_count(self.start(np.zeros((width, self.source.dim + self.model.biases))))

    def largest_width(self, per_parameter: float | None = None) -> int:
        """Largest width with this many equations per free parameter, or 0: by default a sixth of the equations is left over."""
        per_parameter = per_parameter or self.search.equations
        one, two = self.count_parameters(1), self.count_parameters(2)
        return max(0, int((self.equations / per_parameter - (2 * one - two)) // (two - one)))

    def check_width(self, width: int) -> None:
        limit = self.largest_width()
        if limit < width:
            enough = int(3 * self.source.size * width / max(limit, 1))
            given = f"{f'at most width {limit}' if limit else 'no width'} could be distinguished from noise"
            raise TooFewSamples(
                f"{self.source.size:,} samples for width {width} in dimension {self.source.dim}, beside those that are held out.",
                f"They leave too few equations to check the free parameters: {given}.",
                f"About {enough:,} samples would do{', or ask for a smaller width' if limit else ''}.",
                samples=self.source.size, width=width, largest_width=limit)


def check_counting_limit(source: Source, unknowns: int, **values: int) -> None:
    """Raise unless there are more equations than free parameters; `values` are told besides."""
    if source.size * source.outputs <= unknowns:
        raise TooFewSamples(
            f"{source.size:,} samples ({source.outputs} output{'s' * (source.outputs > 1)}) for {unknowns:,} free parameters.",
            "Some network fits as many equations as it has unknowns, whatever the truth is.",
            f"About {2 * unknowns // source.outputs:,} samples would do, or a smaller width.",
            samples=source.size, unknowns=unknowns, **values)


def random_units(count: int, dim: int, bias_scale: float | None, rng: Generator) -> Array:
    """Unit rows in random directions for whitened inputs, with Gaussian biases unless `bias_scale` is None."""
    rows = rng.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows if bias_scale is None else np.column_stack([rows, bias_scale * rng.standard_normal(count)])
