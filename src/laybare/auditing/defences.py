"""Defences, applied to the answers of the model itself: what an outsider would see if they were in place.

    round:3       answers rounded to three decimals
    float32       answers in single precision; float16: in half precision
    label         the likeliest class alone
    noise:0.01    normal noise, drawn anew for every answer, of a hundredth of the spread of the answers
    cap:100       at most so many queries a day: the answers stay as they are, and time passes

The copy is judged by what the model answers without the defence: that is what is worth stealing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.auditing.copy_error import CheckRows, classes_of, spread_of
from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array

STANDARD = ("round:6", "round:4", "round:3", "round:2", "float32", "float16", "noise:0.01", "label", "cap:100")
"""The defences that are measured unless others are named. Convention: what interfaces of models do."""

DEEPEST_ROUNDING = 15
"""Decimals at most. Derived: float64 has no more of numbers near 1."""


@dataclass(frozen=True)
class Defence:
    """A defence by its name; `size` is decimals, relative noise or queries a day."""

    name: str
    form: str
    size: float = 0.0

    @property
    def description(self) -> str:
        """In words."""
        return {
            "round": f"answers rounded to {self.size:.0f} decimal{'s' * (self.size != 1)}",
            "float32": "answers in single precision",
            "float16": "answers in half precision", "label": "the likeliest class only",
            "noise": f"fresh noise of {self.size:g} of the spread of the answers",
            "cap": f"at most {self.size:,.0f} queries a day"}[self.form]

    @property
    def daily(self) -> int | None:
        """Queries a day, if that is what it limits."""
        return int(self.size) if self.form == "cap" else None

    def applies(self, kind: str) -> bool:
        """Whether there is anything to hide in answers of this kind."""
        return kind == "probabilities" if self.form == "label" else kind != "labels" or self.form == "cap"

    def kind(self, kind: str) -> str:
        """The kind of the answers behind it."""
        return "labels" if self.form == "label" else kind

    def guard(self, ask: Callable[[Array], Array], check: CheckRows, rng: Generator) -> Callable[[Array], Array]:
        """The black box behind the defence."""
        spread = spread_of(check.answers)

        def answer(x: Array) -> Array:
            return self._changed(np.asarray(ask(x), dtype=float), spread, check.kind, rng)

        return answer

    def _changed(self, y: Array, spread: float, kind: str, rng: Generator) -> Array:
        if self.form == "round":
            return np.asarray(np.round(y, int(self.size)))
        if self.form in ("float32", "float16"):
            return y.astype(self.form).astype(float)
        if self.form == "label":
            return classes_of(y)[:, None].astype(float)
        if self.form == "noise":
            return _as_answers(y + self.size * spread * rng.standard_normal(y.shape), kind)
        return y


def _as_answers(y: Array, kind: str) -> Array:
    """Probabilities stay probabilities: inside of 0 and 1, and those of several classes sum to one."""
    if kind != "probabilities":
        return y
    p = np.clip(y, 0.0, 1.0)
    total = p.sum(axis=1, keepdims=True)
    return p if y.shape[1] == 1 else np.asarray(p / np.where(total > 0.0, total, 1.0))


def parse_defence(text: str) -> Defence:
    """'round:3' -> Defence; raises InvalidInput for what is none."""
    form, _, size = str(text).strip().partition(":")
    limits = {"round": (0.0, float(DEEPEST_ROUNDING)), "noise": (0.0, 10.0), "cap": (1.0, 1e12)}
    try:
        if form in ("float32", "float16", "label") and not size:
            return Defence(form, form)
        low, high = limits[form]
        number = float(size)
        if not low <= number <= high or (form != "noise" and number != round(number)):
            raise ValueError
    except (KeyError, ValueError):
        raise InvalidInput(
            f"The defence is {text!r}.", "It must be one that can be put before the model.",
            "Give round:DECIMALS, float32, float16, label, noise:SIZE or cap:QUERIES, such as round:3.") from None
    return Defence(f"{form}:{number:g}" if form == "noise" else f"{form}:{number:.0f}", form, number)
