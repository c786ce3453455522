"""Lines: a piecewise linear network read out of a black box, at about one query per parameter; and what its certificate claims.

Nothing in the certificate needs the truth. That no unit of a single layer is missing is a statistical statement: all kinks of the
last lines, through random points, were predicted, and so were answers at random points that nothing else had used. A layer of a
deep network is complete if every measured gradient is a combination of its rows that vanishes where they are inactive; a deep
network, if it predicts fresh answers. Neither test sees a unit that was inactive wherever anything was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, as_activation, relu
from laybare.certificate import Assurance, Certificate, Claim, ClaimName, StandardErrors
from laybare.errors import InvalidInput
from laybare.lines.assurance import AssuranceOptions, AssurancePlan, answers_for
from laybare.lines.folds import FoldsResult, GivenLayer, LayerReport, read_coarse, read_folds
from laybare.lines.layer import LayerEstimate
from laybare.lines.model_fit import FIT
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import DeepReadResult, ReadResult, read_deep, read_network
from laybare.lines.single_layer import DepthCheck, Patience, ReaderOptions
from laybare.lines.surfaces import Surface
from laybare.methods.start import Start
from laybare.networks import Network, compare
from laybare.numerics.checks import check_fields, show_choices
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Oracle, Rounding, Source
from laybare.source.oracle.repeats import reserved_queries

MAX_ERROR_BAR = 1e-2
"""Relative error bar beyond which a weight is not known: a hundredth of its row's length.
Checked by `laybare reproduce deep-cases`."""


MAX_FOLDED_LAYERS = 12
"""Layers that are read if the depth is not given. Checked by `pytest tests/lines/test_folds.py`."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Hidden layers of ReLU-like units from queries at chosen points.

    On a line through the input space every unit bends the outputs exactly once, and the gradient jumps there by its weights times
    its readout: (width + 1)(dim + 1) queries for as many unknowns, and a few per unit to find the kinks. Further lines must show
    nothing new; Gauss-Newton on all answers gives the last digits. Needs a black box that answers without noise and is piecewise
    linear: anything else is recognised within a hundred queries and refused with the reason.

    With depth=None (or more than 1) layers are read from the lowest up. Kinks of the lowest layer stay on their hyperplanes far
    away; what lies above the first one is a black box of its features (`laybare.lines.read`). Above the second, and where a layer
    is wider than its input, surfaces of units are followed across their folds (`laybare.lines.folds`), up to the second layer if
    answers are coarser than float64. ReLU units, no box.
    What cannot be read is in the certificate, and every layer that was read is a result.

    Parameters
    ----------
    depth : int or None
        The largest number of hidden layers; None: any number.
    activation : Activation or None
        relu, leaky_relu(slope) or absolute; None: determined from the answers.
    precision : float, optional
        Wanted accuracy of weights and biases; by default what the answers allow, down to about 1e-10.
    spread : float
        Scale of the inputs at which the network is used.
    patience : Patience, optional
        How many lines must show nothing new.
    assurance : AssuranceOptions
        How many fresh answers the network must predict after it is read, as far as the budget goes.

    References
    ----------
    Milli et al. (2019), Jagielski et al. (2020), Rolnick and Kording (2020), Carlini, Jagielski and Mironov (2020) for kinks and
    jumps; the economy of queries is ours (see `laybare.lines`).
    """

    depth: int | None = 1
    activation: Activation | None = relu
    precision: float | None = None
    spread: float = 1.0
    patience: Patience | None = None
    assurance: AssuranceOptions = AssuranceOptions()

    biases: ClassVar[bool] = True  # Units have them.

    __repr__ = show_choices

    def __post_init__(self) -> None:
        if self.activation is not None:
            object.__setattr__(self, "activation", as_activation(self.activation))
        check_fields(self, depth=1)

    @property
    def search(self) -> None:
        """What is read needs no search."""

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """Samples tell lines nothing: `read` asks a black box instead."""
        raise InvalidInput(
            "Lines was given samples.", "It asks a black box at points of its own choice, and samples cannot answer.",
            "Give an Oracle, or use RandomStart() on the samples.")

    def read(
        self, oracle: Oracle, *, depth_check: DepthCheck | None = None, rng: Generator, progress: Progress | None = None
    ) -> ReadResult:
        """The network behind the black box, or as much of it as the budget allows; `depth_check` may refuse it early."""
        check_activation(self.activation)
        report_progress(progress, "lines", oracle.spent, oracle.budget)
        options = ReaderOptions(
            activation=self.activation, precision=self.precision, spread=self.spread, patience=self.patience,
            depth_check=depth_check, resolution=oracle.resolution)
        box = None if oracle.box is None else (oracle.box.low, oracle.box.high)
        return read_network(
            partial(oracle.ask, gaps=True), oracle.dim, options, budget=_budget_of_reading(oracle), box=box,
            purpose=oracle.purpose, assurance=self.plan(oracle), rng=rng)

    def read_deep(
        self, oracle: Oracle, *, located: tuple[Surface, ...] = (), rng: Generator, progress: Progress | None = None
    ) -> DeepReadResult:
        """The layers behind the black box, from the lowest up; of the lowest an earlier search has `located` hyperplanes."""
        _check_deep(self, oracle)
        report_progress(progress, "lines", oracle.spent, oracle.budget)
        return read_deep(
            partial(oracle.ask, gaps=True), oracle.dim, depth=self.depth, budget=_budget_of_reading(oracle), spread=self.spread,
            purpose=oracle.purpose, resolution=oracle.resolution, located=located,
            assurance=self.plan(oracle), rng=rng)

    def read_folds(
        self, oracle: Oracle, *, given: tuple[GivenLayer, ...] = (), rng: Generator, progress: Progress | None = None
    ) -> FoldsResult:
        """The layers behind the black box, of any widths, from the surfaces of their units, above `given` ones."""
        _check_deep(self, oracle)
        depth = MAX_FOLDED_LAYERS if self.depth is None else self.depth
        return read_folds(
            oracle.ask, oracle.dim, scale=self.spread, depth=depth, budget=_budget_of_reading(oracle), purpose=oracle.purpose,
            given=given, progress=progress, rng=rng)

    def read_coarse(
        self, oracle: Oracle, below: DeepReadResult, *, rng: Generator, progress: Progress | None = None
    ) -> FoldsResult:
        """What lies above the lowest layer, from answers that are coarser than float64."""
        _check_deep(self, oracle)
        lowest = below.layers[0]
        queries = QueryCounter(
            partial(oracle.ask, gaps=True), budget=_budget_of_reading(oracle), purpose=oracle.purpose,
            resolution=oracle.resolution, assurance=self.plan(oracle))
        return read_coarse(
            QueryContext(queries, below.rounding, rng), GivenLayer(lowest.weights, lowest.biases), lowest.sd, scale=self.spread,
            progress=progress)

    def plan(self, oracle: Oracle) -> AssurancePlan:
        """Where fresh answers are asked: not where earlier readings have asked them."""
        return AssurancePlan(self.assurance, oracle.fresh_inputs, oracle.queries.get("assurance", 0))

    def read_lowest(self, oracle: Oracle, *, rng: Generator, progress: Progress | None = None) -> DeepReadResult:
        """The lowest layer behind the black box."""
        return replace(self, depth=1).read_deep(oracle, rng=rng, progress=progress)


def _budget_of_reading(oracle: Oracle) -> int:
    """What is left, but for the queries that are asked again at the end."""
    return max(0, oracle.budget - oracle.spent - reserved_queries(oracle))


def given_layers(found: DeepReadResult) -> tuple[GivenLayer, ...]:
    """What a reading in feature spaces gives to one that follows surfaces: complete layers, or the lowest one's hyperplanes.

    If fresh answers contradict a network that was read to its end, its last layer may lack units.
    """
    complete = [layer for layer in found.layers if not layer.failure]
    if not complete:
        return tuple(GivenLayer(layer.weights, layer.biases, complete=False) for layer in found.layers[:1])
    given = [GivenLayer(layer.weights, layer.biases, layer.always_active) for layer in complete]
    if complete[-1].readout is not None:
        given[-1] = given[-1]._replace(complete=False)
    return tuple(given)


def lines_apply(activation: Activation | None) -> bool:
    """Whether units of this kind have kinks and are linear elsewhere."""
    return activation is None or (activation.degree == 1 and bool(activation.kinks))


def deep_lines_apply(activation: Activation | None, oracle: Oracle) -> bool:
    """Whether several layers can be read."""
    return activation in (None, relu) and oracle.box is None


def check_activation(activation: Activation | None) -> None:
    """Refuse units without kinks."""
    if not lines_apply(activation):
        raise InvalidInput(
            f"The activation is {activation.name if activation is not None else None}.",
            "Lines show kinks between straight pieces: ReLU, leaky ReLU and the absolute value have them.",
            "Use RandomStart(activation=...) on samples of the black box.")


def _check_deep(method: Lines, oracle: Oracle) -> None:
    if not deep_lines_apply(method.activation, oracle):
        raise InvalidInput(
            f"depth={method.depth} was given, for {method.activation.name if method.activation else 'unknown'} units"
            f"{'' if oracle.box is None else ' in a box'}.",
            "Several layers are read for ReLU units and without a box only.", "Use depth=1, or give no box.")
    if method.depth is not None and method.depth < 1:
        raise InvalidInput(
            f"depth={method.depth} was given.", "A network has at least one hidden layer.", "Give 1 or more, or None.")


def lines_certificate(found: ReadResult, network: Network, width: int | None = None, level: float = 0.05) -> Certificate:
    """Claims about a single layer that was read, with error bars of every parameter of `network`; `width` if it was given."""
    claims = (
        _units_claim(found), *_width_claim(found, width), _quiet_lines_claim(found), _prediction_claim(found),
        _error_bar_claim(ClaimName.UNIT_ERROR_BAR, "a weight, a distance or a relative readout", found), _signs_claim(found))
    errors, noise = error_bars(found.error_bar, network), _rounding_level(found.rounding, network)
    return Certificate(claims, errors, noise, assurance=_assurance(found, level))


def deep_certificate(found: DeepReadResult, network: Network, depth: int | None = None, level: float = 0.05) -> Certificate:
    """Claims about every layer and about the whole; `depth` if it was given."""
    claims = (
        _layers_claim(found), *_depth_claim(found, depth),
        *(layer_claim(layer, level) for level, layer in enumerate(found.layers)), *_sides_claim(found),
        _deep_prediction_claim(found), *_joint_fit_claim(found),
        _error_bar_claim(ClaimName.PARAMETER_ERROR_BAR, "a weight or bias", found))
    errors, noise = error_bars(found.error_bar, network), _rounding_level(found.rounding, network)
    return Certificate(claims, errors, noise, assurance=_assurance(found, level))


def folds_certificate(
    found: FoldsResult, start: Network, network: Network, misfit: float, limit: float, assurance: Assurance | None
) -> Certificate:
    """Claims about a network that was read by the folds of its surfaces, `start` as it was read; `misfit` is the largest of the
    fresh answers."""
    opened = sum(len(report.open) for report in found.reports)
    undecided = sum(report.units for report in found.reports if np.isinf(report.orientation))
    size = "the largest answer" if found.rounding.fine else "what rounding allows"
    claims = (
        Claim(
            ClaimName.LAYERS_READ, float(len(found.layers)), float(len(found.reports)), found.complete, "tested",
            _spent(found.queries) + (f" {found.failure[0].upper()}{found.failure[1:].rstrip('.')}." if found.failure else ""),
            of_answers=True),
        *(_folded_layer_claim(report, level) for level, report in enumerate(found.reports)),
        Claim(
            ClaimName.OPEN_WEIGHTS, float(opened), 0.0, opened == 0, "tested",
            _open_weights_text(found, start, network)),
        *(_undecided_claim(undecided) if undecided else ()),
        *((_error_bar_claim(ClaimName.PARAMETER_ERROR_BAR, "a weight that is determined, relative to its row", found),)
          if np.isfinite(found.error_bar) else ()),
        Claim(
            ClaimName.FRESH_ANSWERS, misfit, limit, misfit <= limit, "tested",
            f"largest difference at points that nothing else used, relative to {size}; a larger one means that a unit "
            f"is missing.{_corners_text(found)}", decisive=found.network is not None and found.rounding.fine, of_answers=True))
    errors, noise = error_bars(found.error_bar, network), _rounding_level(found.rounding, network)
    return Certificate(claims, errors, noise, assurance=assurance)


def _open_weights_text(found: FoldsResult, start: Network, network: Network, most: int = 12) -> str:
    """Which weights may be changed without a change of any answer: by layer, unit and feature, as `network` numbers them; of
    `most` units."""
    if found.network is None:
        return "pairs of a unit and a feature whose surfaces were not seen to meet."
    text = "weights that may be changed, together with others, so that no answer changes."
    if not any(report.open for report in found.reports):
        return text
    places = [{int(one): int(other) for one, other in match.pairs} for match in compare(start, network).layers]
    said = []
    for level, report in enumerate(found.reports):
        below = places[level - 1] if level else {}
        for unit in sorted({unit for unit, _ in report.open}):
            features = [str(below.get(k, k)) for m, k in report.open if m == unit]
            every = len(features) == start.layers[level].weights.shape[1]
            told = "all features" if every else ", ".join(features)
            said.append(f"unit {places[level].get(unit, unit)} of layer {level + 1} from {told}")
    more = f"; and of {len(said) - most} further units" if len(said) > most else ""
    return f"{text} Counted from 0: {'; '.join(said[:most])}{more}."


def _corners_text(found: FoldsResult) -> str:
    asked = found.cornered
    if not asked.asked:
        return ""
    if not asked.every:
        return f" {asked.asked:,} corners of the layers below the last were among them: rare units are on at some."
    return f" All {asked.asked:,} corners of the layer below the last were among them: every unit on within reach is on at one."


def _folded_layer_claim(report: LayerReport, level: int) -> Claim:
    rows = "" if np.isnan(report.closes) else f" Rows are null vectors of features on their surfaces, up to {report.closes:.1e}."
    sides = "" if not np.isfinite(report.orientation) else (
        f" Which side of each is active is one linear system, {report.orientation:.1e} from whole numbers.")
    always = f" {report.always_on} more stand for a part that is always active." if report.always_on else ""
    text = f"{report.lines} lines looked, {report.refused} surfaces belong to other layers.{rows}{sides}{always}"
    return Claim(f"{ClaimName.UNITS_OF_LAYER} {level + 1}", float(report.units), float(report.units), True, "tested", text)


def _assurance(found: ReadResult | DeepReadResult, level: float) -> Assurance | None:
    """What predicted answers show about all inputs of the law; nothing if none was asked, or the network is not whole."""
    return Assurance(level, found.assured.share, found.assured.answers) if found.assured.answers else None


def error_bars(bar: float, network: Network, location: Array | float = 0.0, scale: Array | float = 1.0) -> StandardErrors:
    """The largest error bar of the units, for every parameter of the lowest layer and the readout in proportion to its size.

    Units were read in standard units (x - location) / scale; a row's size is that which it has there.
    """
    w, b = network.layer.weights, np.asarray(network.layer.biases)
    rows = np.linalg.norm(w * scale, axis=1)
    weights: Array = np.asarray(bar * rows[:, None] / np.broadcast_to(scale, w.shape))
    biases = bar * np.maximum(rows, np.abs(b + w @ np.broadcast_to(location, network.dim)))
    size = float(np.abs(network.readout).max(initial=0.0)) * float(rows.max(initial=1.0))
    return StandardErrors(
        weights, np.hypot(biases, np.linalg.norm(weights * location, axis=1)), bar * np.abs(network.readout),
        np.full(np.shape(network.offset), bar * size))


def _rounding_level(rounding: Rounding, network: Network) -> float:
    """The standard deviation of an answer of size 1 at the origin."""
    return float(np.max(rounding.sd(np.zeros((1, network.dim)), np.ones((1, network.outputs)))))


def _spent(queries: dict[str, int]) -> str:
    by_purpose = ", ".join(f"{count:,} for {purpose}" for purpose, count in queries.items())
    return f"{sum(queries.values()):,} queries: {by_purpose}."


def _units_claim(found: ReadResult) -> Claim:
    text = f"{_spent(found.queries)} Units that share a hyperplane and its active side are one: no query tells them apart."
    text = " ".join((text, *(f"{note[0].upper()}{note[1:].rstrip('.')}." for note in found.notes)))
    if found.ended:
        needed = found.needed or 2 * sum(found.queries.values())
        text += f" They ended before the network was complete; about {needed:,} would do."
    elif not found.complete:
        text += " No units explain all answers, and further queries would not change that."
    return Claim(ClaimName.UNITS_READ, float(found.width), float(found.width), found.complete, "tested", text, of_answers=True)


def _width_claim(found: ReadResult, width: int | None) -> tuple[Claim, ...]:
    if width is None:
        return ()
    return (Claim(
        ClaimName.GIVEN_WIDTH, float(found.width), float(width), found.width == width, "tested",
        f"{found.width} units were read, {width} were given. Units on one hyperplane are one, and what never bends is no unit."),)


def _quiet_lines_claim(found: ReadResult) -> Claim:
    return Claim(
        ClaimName.QUIET_LINES, float(found.quiet), 1.0, found.quiet >= 1 or found.assured.answers > 0, "tested",
        f"of {found.lines} lines through random points: the answers at both of their ends were predicted. What adds up to "
        "nothing far away does not show there, but in fresh answers.")


def _prediction_claim(found: ReadResult) -> Claim:
    worst, limit = float(found.fresh.max()) if len(found.fresh) else np.inf, FIT.contradiction_sds
    few, met = _too_few(found), worst <= limit
    return Claim(
        ClaimName.FRESH_ANSWERS, worst, limit, met and not few, "tested",
        f"largest difference at {len(found.fresh)} random points that nothing else used, in standard deviations of rounding and "
        f"of the prediction; a larger one means that something is missing.{few}",
        decisive=not met and len(found.fresh) > 0 and not found.ended, of_answers=True)


def _too_few(found: ReadResult | DeepReadResult) -> str:
    """A sentence if a network that was read could be wrong on most inputs, for all that fresh answers show; else nothing."""
    if not found.complete or found.assured.share <= AssuranceOptions.max_share:
        return ""
    return (
        f" The budget left {found.assured.answers} answers for that, which do not show that most inputs are answered so: grant "
        f"{answers_for(AssuranceOptions.max_share, AssuranceOptions.level)} queries more at least.")


def _error_bar_claim(name: str, parameters: str, found: ReadResult | DeepReadResult | FoldsResult) -> Claim:
    return Claim(
        name, found.error_bar, MAX_ERROR_BAR, bool(found.error_bar < MAX_ERROR_BAR), "tested",
        f"standard deviation of {parameters}; the answers are resolved as {found.rounding.kind}.")


def _signs_claim(found: ReadResult) -> Claim:
    text = "the gradients decide which side of every kink is the active one." if found.signs_unique else (
        "several choices of the active sides give the same function: no query can tell them apart." if found.signs_searched else
        f"which side of a kink is the active one was not looked for: {found.width} units beside {found.network.dim} inputs leave "
        "too many patterns. Hyperplanes, readouts and function are known; a linear part stands for what is open.")
    return Claim(ClaimName.SIGN_PATTERNS, 1.0 if found.signs_unique else 2.0, 1.0, found.signs_unique, "proved", text)


def _known_layers(found: DeepReadResult) -> int:
    return sum(not layer.failure for layer in found.layers)


def _layers_claim(found: DeepReadResult) -> Claim:
    text = _spent(found.queries)
    if found.failure:
        text += f" {found.failure[0].upper()}{found.failure[1:].rstrip('.')}."
    if found.network.top is not None:
        text += " What lies above the layers that are known is the black box itself."
    known, layers = float(_known_layers(found)), float(len(found.layers))
    return Claim(ClaimName.LAYERS_READ, known, layers, found.complete, "tested", text, of_answers=True)


def _depth_claim(found: DeepReadResult, depth: int | None) -> tuple[Claim, ...]:
    if depth is None:
        return ()
    known = _known_layers(found)
    text = f"{known} layers were read, {depth} were given. A layer without a unit that bends is no layer."
    return (Claim(ClaimName.GIVEN_DEPTH, float(known), float(depth), known == depth, "tested", text),)


def layer_claim(layer: LayerEstimate, level: int) -> Claim:
    """What lines have shown about one layer, and what they cannot show."""
    seen = layer.observed
    missing = f" Incomplete: {layer.failure.rstrip('.')}." if layer.failure else ""
    text = (
        f"{_what_is_shown(layer, level)}{_always_active_note(layer)} {seen.lines} lines looked, the last {seen.quiet} brought no "
        f"unit; {len(seen.curved)} kinks belong to layers above.{missing}")
    width = float(len(layer.biases))
    return Claim(f"{ClaimName.UNITS_OF_LAYER} {level + 1}", width, width, not layer.failure, "tested", text)


def _sides_claim(found: DeepReadResult) -> tuple[Claim, ...]:
    undecided = sum(layer.undecided_sides for layer in found.layers)
    return _undecided_claim(undecided) if undecided else ()


def _undecided_claim(undecided: int) -> tuple[Claim, ...]:
    return (Claim(
        ClaimName.UNDECIDED_SIDES, float(undecided), 0.0, False, "tested",
        "relu(z) = relu(-z) + z: beside units that never bend, either side gives the same function with as many units."),)


def _always_active_note(layer: LayerEstimate) -> str:
    count = layer.always_active
    if not count:
        return ""
    stand = "1 unit that never bends stands" if count == 1 else f"{count} units that never bend stand"
    return f" {stand} for an affine map of the features: how many there were, and their biases, no answer tells."


def _what_is_shown(layer: LayerEstimate, level: int) -> str:
    never = "Units that never bend where inputs can reach are part of what lies above"
    if level == 0:
        return "Coefficients of all gradients vanish where a unit is off. A unit that what lies above hides is not seen."
    if level == 1:
        return f"Lines along every feature meet each unit that bends anywhere, unless what lies above hides it. {never}."
    if len(layer.observed.space.layers) == 1:
        return f"Lines went along every feature that inputs can reach alone, and to every weight that was not known. {never}."
    return f"Read where all units below are active; what bends only elsewhere shows in fresh answers alone. {never}."


def _deep_prediction_claim(found: DeepReadResult) -> Claim:
    worst = float(found.fresh.max()) if len(found.fresh) else np.inf
    return Claim(
        ClaimName.FRESH_ANSWERS, worst, 1.0, worst <= 1.0 and not _too_few(found), "tested",
        f"largest difference at {len(found.fresh)} random points that nothing else used, relative to what rounding and error "
        f"bars allow; a larger one means that a unit is missing.{_too_few(found)}", of_answers=True)


def _joint_fit_claim(found: DeepReadResult) -> tuple[Claim, ...]:
    if not np.isfinite(found.rms):
        return ()
    return (Claim(
        ClaimName.JOINT_FIT, found.rms, FIT.contradiction_sds, found.rms <= FIT.contradiction_sds, "tested",
        "root mean square over the answers that all layers together were fitted to, in standard deviations of rounding; where "
        "there are too many parameters for one fit, of rounding and of what their errors make of the answers."),)
