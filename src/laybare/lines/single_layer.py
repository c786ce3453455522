"""One hidden layer read line by line, until further lines show no unknown unit.

The first line is read completely. Every further line starts where the model is exact, and is asked at its two ends only: an
unknown unit that crosses the line adds a·(n·x - h) to the answer at the end, so the prediction fails there. Only then are the
kinks of the difference searched, and only the pieces beside them measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import AssumptionViolated, BudgetExhausted, LaybareError, NotSeparated
from laybare.lines.gradients import initial_model, measure_gradients, units_from_jumps
from laybare.lines.kinks import LineFunction, LineProfile, answers_along, end_piece, find_kinks, piece_around
from laybare.lines.line import (
    KINK,
    Line,
    LinearPiece,
    LineValues,
    line_through,
    random_direction,
    random_line,
    residual_rms,
    within_answers,
)
from laybare.lines.partial_network import PartialNetwork, UnitEstimates
from laybare.lines.piecewise_linear import LineCheck, check_piecewise_linear
from laybare.lines.query import Purpose, QueryContext, QueryCounter, Resolution
from laybare.lines.surfaces import Surface
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding

DepthCheck: TypeAlias = Callable[[LineProfile, Rounding], int]
"""Sees the kinks of the first line before any gradient is measured; returns the number of queries that it spent."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """When to stop looking for units."""

    quiet_lines: int = 4  # in a row that show no unknown unit. Checked by `laybare reproduce lines`.
    max_lines: int = 40  # in all. Checked by `pytest tests/lines/test_read_network.py`.
    max_queries_per_line: int = 100_000  # for the kinks of one line. Checked by `pytest tests/lines/test_kinks.py`.


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """How to read a network with one hidden layer.

    Attributes
    ----------
    activation : of the units; None: determined from the answers (ReLU, leaky ReLU, absolute value)
    precision : wanted accuracy of weights, distances and readouts, down to what rounding allows; None: 6e-11, or 2e-8 for
        networks too large for a fit
    spread : scale of the inputs
    patience : when to stop; None: after 4 quiet lines, more in a box or with coarse answers
    depth_check : sees the kinks of the first line, and may refuse the black box
    resolution : the grid of the probabilities behind log-odds; None for outputs
    """

    activation: Activation | None = relu
    precision: float | None = None
    spread: float = 1.0  # Convention: white inputs.
    patience: Patience | None = None
    depth_check: DepthCheck | None = None
    resolution: Resolution | None = None
    fresh_share: float = 1.2  # queries of the fit per parameter, at most. Checked by `laybare reproduce lines`.
    line_reach: float = 1e5  # of a line, in units of its scale. Checked by `pytest tests/lines/test_read_network.py`.
    coarse_reach: float = 0.01
    """The reach with coarse answers is this over √rounding: farther out, rounding hides the middle of the line.
    Checked by `pytest -m slow tests/lines/test_acceptance.py`."""
    rounding_growth: float = 8.0  # if a line splits rounding into pieces. Checked by `pytest tests/lines/test_read_network.py`.
    check_shares: tuple[float, ...] = (1.0, 0.25)
    """Of the way to both ends of a line, where its answers are compared with predictions: at the ends, and for log-odds, which
    are coarse there, nearer. Checked by `pytest tests/recovery/test_real_models.py`."""
    max_first_lines: int = 3  # tries of the first line. Checked by `pytest tests/lines/test_read_network.py`.
    origin_radius: float = 1e-6
    """Where the model is exact, in units of the scale. Checked by `pytest tests/lines/test_primitives.py`."""
    origin_kink_ratio: float = 4.0
    """A kink within this many radii refutes the model. Checked by `pytest tests/lines/test_read_network.py`."""
    max_fruitless_lines: int = 12
    """In a row: contradict the model, bring no unit. Checked by `pytest tests/lines/test_read_network.py`."""
    min_units_advised: int = 3  # in the advice on budgets. Checked by `pytest tests/lines/test_read_network.py`.
    far_check_units: int = 5
    """Units whose hyperplane is tested far away. Checked by `pytest tests/pipeline/test_black_box_deep.py`."""
    far_checks_per_unit: int = 3  # before a unit is missed. Checked by `pytest tests/pipeline/test_black_box_deep.py`.
    far_check_step: float = 1e-3  # in units of the inputs' scale. Checked by `pytest tests/pipeline/test_black_box_deep.py`.
    verify_queries: int = 6  # random points that the result must predict. Checked by `laybare reproduce lines`.
    max_error_bar: float = 0.03  # beyond it the reading has failed. Checked by `pytest tests/lines/test_read_network.py`.
    max_start_error: float = 1e-4
    """Error bar from which Gauss-Newton converges; worse units, as coarse answers leave where two kinks are close, are measured
    again first. Checked by `pytest -m slow tests/lines/test_acceptance.py`."""
    small_precision: float = 6e-11  # wanted by default. Checked by `pytest tests/lines/test_read_network.py`.
    large_precision: float = 2e-8  # the same without a fit. Checked by `pytest -m slow tests/lines/test_acceptance.py`.
    max_returns: int = 8  # from a contradiction to further lines. Checked by `pytest tests/lines/test_read_network.py`.
    max_coarse_attempts: int = 6
    """The same with coarse answers, as far as the budget goes. Checked by `pytest tests/recovery/test_real_models.py`."""
    max_targets: int = 3  # contradicting answers that lines go through. Checked by `pytest tests/lines/test_read_network.py`.
    max_attempts: int = 3  # from a new first line. Checked by `pytest -m slow tests/lines/test_acceptance.py`.


@dataclass(frozen=True, eq=False)
class SingleLayerState:
    """The model after the lines so far."""

    model: PartialNetwork
    rounding: Rounding  # of the answers, as measured
    first: Line  # through the model's point
    lines: int
    quiet: int  # lines at the end that showed no unknown unit
    first_kinks: int  # of the first line
    options: ReaderOptions
    patience: Patience
    budget_error: BudgetExhausted | None = None  # if the budget ended
    inconsistent: bool = False  # a line bends at the model's point, where no unit is, or too many were fruitless
    fruitless: int = 0  # lines in a row that contradicted the model and brought no unit


def estimate_queries(dim: int, units: int) -> int:
    """Queries that a network with this many units takes: a gradient per piece, five queries per kink, and the checks."""
    units = max(units, ReaderOptions.min_units_advised)
    return int(1.1 * ((units + 1) * (dim + 1) + 8 * units + 60))


def read_single_layer(
    queries: QueryCounter, dim: int, options: ReaderOptions = ReaderOptions(), *, rng: Generator
) -> SingleLayerState:
    """Read a black box line by line, inside the box of the queries. `options.depth_check` may refuse it after the first kinks."""
    try:
        state = _first_usable_line(queries, dim, options, rng)
    except BudgetExhausted as error:
        raise _budget_too_small(queries, dim, int(error.values.get("kinks", error.values.get("units", 0))), "at least ") from None
    if state.budget_error is not None:
        return state
    try:
        while state.quiet < state.patience.quiet_lines and state.lines < state.patience.max_lines and not state.inconsistent:
            line = random_direction(state.first, state.first.high - state.first.low, queries.box, rng=rng)
            state = check_line(queries, state, within_answers(queries, line), rng=rng)
    except BudgetExhausted as error:
        return replace(state, budget_error=error)
    return state


class LineReader:
    """Reads one hidden layer line by line, every line from where the model is exact."""

    def __init__(self, queries: QueryCounter, dim: int, options: ReaderOptions, rng: Generator) -> None:
        self.queries, self.dim, self.options, self.rng = queries, dim, options, rng

    def read(self) -> SingleLayerState:
        """The units on all lines until several in a row bring nothing new, or as many as the budget allows."""
        return read_single_layer(self.queries, self.dim, self.options, rng=self.rng)

    def look_at(self, state: SingleLayerState, targets: Array) -> SingleLayerState:
        """With the units that lines through points which contradict the model have shown."""
        for target in targets[: self.options.max_targets]:
            state = check_line_through(self.queries, state, target, rng=self.rng)
        return state


def check_line_through(queries: QueryCounter, state: SingleLayerState, target: Array, *, rng: Generator) -> SingleLayerState:
    """One more line, through a point whose answer contradicts the model."""
    first = state.first
    line = line_through(first.point, target - first.point, first.high - first.low, first.scale, queries.box)
    inside = float(np.linalg.norm(target - first.point))
    return check_line(queries, state, within_answers(queries, line), inside=inside, rng=rng)


def check_line(
    queries: QueryCounter, state: SingleLayerState, line: Line, *, inside: float | None = None, rng: Generator
) -> SingleLayerState:
    """Compare both ends of a line through the model's point with the prediction; measure the line if one is wrong.

    If both are right, but the answer at `inside` is not, what is missing adds up to nothing far away: the line is measured from
    there.
    """
    model, options, context = state.model, state.options, QueryContext(queries, state.rounding, rng)
    shares = np.array(options.check_shares if queries.resolution is not None else options.check_shares[:1])
    y, sd = _unexplained_along(context, model, line, "checks")(np.outer([line.low, line.high], shares).ravel())
    predicted = (np.abs(y).max(axis=1) <= 2.0 * KINK.rounding_sds * sd).reshape(2, -1).all(axis=1)
    state = replace(state, lines=state.lines + 1, quiet=state.quiet + 1)
    between = inside if predicted.all() else None
    if predicted.all() and between is None:
        return state
    if state.lines == 2:
        _check_hyperplanes(context, model, options, state.first.scale / np.sqrt(len(model.point)))
    state = replace(state, quiet=0)
    along = _unexplained_along(context, model, line, "kinks")
    try:
        pieces = _initial_pieces(along, line, predicted, options.origin_radius * line.scale, model)
        if between is not None:
            pieces += [piece_around(along, line, between), end_piece(along, line, line.high)]
        profile = find_kinks(along, line, pieces, max_queries=state.patience.max_queries_per_line)
    except NotSeparated:
        return replace(state, rounding=state.rounding.coarser(options.rounding_growth))
    if any(abs(kink.t) < options.origin_kink_ratio * options.origin_radius * line.scale for kink in profile.kinks):
        return replace(state, inconsistent=True)
    more = model.with_units(_measure_units(context, model, profile))
    fruitless = 0 if len(more.units) > len(model.units) else state.fruitless + 1
    inconsistent = fruitless >= options.max_fruitless_lines and state.rounding.fine
    return replace(state, model=more, inconsistent=inconsistent, fruitless=fruitless)


def _budget_too_small(queries: QueryCounter, dim: int, units: int, least: str) -> BudgetExhausted:
    enough = max(estimate_queries(dim, units), (queries.budget or 0) + dim)
    return BudgetExhausted(
        f"{queries.total} of {queries.budget} queries have shown {least}{units} units and measured none.",
        f"Every unit takes dim + 1 = {dim + 1} queries and a few more.",
        f"Grant {least}{enough:,} queries.", units=units, spent=queries.total, needed=enough)


def _no_gradient_error(queries: QueryCounter, dim: int, profile: LineProfile) -> LaybareError:
    """Why the first gradient could not be measured."""
    if queries.left is not None and queries.left < dim:
        return _budget_too_small(queries, dim, len(profile.kinks), "")
    return NotSeparated(
        f"The gradient around the first point does not agree with the slope along the line, after {queries.total} queries.",
        "The function may be curved, or bend on surfaces that are no hyperplanes of one layer.",
        "Try another seed; if it fails again, use a method for samples.", kinks=len(profile.kinks))


def _first_usable_line(queries: QueryCounter, dim: int, options: ReaderOptions, rng: Generator) -> SingleLayerState:
    """The first line that can be measured: near-coincident kinks and coarse answers may spoil one."""
    for _ in range(options.max_first_lines - 1):
        try:
            return _first_line(queries, dim, options, strict=True, rng=rng)
        except NotSeparated:
            continue
    return _first_line(queries, dim, options, strict=False, rng=rng)


def _first_line(queries: QueryCounter, dim: int, options: ReaderOptions, *, strict: bool, rng: Generator) -> SingleLayerState:
    """The first line, read completely or as far as the budget goes."""
    spread = options.spread
    line = within_answers(queries, random_line(dim, options.line_reach * spread * np.sqrt(dim), spread, queries.box, rng=rng))
    check = check_piecewise_linear(queries, line)
    patience = options.patience or _default_patience(queries, check.rounding)
    coarse = options.coarse_reach / np.sqrt(max(check.rounding.unit, check.rounding.absolute))
    reach = line.scale * float(np.clip(coarse, 20.0, options.line_reach))
    line = replace(line, low=max(line.low, -reach), high=min(line.high, reach))
    profile, rounding = _first_profile(QueryContext(queries, check.rounding, rng), line, check, options, patience)
    if options.depth_check is not None:
        queries.count(options.depth_check(profile, rounding), "checks")
    context = QueryContext(queries, rounding, rng)
    gradients = measure_gradients(context, None, profile, np.zeros(len(profile.pieces), dtype=bool), strict=strict)
    if not gradients.consistent.any():
        raise _no_gradient_error(queries, dim, profile)
    model = initial_model(profile, gradients)
    model = model.with_units(units_from_jumps(profile, gradients, model))
    ended = queries.left is not None and queries.left < dim and not gradients.consistent.all()
    error = _budget_too_small(queries, dim, len(profile.kinks), "") if ended else None
    if error is not None and not len(model.units):
        raise error
    first = replace(line, point=model.point)
    return SingleLayerState(model, rounding, first, 1, 0, len(profile.kinks), options, patience, error)


def _first_profile(
    context: QueryContext, line: Line, check: LineCheck, options: ReaderOptions, patience: Patience
) -> tuple[LineProfile, Rounding]:
    """The kinks of the first line. If they turn out to be rounding, it is coarser than the clusters could show."""
    along, rounding = answers_along(context, line), context.rounding
    ends = [end_piece(along, line, line.low), end_piece(along, line, line.high)]
    steep = max(float(np.abs(end.slope).max()) for end in ends) * np.sqrt(len(line.point))
    rounding = replace(rounding, steepness=max(rounding.steepness, steep))
    for _ in range(options.max_first_lines):
        pieces = [replace(piece, sd=rounding.sd(line(piece.t), piece.y)) for piece in (ends[0], *check.pieces, ends[1])]
        along = answers_along(context._replace(rounding=rounding), line)
        try:
            profile = find_kinks(along, line, pieces, max_queries=patience.max_queries_per_line)
        except NotSeparated:
            rounding = rounding.coarser(options.rounding_growth)
        else:
            return profile, rounding.coarser(max(1.0, 2.0 * residual_rms(profile.pieces)))
    raise AssumptionViolated(
        f"The answers along a line scatter by more than {rounding.inner / rounding.unit:.0f} units of their last digit.",
        "They are noisy, or the function is curved; lines need a piecewise-linear black box.", "Use a method for samples.",
        kind="noisy")


def _default_patience(queries: QueryCounter, rounding: Rounding) -> Patience:
    """A long line meets nearly every unit; lines that end at a box or where rounding begins do not."""
    if queries.box is not None:
        return Patience(quiet_lines=100, max_lines=2000)
    return Patience(quiet_lines=4 if rounding.fine else 8)


def _check_hyperplanes(context: QueryContext, model: PartialNetwork, options: ReaderOptions, spread: float) -> None:
    """Refuse a deep network: far from its kink a unit of a single layer still bends, a surface that turns does not."""
    queries, _, rng = context
    for i in rng.permutation(len(model.units))[: options.far_check_units]:
        if queries.box is not None or (queries.left is not None and queries.left < 3 * options.far_checks_per_unit):
            return
        step = options.far_check_step * spread
        if not any(_bends_far_away(context, model, int(i), spread, step) for _ in range(options.far_checks_per_unit)):
            raise deep_network_error(queries.total)


def deep_network_error(queries: int, located: tuple[Surface, ...] = ()) -> AssumptionViolated:
    """The refusal of a network with more than one hidden layer, with the hyperplanes that were located until then."""
    return AssumptionViolated(
        f"A kink that was followed leaves its hyperplane, after {queries} queries.",
        "A unit of a single hidden layer bends on all of its hyperplane: there is more than one layer.",
        "Use Lines(depth=None).", kind="deep", located=located)


def _bends_far_away(context: QueryContext, model: PartialNetwork, i: int, spread: float, step: float) -> bool:
    """Whether f bends across the hyperplane of unit i at the foot of a random point; True if rounding would hide that."""
    units, (queries, rounding, rng) = model.units, context
    normal, distance = units.normals[i], units.distances[i]
    x = spread * rng.standard_normal(len(normal))
    x += (distance - (x - model.point) @ normal) * normal
    unsure = 10.0 * float(np.linalg.norm(x - model.point) * units.normal_sd[i] + units.distance_sd[i])
    step = max(step, unsure)
    points = x + step * np.array([[-1.0], [0.0], [1.0]]) * normal
    y = queries.ask(points, "checks")
    noise = 2.0 * KINK.rounding_sds * np.sqrt(6.0) * float(rounding.sd(points, y).max())
    hidden = noise > 0.01 * step * float(np.abs(units.readouts[i]).max())
    return bool(hidden or np.abs(y[0] - 2.0 * y[1] + y[2]).max() > noise)


def _measure_units(context: QueryContext, model: PartialNetwork, profile: LineProfile) -> UnitEstimates:
    known = np.zeros(len(profile.pieces), dtype=bool)
    known[int(np.searchsorted(profile.places, 0.0))] = True  # the piece around t = 0, where the model is exact
    return units_from_jumps(profile, measure_gradients(context, model, profile, known), model)


def _unexplained_along(context: QueryContext, model: PartialNetwork, line: Line, purpose: Purpose) -> LineFunction:
    """What the model does not explain along a line."""

    def along(t: Array) -> LineValues:
        x = line(t)
        y = context.queries.ask(x, purpose)
        return LineValues(y - model(x), np.hypot(context.rounding.sd(x, y), model.sd(x)))

    return along


def _initial_pieces(along: LineFunction, line: Line, predicted: Array, near: float, model: PartialNetwork) -> list[LinearPiece]:
    """The piece |t| ≤ near, where the model is exact, and the ends at which it is wrong."""
    values, sd = np.zeros((2, len(model.value))), np.full(2, near * max(model.gradient_sd, 1e-300))
    pieces = [LinearPiece(np.array([-near, near]), values, sd)]
    if not predicted[0]:
        pieces.insert(0, end_piece(along, line, line.low))
    if not predicted[1]:
        pieces.append(end_piece(along, line, line.high))
    return pieces
