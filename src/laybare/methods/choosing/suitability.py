"""What each method needs, beside what was seen: the rows of `laybare check`.

A condition holds, fails, or cannot be seen in the data (None). A method fits if none of its conditions fails.
"""

from __future__ import annotations

from typing import NamedTuple

from laybare.activations import Activation
from laybare.assembly.unfold import folding
from laybare.methods.choosing.evidence import Evidence

MOSTLY = 0.5
"""Share of constant labels from which units may be rarely active."""

ROWS_A_WEIGHT = 4
"""Samples a weight of one unit that moments take, for each unit (`methods.tensor_init`: 60 of 60 at 4)."""


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


def suitabilities(seen: Evidence, width: int | None, activation: Activation | None) -> tuple[Suitability, ...]:
    """Every method that samples allow, each with its conditions; `width` and `activation` as far as they are told."""
    normal, symmetric, free = _normal(seen), _symmetric(seen), _bias_free(seen)
    narrow = _narrow(seen, width)
    kinked = _kinked(activation)
    return (
        Suitability("SymmetricInputs", (_several(seen), symmetric, free, kinked, narrow)),
        Suitability("TensorInit", (normal, free, narrow, _moments(seen))),
        Suitability("LandscapeDesign", (normal, free, narrow, _one_output(seen), _positive(seen))),
        Suitability("GeneralReLU", (normal, _moments(seen))),
        Suitability("RandomStart", (_rows(seen, width),)),
        Suitability("HighThreshold", (_rare(seen), normal, narrow)))


def _normal(seen: Evidence) -> Condition:
    text = f"moments of projections are {seen.normal.size:.2g} off, {seen.normal.sigmas:.1f} standard deviations"
    return Condition("normal inputs", text, bool(seen.normal.plausible))


def _symmetric(seen: Evidence) -> Condition:
    claim = seen.symmetric
    if claim is None:
        return Condition("x and -x equally likely", "of no use with one output", None)
    text = f"F = {claim.value:.2f}, chance stays below {claim.threshold:.2f}"
    return Condition("x and -x equally likely", text, bool(claim.passed))


def _bias_free(seen: Evidence) -> Condition:
    third = seen.orders[2]
    return Condition("units without biases", f"order 3 holds {third.share:.1%} of y, chance {third.noise:.1%}", not third.seen)


def _kinked(activation: Activation | None) -> Condition:
    if activation is None:
        return Condition("ReLU or leaky ReLU", "not told", None)
    fold = folding(activation)
    return Condition("ReLU or leaky ReLU", activation.name, fold is not None and fold.odd + fold.even != 0.0)


def _narrow(seen: Evidence, width: int | None) -> Condition:
    if width is None:
        return Condition("no more units than inputs", f"dimension {seen.dim}, width not told", None)
    return Condition("no more units than inputs", f"width {width}, dimension {seen.dim}", width <= seen.dim)


def _several(seen: Evidence) -> Condition:
    return Condition("several outputs", f"{seen.outputs}", seen.outputs > 1)


def _one_output(seen: Evidence) -> Condition:
    return Condition("one output", f"{seen.outputs}", seen.outputs == 1)


def _positive(seen: Evidence) -> Condition:
    if not seen.positive and not seen.negative:
        return Condition("readouts of one sign", "no eigenvalue of the second moment stands above noise", None)
    return Condition(
        "readouts of one sign", f"{seen.positive} positive and {seen.negative} negative eigenvalues of the second moment",
        not (seen.positive and seen.negative))


def _moments(seen: Evidence) -> Condition:
    shown = [str(one.order) for one in seen.orders[1:] if one.seen]
    text = f"orders with a signal: {', '.join(shown) if shown else 'none of 2 to 4'}"
    return Condition("moments of orders 2 to 4 carry a signal", text, bool(shown))


def _rows(seen: Evidence, width: int | None) -> Condition:
    need = 2 * (width or 1) * (seen.dim + 2)
    have = seen.size * seen.outputs
    return Condition("samples", f"{have:,} numbers, {need:,} for {width or 1} unit{'s' * ((width or 1) > 1)}", have >= need)


def _rare(seen: Evidence) -> Condition:
    return Condition("more than half of the labels equal", f"{seen.constant:.1%} are", seen.constant > MOSTLY)
