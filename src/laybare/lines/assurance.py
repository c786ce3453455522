"""How much of the input space a network that was read may still get wrong.

A black box that repeats itself has no noise: a network is wrong at an input or it is not. If it is wrong on a share ε of inputs,
N inputs drawn from their law are all predicted with probability (1 - ε)^N. So N predicted answers reject every share above

    ε = 1 - α^(1/N)

at level α, exactly, whatever the network is, and at any stopping time, since (1 - ε)^-N is a martingale there. Only the law of
the inputs is assumed. A network that fails is replaced by another, which is another chance to pass: the level is spent over these
looks in geometric steps, and only answers that are new count, so that trying again until one passes gains nothing. Points between
two such inputs are asked as well, since in many dimensions inputs lie far from the middle, where a function may differ too. They
do not count for ε.
Source: Berger (1982) for the rejection of every way to be wrong; Waudby-Smith and Ramdas (2024) for the stopping time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log, log1p
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class AssuranceOptions:
    """How many fresh answers a network that was read must predict, as far as the budget goes; for samples how far none of the
    challengers may be ahead."""

    level: float = 0.05  # α, the chance that a larger share, or a better challenger, goes unseen. Convention: 95 % confidence.
    kept_for_later: float = 0.2  # share of α that every look leaves to those after it. Convention: the first has four fifths.
    part_of_level: float = 1.0  # of α that this recovery may spend, with others of the same rows. Derived: all, if it is alone.
    max_share: float = 0.5  # ε from which a network is not called verified. Convention: more right than wrong.
    share: float = 0.01  # ε, the share of wrong inputs to rule out. Convention: one per cent.
    resolution: float = 0.5
    """δ: of samples, what a challenger may be better by, in standard deviations of y. Convention: a quarter of the variance; the
    certificate says what it was."""
    reading_share: float = 0.1  # at least this share of the queries of reading is asked. Convention: ten per cent more.
    inner_share: float = 0.2  # points between two inputs, per input. Checked by `pytest tests/lines/test_assurance.py`.

    def __post_init__(self) -> None:
        if not (0.0 < self.level < 1.0 and 0.0 < self.share < 1.0 and self.resolution > 0.0):
            raise InvalidInput(
                f"The assurance has level {self.level}, share {self.share} and resolution {self.resolution}.",
                "The first two are probabilities, the third is positive.",
                "Give numbers between 0 and 1, such as assurance=(0.05, 0.01, 0.1).")

    def count(self, spent: int, begun: int = 0) -> int:
        """Answers at inputs of the law, after reading took `spent` queries and earlier looks `begun` answers."""
        return max(answers_for(self.share, self.level_after(begun)), ceil(self.reading_share * spent))

    def level_after(self, begun: int) -> float:
        """What is spent of α by a look that follows `begun` answers of earlier ones.

        A look has at least as many answers as the first, or it is the last that the budget allows, so that the levels of all
        looks add up to α at most.
        """
        return self.level_of_look(begun / answers_for(self.share, self.level_of_look(0.0)))

    def level_of_look(self, before: float) -> float:
        """What a look spends of α after this number of others at the same data: of all looks together at most α."""
        return float(self.part_of_level * (1.0 - self.kept_for_later) * self.level * self.kept_for_later**before)

    def of_recovery(self, before: int) -> AssuranceOptions:
        """The same for a recovery after this number of others of the same rows: of all of them together at most α."""
        return replace(self, part_of_level=(1.0 - self.kept_for_later) * self.kept_for_later**before)


class Assured(NamedTuple):
    """The number of fresh answers at inputs of the law, all of them predicted, and the share ε that they do not rule out."""

    answers: int = 0
    share: float = 1.0


class FreshPoints(NamedTuple):
    """Points (n, dim) to ask, the first `of_law` of them inputs of the law, and the level of this look."""

    x: Array
    of_law: int
    level: float

    def assured(self, answers: int | None = None) -> Assured:
        """What it shows if all are predicted, or this number of those of the law where some had no usable answer."""
        count = self.of_law if answers is None else answers
        return Assured(count, largest_share(count, self.level))


class AssurancePlan(NamedTuple):
    """Options, and inputs of the law: `draw(start, count)` gives rows (count, dim) that nothing else asks.

    `begun` answers were asked by readings before this one.
    """

    options: AssuranceOptions
    draw: Callable[[int, int], Array]
    begun: int = 0

    def points(self, begun: int, spent: int, left: int | None, rng: Generator) -> FreshPoints:
        """Points to ask; this reading has asked `begun` such points before, and `spent` others."""
        begun += self.begun
        law = self.options.count(spent, begun)
        if left is not None:
            law = min(law, int(left / (1.0 + self.options.inner_share)))
        x = self.draw(begun, law)
        one, other = (x[rng.integers(0, law, int(self.options.inner_share * law))] for _ in range(2)) if law else (x, x)
        share = rng.random((len(one), 1))
        return FreshPoints(np.vstack([x, share * one + (1.0 - share) * other]), law, self.options.level_after(begun))


AssuranceLike: TypeAlias = AssuranceOptions | tuple[float, float] | tuple[float, float, float] | None


def as_assurance(given: object) -> AssuranceOptions | None:
    """Options, or (level, share) or (level, share, resolution); None for the default."""
    if given is None or isinstance(given, AssuranceOptions):
        return given
    if isinstance(given, tuple | list) and len(given) in (2, 3) and all(isinstance(part, float | int) for part in given):
        names = ("level", "share", "resolution")
        return AssuranceOptions(**{name: float(part) for name, part in zip(names, given, strict=False)})
    raise InvalidInput(
        f"assurance={given!r} was given.", "It says how sure a certificate must be.",
        "Give (level, share), such as assurance=(0.05, 0.01), (level, share, resolution), or AssuranceOptions(...).")


def answers_for(share: float, level: float) -> int:
    """The number of predicted answers that rejects a share of wrong inputs at a level."""
    return ceil(log(level) / log1p(-share))


def largest_share(answers: int, level: float) -> float:
    """ε, the largest share of wrong inputs that this number of predicted answers does not reject."""
    return 1.0 if answers == 0 else float(-np.expm1(log(level) / answers))
