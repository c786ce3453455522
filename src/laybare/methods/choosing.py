"""Which method suits the data: the conditions of each, and the order in which they are tried, with a sentence for each.

A condition holds, fails, or cannot be seen in the data (None). A method fits if none of its conditions fails. The order is what
was measured to work, not what has a theorem. RandomStart with spare units solves most settings and
needs the fewest assumptions, so it is always tried. SymmetricInputs goes before it: for several outputs it wins with few samples.
Moments come after it, for bias-free units in 20 dimensions or more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, as_activation, gelu, relu, softplus, tanh
from laybare.assembly.sign_decoding import absolute_form
from laybare.methods.data_summary import SUMMARY, DataSummary, summarise_data
from laybare.methods.general_relu import GeneralReLU
from laybare.methods.start import Method, RandomStart
from laybare.methods.symmetric_inputs import SymmetricInputs
from laybare.methods.tensor_init import TensorInit
from laybare.numerics.checks import as_generator, check_whole
from laybare.source import Source
from laybare.source.protocol import check_source


@dataclass(frozen=True, kw_only=True)
class ChoiceRules:
    """Shares of equal labels, and dimensions, that decide what is tried."""

    rare_activity: float = 0.5  # equal labels of rarely active units. Derived: the majority that HighThreshold needs.
    max_smooth_ties: float = 0.02  # share of equal labels of smooth units. Checked by `pytest tests/methods/choosing`.
    moments_dim: int = 20  # from which moments beat random directions. Checked by `pytest tests/methods/choosing`.


CHOICE = ChoiceRules()


class Condition(NamedTuple):
    """An assumption, what was seen, and whether it holds; None if the data cannot tell."""

    assumption: str
    seen: str
    holds: bool | None


class Suitability(NamedTuple):
    """A method and its conditions."""

    method: str
    conditions: tuple[Condition, ...]

    @property
    def fits(self) -> bool:
        return all(condition.holds is not False for condition in self.conditions)

    @property
    def sentence(self) -> str:
        """Why, or why not."""
        failed = [f"{one.assumption} fails ({one.seen})" for one in self.conditions if one.holds is False]
        if failed:
            return f"{self.method} does not suit: {'; '.join(failed)}."
        held = [f"{one.assumption} ({one.seen})" for one in self.conditions if one.holds]
        open_ = [one.assumption for one in self.conditions if one.holds is None]
        return f"{self.method} suits: {', '.join(held)}" + (f"; not to be seen: {', '.join(open_)}." if open_ else ".")


def check_suitability(seen: DataSummary, width: int | None, activation: Activation | None) -> tuple[Suitability, ...]:
    """Every method that samples allow, each with its conditions; `width` and `activation` if they are known."""
    normal, symmetric, free = _normal(seen), _symmetric(seen), _bias_free(seen)
    narrow, kinked = _narrow(seen, width), _kinked(activation)
    several, alone = (
        Condition(text, f"{seen.outputs}", holds)
        for text, holds in (("several outputs", seen.outputs > 1), ("one output", seen.outputs == 1)))
    rare = Condition("more than half of the labels equal", f"{seen.constant:.1%} are", seen.constant > CHOICE.rare_activity)
    return (
        Suitability("SymmetricInputs", (several, symmetric, free, kinked, narrow)),
        Suitability("TensorInit", (normal, free, narrow, _moments(seen))),
        Suitability("LandscapeDesign", (normal, free, narrow, alone, _positive(seen))),
        Suitability("GeneralReLU", (normal, _moments(seen))),
        Suitability("RandomStart", (_rows(seen, width),)),
        Suitability("HighThreshold", (rare, normal, narrow)))


def _normal(seen: DataSummary) -> Condition:
    text = (
        f"moments of projections are {seen.normal.size:.2g} off, {seen.normal.sigmas:.1f} standard deviations "
        f"(chance: up to {seen.normal.allowed:.1f})")
    holds = bool(seen.normal.plausible) and (True if seen.normal.decided else None)
    return Condition("normal inputs", text + "; uniform ones may look so" * (holds is None), holds)


def _symmetric(seen: DataSummary) -> Condition:
    claim = seen.symmetric
    if claim is None:
        return Condition("x and -x equally likely", "of no use with one output", None)
    text = f"F = {claim.value:.2f}, chance stays below {claim.threshold:.2f}"
    return Condition("x and -x equally likely", text, bool(claim.passed))


def _bias_free(seen: DataSummary) -> Condition:
    """Order 3 refutes it; nothing proves it, since biases may be small, or cancel."""
    third = seen.orders[2]
    text = f"order 3 holds {third.share:.1%} of y, chance {third.noise:.1%}"
    return Condition("units without biases", text, False if third.seen else None)


def _kinked(activation: Activation | None) -> Condition:
    if activation is None:
        return Condition("ReLU or leaky ReLU", "not given", None)
    fold = absolute_form(activation)
    return Condition("ReLU or leaky ReLU", activation.name, fold is not None and fold.odd + fold.even != 0.0)


def _narrow(seen: DataSummary, width: int | None) -> Condition:
    if width is None:
        return Condition("no more units than inputs", f"dimension {seen.dim}, width not given", None)
    return Condition("no more units than inputs", f"width {width}, dimension {seen.dim}", width <= seen.dim)


def _positive(seen: DataSummary) -> Condition:
    if not seen.positive and not seen.negative:
        return Condition("readouts of one sign", "no eigenvalue of the second moment stands above noise", None)
    return Condition(
        "readouts of one sign", f"{seen.positive} positive and {seen.negative} negative eigenvalues of the second moment",
        not (seen.positive and seen.negative))


def _moments(seen: DataSummary) -> Condition:
    shown = [str(one.order) for one in seen.orders[1:] if one.seen]
    text = f"order{'s' * (len(shown) != 1)} {', '.join(shown)}" if shown else "none does"
    return Condition("moments of orders 2 to 4 carry a signal", text, bool(shown))


def _rows(seen: DataSummary, width: int | None) -> Condition:
    need = 2 * (width or 1) * (seen.dim + 2)
    have = seen.size * seen.outputs
    return Condition("samples", f"{have:,} outputs, {need:,} for {width or 1} unit{'s' * ((width or 1) > 1)}", have >= need)


SMOOTH = (tanh, softplus, gelu)
"""Tried after ReLU where no activation is given. Sigmoid is tanh, scaled and shifted; erf is close to it."""

METHODS: dict[str, Callable[[Activation], Method]] = {
    "SymmetricInputs": lambda unit: SymmetricInputs(activation=unit), "TensorInit": lambda unit: TensorInit(activation=unit),
    "GeneralReLU": lambda unit: GeneralReLU(activation=unit), "RandomStart": lambda unit: RandomStart(activation=unit)}

REASONS = {
    "SymmetricInputs": "with several outputs it needs the fewest samples",
    "TensorInit": f"in {CHOICE.moments_dim} dimensions or more moments find bias-free units that random directions miss",
    "GeneralReLU": "moments may show units that random directions miss",
    "RandomStart": "it assumes nothing about the inputs and solves most settings"}


class Candidate(NamedTuple):
    """A method to try, and why."""

    method: Method
    reason: str


class Choice(NamedTuple):
    """What was seen, what each method would need, and the order to try them in; what to do if all of them are refuted."""

    seen: DataSummary
    table: tuple[Suitability, ...]
    candidates: tuple[Candidate, ...]
    otherwise: str

    def __repr__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """A sentence for every method, those that are tried first."""
        tried = [f"{n}. {one.reason}" for n, one in enumerate(self.candidates, 1)]
        others = {type(one.method).__name__ for one in self.candidates}
        return "\n".join([*tried, *(row.sentence for row in self.table if row.method not in others), self.otherwise])


@np.errstate(all="ignore")
def choose(source: Source, width: int | None = None, activation: Activation | None = None, *, rng: Generator | int = 0) -> Choice:
    """Which methods to try on samples, in which order, and why; a look at up to 20,000 rows."""
    check_source(source)
    rng, activation = as_generator(rng), None if activation is None else as_activation(activation)
    width = None if width is None else check_whole("width", width)
    some = source if source.size <= SUMMARY.max_rows else source.split(SUMMARY.max_rows / source.size, rng=rng).first
    return choose_from_summary(summarise_data(some.whitened().kept(), some, rng=rng), width, activation)


def choose_from_summary(seen: DataSummary, width: int | None, activation: Activation | None) -> Choice:
    """The same for evidence that was gathered already."""
    table = check_suitability(seen, width, activation)
    fitting = {row.method for row in table if row.fits} | {"RandomStart"}
    names = [name for name in _order(seen, activation) if name in fitting]
    unit = activation or relu
    candidates = [Candidate(METHODS[name](unit), f"{name} of {unit.name} units: {REASONS[name]}.") for name in names]
    if activation is None and seen.constant <= CHOICE.max_smooth_ties:
        candidates += [
            Candidate(RandomStart(activation=other), f"RandomStart of {other.name} units: no activation was given, and it may be "
                      "another than ReLU.") for other in SMOOTH]
    return Choice(seen, table, tuple(candidates), _otherwise(seen))


def _order(seen: DataSummary, activation: Activation | None) -> list[str]:
    """Before RandomStart what was measured to win there, after it what may find other minima."""
    shown = activation is None or activation.degree is not None or activation.centre is not None
    moments = shown and seen.dim >= CHOICE.moments_dim
    after = [*(["TensorInit"] if moments else []), *([] if seen.constant > CHOICE.rare_activity else ["GeneralReLU"])]
    return ["SymmetricInputs", "RandomStart", *after]


def _otherwise(seen: DataSummary) -> str:
    if seen.odd:
        return seen.odd
    if seen.constant > CHOICE.rare_activity:
        return (
            f"If all are refuted: {seen.constant:.0%} of the labels are equal, so that the lowest layer may be rarely active "
            "under further layers; recover_layer(source, HighThreshold(activation=...)) finds it alone.")
    return "If all are refuted, the function is most likely no network of one hidden layer, or of other units."
