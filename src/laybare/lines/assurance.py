"""How much of the input space a network that was read may still get wrong.

A black box that repeats itself has no noise: a network is wrong at an input or it is not. If it is wrong on a share ε of inputs,
N inputs drawn from their law are all predicted with probability (1 - ε)^N. So N predicted answers reject every share above

    ε = 1 - α^(1/N)

at level α, exactly, whatever the network is, and at any stopping time, since (1 - ε)^-N is a martingale there. Only the law of
the inputs is assumed. Points between two such inputs are asked as well, since in many dimensions inputs lie far from the
middle, where a function may differ too. They do not count for ε.
Source: Berger (1982) for the rejection of every way to be wrong; Waudby-Smith and Ramdas (2024) for the stopping time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, log1p
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class AssuranceOptions:
    """How many fresh answers a network that was read must predict, as far as the budget goes."""

    level: float = 0.05  # α, the chance of a larger share that goes unseen. Convention: 95 % confidence.
    share: float = 0.01  # ε, the share of wrong inputs to rule out. Convention: one per cent.
    reading_share: float = 0.1  # at least this share of the queries of reading is asked. Convention: ten per cent more.
    inner_share: float = 0.2  # points between two inputs, per input. Checked by `pytest tests/lines/test_assurance.py`.

    def __post_init__(self) -> None:
        if not (0.0 < self.level < 1.0 and 0.0 < self.share < 1.0):
            raise InvalidInput(
                f"The assurance has level {self.level} and share {self.share}.", "Both are probabilities.",
                "Give numbers between 0 and 1, such as assurance=(0.05, 0.01).")

    def count(self, spent: int) -> int:
        """Answers at inputs of the law, after reading took `spent` queries."""
        return max(answers_for(self.share, self.level), ceil(self.reading_share * spent))


class AssurancePlan(NamedTuple):
    """Options, and inputs of the law: `draw(start, count)` gives rows (count, dim) that nothing else asks."""

    options: AssuranceOptions
    draw: Callable[[int, int], Array]

    def points(self, begun: int, spent: int, left: int | None, rng: Generator) -> tuple[Array, int]:
        """Points to ask, those of the law first, and the number of these; `begun` rows of the law were asked before."""
        law = self.options.count(spent)
        if left is not None:
            law = min(law, int(left / (1.0 + self.options.inner_share)))
        x = self.draw(begun, law)
        one, other = (x[rng.integers(0, law, int(self.options.inner_share * law))] for _ in range(2)) if law else (x, x)
        share = rng.random((len(one), 1))
        return np.vstack([x, share * one + (1.0 - share) * other]), law


AssuranceLike: TypeAlias = AssuranceOptions | tuple[float, float] | None


def as_assurance(given: object) -> AssuranceOptions | None:
    """Options, or a pair (level, share); None for the default."""
    if given is None or isinstance(given, AssuranceOptions):
        return given
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(part, float | int) for part in given):
        return AssuranceOptions(level=float(given[0]), share=float(given[1]))
    raise InvalidInput(
        f"assurance={given!r} was given.", "It says how sure a black box that is read must be.",
        "Give (level, share), such as assurance=(0.05, 0.01), or AssuranceOptions(...).")


def answers_for(share: float, level: float) -> int:
    """The number of predicted answers that rejects a share of wrong inputs at a level."""
    return ceil(log(level) / log1p(-share))


def largest_share(answers: int, level: float) -> float:
    """ε, the largest share of wrong inputs that this number of predicted answers does not reject."""
    return 1.0 if answers == 0 else float(-np.expm1(log(level) / answers))
