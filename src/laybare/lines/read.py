"""The loops: a network with one hidden layer, or with several, read out of a black box.

    read_network   lines -> model -> measure poor units again -> fit -> fresh answers -> signs -> network
    read_deep      input space -> layer -> feature space -> layer -> ... -> readout -> joint fit -> fresh answers

Fresh answers that are not predicted show that a unit is missing, and send the search back to lines through them. A deep network
is read layer by layer: in every feature space lines are followed until the layer is complete (`laybare.lines.layer`). It is the
last one if the coefficients of its units are everywhere the same: they are the readout. Features can be chosen freely above one
layer only, so this ends with the second layer. What lies above, and layers wider than their input, are read by following surfaces
(`laybare.lines.folds`), which takes the layers that are complete as given. If nothing completes a layer, the layers below it are
the result, with the black box on their features, and the reason.
Sources: Jagielski et al. (2020), Carlini et al. (2020) for kinks and jumps; Rolnick and Kording (2020), Carlini et al. for layer
after layer. The tests of completeness and the economy of queries are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, NotSeparated
from laybare.lines.always_active import layer_with_always_active_unit
from laybare.lines.assurance import AssurancePlan, Assured
from laybare.lines.deep_fit import DeepFit, DeepParameters
from laybare.lines.feature_space import FeatureSpace, RemainingBlackBox, input_space
from laybare.lines.fresh_check import NetworkChecker
from laybare.lines.hyperplanes import HYPERPLANE, LocatedReader, usable_line
from laybare.lines.layer import (
    LayerEstimate,
    choose_lowest_units,
    choose_units,
    decide_sides,
    estimate_layer,
    layer_without_sides,
    read_wide_last_layer,
)
from laybare.lines.line import Line, within_answers
from laybare.lines.model_fit import (
    FIT,
    ask_random_points,
    contradicting_points,
    fit_to_answers,
    largest_error_bar,
    parameter_count,
    standardised_residuals,
    stored_contradictions,
)
from laybare.lines.observations import (
    LayerObservations,
    accurate_gradients,
    follow_line,
    line_across,
    one_sided_surfaces,
    with_unshown_refused,
    without_unshown,
)
from laybare.lines.partial_network import PartialNetwork, decide_activation_and_signs
from laybare.lines.piecewise_linear import check_piecewise_linear, with_steepness
from laybare.lines.query import BlackBox, PurposeContext, QueryBox, QueryContext, QueryCounter, Resolution
from laybare.lines.remeasure import remeasure_units
from laybare.lines.single_layer import LineReader, ReaderOptions, SingleLayerState, estimate_queries
from laybare.lines.surfaces import Surface
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding

BOX_NOTE = (
    "units that do not bend inside the box are part of its linear map, or of its offset: no query inside can tell them apart")


@dataclass(frozen=True, kw_only=True)
class DeepOptions:
    """Numbers of the loop over the layers of a deep network."""

    quiet_lines: tuple[int, int] = (2, 4)
    """Lines in a row without a new unit: in the input space, where every line meets every unit, and in the feature space.
    Checked by `laybare reproduce deep-cases`."""
    quiet_before_choice: int = 8  # then all gradients are measured and subsets tried. Checked by `laybare reproduce deep-cases`.
    quiet_before_always_active: int = 14
    """Then the rest is an always active unit. Checked by `pytest tests/lines/test_last_layers.py`."""
    max_extra_lines: int = 120  # beyond the least number; then a layer is given up. Checked by `laybare reproduce deep-cases`.
    max_layers: int = 2
    """Read in feature spaces. Derived: above two layers there need not be inputs at which all units are active; surfaces are
    followed there (`laybare.lines.folds`)."""
    boundary_distance: float = 1e-3  # of the start of lines, in inputs' scales. Checked by `laybare reproduce deep-cases`.
    steep: int = 40  # inputs between which slopes are taken. Checked by `pytest tests/lines/test_deep.py`.
    max_returns: int = 6  # from contradicting answers to further lines. Checked by `laybare reproduce deep-cases`.


DEEP = DeepOptions()


@dataclass(frozen=True, eq=False)
class ReadResult:
    """A network with one hidden layer, as read."""

    network: Network  # in its activation, with the signs decided where they can be
    model: PartialNetwork  # units with error bars
    complete: bool  # all units that lines can see are in it; False if the budget ended before, or fresh answers contradict
    signs_unique: bool  # no other pattern of signs gives the same function
    rounding: Rounding  # of the answers, as measured
    lines: int
    quiet: int  # lines at the end that showed no unknown unit
    queries: dict[str, int]  # the number of queries by purpose
    rms: float  # residual of the fit, in standard deviations of rounding (NaN without a fit)
    fresh: Array  # residuals of the fresh queries that check the result, in standard deviations
    error_bar: float  # largest standard deviation of a normal, a distance or a relative readout
    needed: int | None = None  # about how many queries it would have taken, if they ended too early
    ended: bool = False  # the budget ended before the search did
    notes: tuple[str, ...] = ()  # sentences about the units
    signs_searched: bool = True  # False if there are too many units to search for their signs
    assured: Assured = Assured()  # fresh answers at inputs of the law, all of them predicted

    @property
    def width(self) -> int:
        return len(self.model.units)


def read_network(
    black_box: BlackBox, dim: int, options: ReaderOptions = ReaderOptions(), *, budget: int | None = None,
    box: tuple[Array, Array] | None = None, purpose: PurposeContext = nullcontext, assurance: AssurancePlan | None = None,
    rng: Generator,
) -> ReadResult:
    """Read a network with one hidden layer of ReLU-like units out of a black box, to rounding.

    `black_box` answers x (n, dim) with (n,) or (n, outputs). At most `budget` queries are asked, all inside the box (low, high),
    each in the context `purpose(name)`. AssumptionViolated if it is noisy, smooth or made of steps (after at most 100 queries);
    BudgetExhausted if the budget ends before the first unit. Otherwise too small a budget gives the units found so far,
    `complete` False and `needed`. With `assurance`, fresh answers must be predicted at the end. Reading takes about
    (width + 1) · dim + 5 · width + 40 queries.
    """
    within = None if box is None else QueryBox(*(np.broadcast_to(np.asarray(side, dtype=float), (dim,)) for side in box))
    queries = QueryCounter(
        black_box, budget=budget, box=within, purpose=purpose, resolution=options.resolution, assurance=assurance)
    best: _Attempt | None = None
    reader: LineReader | LocatedReader | None = None
    for attempt in range(1, options.max_coarse_attempts + 1):
        located = _has_coarse_log_odds(queries) if best is None and attempt == 1 else best is None or not best.state.rounding.fine
        if not (located and isinstance(reader, LocatedReader)):  # hyperplanes are kept: each was measured by itself
            reader = (LocatedReader if located else LineReader)(queries, dim, options, rng)
        try:
            found = _read_once(reader)
        except BudgetExhausted:
            if best is None:
                raise
            best = replace(best, ended=True)
            break
        except NotSeparated:
            if attempt < options.max_attempts or (best is not None and attempt < options.max_coarse_attempts):
                continue
            if best is None:
                raise
            break
        best = found if best is None or found.complete or found.width >= best.width else replace(best, ended=found.ended)
        if best.complete or best.ended or (found.state.rounding.fine and attempt >= options.max_attempts):
            break
    assert best is not None
    return _as_result(queries, best)


def _has_coarse_log_odds(queries: QueryCounter) -> bool:
    """Whether the answers seen so far are probabilities in float32 or decimals: gradients then seldom have digits enough."""
    grid = None if queries.resolution is None else queries.resolution()
    return grid is not None and not grid.fine


@dataclass(frozen=True, eq=False)
class _Attempt:
    """The model at the end of an attempt: whether it is complete, the residual of its fit, fresh answers, whether the budget
    ended."""

    state: SingleLayerState
    complete: bool
    rms: float = np.nan
    fresh: Array = field(default_factory=lambda: np.empty(0))
    assured: Assured = Assured()
    ended: bool = False

    @property
    def width(self) -> int:
        return len(self.state.model.units)


def _read_once(reader: LineReader | LocatedReader) -> _Attempt:
    """From the first line to a model. Contradicting answers send the search back to the lines.

    Answers of earlier attempts take part in the fit, and so do their hyperplanes, if these were located.
    """
    queries, dim, options, rng = reader.queries, reader.dim, reader.options, reader.rng
    state = reader.read()
    precision = _wanted_precision(state)
    fresh, rms, complete, assured = np.empty(0), np.nan, state.budget_error is None and not state.inconsistent, Assured()
    ended, model = state.budget_error is not None, state.model
    try:
        for _ in range(options.max_returns if complete else 0):
            context = QueryContext(queries, state.rounding, rng)
            state = replace(state, model=_remeasure_poor_units(context, state, precision))
            fitted = fit_to_answers(
                context, state.model, precision=precision, fresh_share=options.fresh_share, spread=options.spread,
                reserve=options.verify_queries)
            targets, rms, model = fitted.contradictions, fitted.rms, fitted.model
            if not fitted.plausible:
                targets = stored_contradictions(context, state.model)
            if largest_error_bar(model) > options.max_error_bar or not (fitted.plausible or len(targets)):
                complete = False
                break
            if not len(targets):
                answers = ask_random_points(context, dim, options.verify_queries, options.spread, "verify")
                fresh, targets = (f(answers, model, state.rounding) for f in (standardised_residuals, contradicting_points))
            if not len(targets):
                answers, assured = queries.ask_assurance(dim, rng)
                further, targets = (f(answers, model, state.rounding) for f in (standardised_residuals, contradicting_points))
                fresh = np.concatenate([fresh, further])
            if not len(targets):
                break
            complete, assured = False, Assured()
            state = reader.look_at(state, targets)
            complete, model = not state.inconsistent, state.model
            if state.inconsistent:
                break
        else:
            complete = False
    except BudgetExhausted:
        complete, ended = False, True
    return _Attempt(replace(state, model=model), complete, rms, fresh, assured if complete else Assured(), ended)


def _wanted_precision(state: SingleLayerState) -> float:
    options = state.options
    usual = options.small_precision if parameter_count(state.model) <= FIT.max_parameters else options.large_precision
    return max(usual if options.precision is None else options.precision, 100.0 * state.rounding.unit)


def _remeasure_poor_units(context: QueryContext, state: SingleLayerState, precision: float) -> PartialNetwork:
    """Measure poor units again: for networks too large for the fit all of them, else those that it could not start from."""
    p, options = parameter_count(state.model), state.options
    if context.queries.box is not None:
        return state.model
    wanted = precision if p > FIT.max_parameters else max(precision, FIT.precision_sds * options.max_start_error)
    most = int(options.fresh_share * p)
    return remeasure_units(context, state.model, precision=wanted, max_queries=most, spread=options.spread)


def _as_result(queries: QueryCounter, found: _Attempt) -> ReadResult:
    """The network of an attempt, its signs decided."""
    state, model = found.state, found.state.model
    bar, dim, width = largest_error_bar(model), len(model.point), len(model.units)
    fitted = model.sign_free(vector=len(model.value) == 1)
    named = decide_activation_and_signs(fitted, state.options.activation, float(np.clip(100.0 * bar, 1e-9, 1e-3)))
    notes = named.notes if queries.box is None else (*named.notes, BOX_NOTE)
    needed = None
    if not found.complete:
        at_least = max(width, state.first_kinks)
        needed = max(queries.total + dim, estimate_queries(dim, at_least))
        notes = (f"at least {at_least} units; {width} were measured", *notes)
    return ReadResult(
        named.network, model, found.complete, named.unique, state.rounding, state.lines, state.quiet, dict(queries.spent),
        found.rms, found.fresh, bar, needed, found.ended, notes, named.searched, found.assured)


@dataclass(frozen=True, eq=False)
class DeepReadResult:
    """A network of any depth, as read."""

    network: Network  # complete, or the complete layers with the black box itself on top
    layers: tuple[LayerEstimate, ...]  # the last one perhaps incomplete
    complete: bool  # all layers and the readout are known, and fresh answers are predicted
    failure: str  # why it is not complete, with the layer; empty if it is
    rounding: Rounding  # of the answers, as measured
    queries: dict[str, int]  # the number of queries by purpose
    rms: float  # residual of the joint fit, in standard deviations of rounding (NaN without a fit)
    fresh: Array  # residuals of fresh answers, relative to what is allowed
    error_bar: float  # largest standard deviation of a parameter
    ended: bool = False  # the budget ended before the search did
    assured: Assured = Assured()  # fresh answers at inputs of the law, all of them predicted


def read_deep(
    black_box: BlackBox, dim: int, *, depth: int | None = None, budget: int | None = None, spread: float = 1.0,
    purpose: PurposeContext = nullcontext, assurance: AssurancePlan | None = None, resolution: Resolution | None = None,
    located: tuple[Surface, ...] = (), rng: Generator,
) -> DeepReadResult:
    """Read a ReLU network of unknown depth and widths out of a black box.

    `depth`: the largest number of hidden layers, if it is known. `located`: hyperplanes of the lowest layer that an earlier
    search has measured. AssumptionViolated if the box is noisy, smooth or made of
    steps; BudgetExhausted if the budget ends before the first layer is complete. Otherwise `failure` says what is missing.
    """
    queries = QueryCounter(black_box, budget=budget, purpose=purpose, assurance=assurance, resolution=resolution)
    space = input_space(dim, spread)
    rounding = check_piecewise_linear(queries, within_answers(queries, space.line(0, rng))).rounding
    if not rounding.steepness and resolution is None:  # a line on which the answers are constant
        rounding = with_steepness(queries, rounding, spread * rng.standard_normal((DEEP.steep, dim)))
    reader = DeepReader(QueryContext(queries, rounding, rng), min(depth or DEEP.max_layers, DEEP.max_layers), spread)
    return reader.read(DeepState((LayerObservations(space, located),), ()))


@dataclass(frozen=True, eq=False)
class DeepState:
    """What was observed in every feature space, and the layers estimated from it; the last may be incomplete."""

    observed: tuple[LayerObservations, ...]
    layers: tuple[LayerEstimate, ...]

    @property
    def done(self) -> bool:
        return bool(self.layers) and self.layers[-1].readout is not None and not self.layers[-1].failure

    @property
    def top_space(self) -> FeatureSpace:
        """The feature space above all layers."""
        space = self.observed[0].space
        for layer in self.layers:
            space = space.with_layer(layer.weights, layer.biases, layer.sd)
        return space

    @property
    def parameters(self) -> DeepParameters:
        """The network, once it is done."""
        last = self.layers[-1]
        assert last.readout is not None and last.offset is not None
        return DeepParameters(tuple((layer.weights, layer.biases) for layer in self.layers), last.readout, last.offset)


@dataclass(frozen=True, eq=False)
class DeepReader:
    """Reads layer after layer."""

    context: QueryContext
    depth: int
    spread: float

    def context_above(self, state: DeepState) -> QueryContext:
        """The context, its rounding that of the steepest gradient that was measured: where all units of the lowest layer are on,
        answers are sums of more terms than on the line on which rounding was measured."""
        measured = state.observed[0].gradients
        steepest = max((float(np.linalg.norm(g.values, axis=0).max()) for g in accurate_gradients(measured)), default=0.0)
        rounding = self.context.rounding
        return self.context._replace(rounding=replace(rounding, steepness=max(rounding.steepness, steepest)))

    def read(self, state: DeepState) -> DeepReadResult:
        """Layers, the joint fit, and fresh answers; then lines through answers that contradict, until none does."""
        fitted, fresh, failure, assured = None, np.empty(0), "", Assured()
        try:
            for _ in range(DEEP.max_returns):
                for further in self._add_layers(state):
                    state = further
                if not state.done:
                    break
                checked = NetworkChecker(self.context_above(state), self.spread).check(state.parameters, state.layers)
                fitted, fresh, targets, assured = checked
                failure = f"{int((fresh > 1.0).sum())} of {len(fresh)} fresh answers are not predicted" if len(targets) else ""
                if not len(targets):
                    break
                returned = self._return_to_lines(state, targets)
                if returned is None:
                    break
                state = returned
        except BudgetExhausted as error:
            state = state if state.layers else _begun_state(error)
            if not state.layers or (state.layers[0].failure and not len(state.layers[0].weights)):
                raise
            return self._as_result(state, None, fresh, f"the budget ended: {error.seen}", ended=True)
        return replace(self._as_result(state, fitted, fresh, failure), assured=Assured() if failure else assured)

    def _add_layers(self, state: DeepState) -> Iterator[DeepState]:
        """Add layers until one is the last, or incomplete; every state on the way, so that an ended budget loses nothing."""
        while not state.done and len(state.layers) < self.depth and not (state.layers and state.layers[-1].failure):
            if len(state.observed) == len(state.layers):
                state = replace(state, observed=(*state.observed, LayerObservations(state.top_space)))
            reader = replace(self, context=self.context_above(state)) if state.layers else self
            try:
                layer = reader._read_layer(state.observed[-1])
            except NotSeparated as error:
                layer = replace(estimate_layer(state.observed[-1]), failure=error.seen)
            state = DeepState((*state.observed[:-1], layer.observed), (*state.layers, layer))
            yield state

    def _read_layer(self, observed: LayerObservations) -> LayerEstimate:
        level, fine = len(observed.space.layers), self.context.rounding.fine
        fewest = observed.lines + level * observed.space.width * (observed.lines == 0)
        most = fewest + DEEP.max_extra_lines
        while True:
            quiet_enough = DEEP.quiet_before_choice <= observed.quiet < DEEP.quiet_before_always_active
            every = level == 1 and quiet_enough and observed.lines >= fewest
            doubt = level == 0 and fine and observed.quiet >= DEEP.quiet_lines[0]  # lines meet every unit, and one is missing
            try:
                observed = follow_line(
                    self.context, observed, self._next_line(observed, fewest), all_gradients=every, doubt=doubt)
            except BudgetExhausted as error:
                error.values.setdefault("observed", observed)
                raise
            layer, enough = estimate_layer(observed), observed.lines >= fewest
            if layer.failure and level == 0 and fine:
                layer = _lowest_without_false_units(observed)
                observed = layer.observed
            if layer.failure and level == 1 and observed.quiet >= DEEP.quiet_before_always_active and enough:
                layer = layer_with_always_active_unit(observed) or layer
            quiet = DEEP.quiet_lines[level] if fine or level else _quiet_lines_of_coarse(observed)
            settled = enough and observed.quiet >= quiet
            if layer.failure and level == 1 and observed.quiet and observed.quiet % DEEP.quiet_before_choice == 0 and enough:
                layer = choose_units(observed) or layer
            if layer.failure and settled and level == 1 and len(observed.known) > observed.space.width:
                layer = read_wide_last_layer(observed) or layer
            if (settled and not layer.failure) or _is_too_wide(observed, settled=settled) or _is_left_to_folds(observed, most):
                return layer if fine or level else estimate_layer(without_unshown(observed))

    def _next_line(self, observed: LayerObservations, fewest: int) -> Line:
        """The space's own next line; beyond the fewest, every other one crosses a surface with one unknown side."""
        rng = self.context.rng
        one_sided = one_sided_surfaces(observed) if observed.lines >= fewest and observed.lines % 2 else ()
        if not one_sided and not observed.space.layers and not self.context.rounding.fine:
            return usable_line(self.context.queries, observed.space.width, self.spread, rng=rng)
        if not one_sided:
            return observed.space.line(observed.lines, rng)
        return line_across(observed.space, one_sided[rng.integers(len(one_sided))], rng)

    def _return_to_lines(self, state: DeepState, targets: Array) -> DeepState | None:
        """Lines through inputs that were not predicted, from the highest layer down, until a unit is found."""
        for level in range(len(state.layers) - 1, -1, -1):
            observed = state.observed[level]
            for x in targets:
                line = _line_to(observed.space, x, self.context.rng)
                further = follow_line(self.context, observed, line, all_gradients=level == 1)
                if len(further.known) > len(observed.known) or _is_contradicted(state.layers[level], further):
                    return DeepState((*state.observed[:level], further), state.layers[:level])
                observed = further
        return None

    def _as_result(
        self, state: DeepState, fitted: DeepFit | None, fresh: Array, failure: str, *, ended: bool = False
    ) -> DeepReadResult:
        layers, (queries, rounding, _) = state.layers, self.context
        spent = dict(queries.spent)
        worst = max((float(layer.sd.max(initial=0.0)) for layer in layers), default=np.inf)
        if fitted is not None:
            bar = fitted.error_bar if np.isfinite(fitted.error_bar) else worst
            network = _as_network(fitted.parameters)
            return DeepReadResult(network, layers, not failure, failure, rounding, spent, fitted.rms, fresh, bar, ended)
        last = layers[-1]
        if last.failure:
            failure = f"layer {len(layers)}: {last.failure}"
        elif not failure:
            failure = f"there are more layers than the {len(layers)} that were read"
        known = [layer for layer in layers if not layer.failure]
        network = _under_black_box(known, queries) if known else _hyperplanes_only(last, queries)
        return DeepReadResult(network, layers, False, failure, rounding, spent, np.nan, fresh, worst, ended)


def _lowest_without_false_units(observed: LayerObservations) -> LayerEstimate:
    """The lowest layer without surfaces that the lines do not show; once these are quiet, of those that explain all gradients."""
    if len(observed.known) <= observed.space.width:
        observed = with_unshown_refused(observed)
    layer = estimate_layer(observed)
    if layer.failure and observed.quiet in (DEEP.quiet_lines[0], DEEP.quiet_before_choice):
        layer = choose_lowest_units(observed) or layer
    return layer


def _begun_state(error: BudgetExhausted) -> DeepState:
    """The lowest layer as far as lines have shown it before the budget ended; no layer if they have not."""
    observed = error.values.get("observed")
    if not isinstance(observed, LayerObservations) or observed.space.layers or not observed.known:
        return DeepState((), ())
    layer = layer_without_sides(observed, observed.known)
    failure = (
        f"it is not complete, and the budget ended: {error.seen.rstrip('.')}; four times as many, for instance, show more of it, "
        "and the same model in float64 takes fewer")
    return DeepState((observed,), (replace(layer, failure=failure),))


def _is_contradicted(layer: LayerEstimate, further: LayerObservations) -> bool:
    """Whether further gradients show that a known surface which was left out of the layer is one of its units."""
    left_out = len(layer.biases) - layer.always_active < len(further.known)
    return left_out and not layer.always_active and bool(decide_sides(replace(layer, observed=further)).failure)


def _line_to(space: FeatureSpace, x: Array, rng: Generator) -> Line:
    """A line of the space through the features of an input, as near to them as the boundaries allow."""
    if space.layers:
        h, margins = x, []
        for weights, biases in space.layers:
            h = np.maximum(h @ weights.T + biases, DEEP.boundary_distance * space.spread)
            margins.append(h)
        x = space.input_with_margins(np.concatenate(margins), rng)
    start = space.random_point(rng)
    return space.line_through(start, x - start, float(np.linalg.norm(x - start)))


def _quiet_lines_of_coarse(observed: LayerObservations) -> int:
    """Quiet lines that end a layer: of crowded ones twice as many, as a unit is located when a second one meets it."""
    return HYPERPLANE.quiet_lines * (2 if observed.once else 1)


def _is_left_to_folds(observed: LayerObservations, most: int) -> bool:
    """Whether no more lines are laid: all were, or most surfaces are of layers above, and have to be followed anyway."""
    deeper = bool(observed.space.layers) and len(observed.curved) > len(observed.known)
    return observed.lines >= most or (deeper and observed.quiet >= DEEP.quiet_before_choice)


def _is_too_wide(observed: LayerObservations, *, settled: bool) -> bool:
    """Whether a layer has more units than inputs, and all of its hyperplanes were met.

    If nothing lies above, the lowest layer is read by `read_network`, and the signs of the second may still be decided.
    """
    if len(observed.hyperplanes) <= observed.space.width:
        return False
    if observed.curved or observed.once:
        return settled
    return not observed.space.layers or observed.quiet >= DEEP.quiet_before_always_active


def _as_network(deep: DeepParameters) -> Network:
    layers = [Layer(weights, biases) for weights, biases in deep.layers]
    if deep.readout.shape[1] == 1:
        return Network(layers, deep.readout[:, 0], float(deep.offset[0]))
    return Network(layers, deep.readout, deep.offset)


def _no_readout(layer: LayerEstimate, queries: QueryCounter) -> Array:
    width, outputs = len(layer.weights), next(block.y.shape[1] for block in queries.answers())
    return np.zeros(width) if outputs == 1 else np.zeros((width, outputs))


def _under_black_box(known: list[LayerEstimate], queries: QueryCounter) -> Network:
    """The complete layers, with the black box on top."""
    layers = tuple((layer.weights, layer.biases) for layer in known)
    readout = _no_readout(known[-1], queries)
    return Network([Layer(*layer) for layer in layers], readout, top=RemainingBlackBox(layers, queries))


def _hyperplanes_only(layer: LayerEstimate, queries: QueryCounter) -> Network:
    """The hyperplanes of the lowest layer, with unknown active sides and no readout."""
    if not len(layer.weights):
        raise NotSeparated(
            f"{layer.observed.lines} lines have met no hyperplane on which the answers bend.",
            "Either the function is linear, or all of its units are hidden by what lies above.", "Use a method for samples.")
    return Network(Layer(layer.weights, layer.biases), _no_readout(layer, queries))
