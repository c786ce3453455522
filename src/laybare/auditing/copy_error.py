"""How far a copy answers like the model, with a bound that holds whatever the model is.

Inputs of the model's own kind that no attack saw are answered by the model and by the copy. The differences, relative to the
spread of the answers, are independent draws e of one law. The quantile q of which a share ε of inputs lies above is bounded by
order statistics: of M draws at most j exceed q with probability P(Bin(M, ε) <= j). With the largest j for which that is at most
α, the draw after the j largest is an upper bound of q at level α: exact, at any M, for any law of e. With no miss at all this is
N₁, "wrong on a share of at least ε", rejected by M inputs that are all predicted: (1 - ε)^M <= α. Several copies are judged by
the same inputs: α is divided by their number.
Source: Clopper and Pearson (1934) for shares; David and Nagaraja, Order Statistics, section 7.1, for quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, inf, log, log1p, nan
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, betaincinv

from laybare.errors import TooFewSamples
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What counts as a copy, and how sure an audit is of it."""

    queries: int = 1000  # inputs of the check. Derived: up to three misses are within one per cent, at level .05 over 15 copies.
    share: float = 0.01  # of inputs on which a copy may differ by more. Convention: one per cent.
    level: float = 0.05  # chance that any row claims too much. Convention: 95 % confidence.
    near: float = 0.01  # error of a copy that answers like the model. Convention: one per cent of the spread of the answers.
    exact: float = 1e-6  # error of a copy that is the model. Convention: six digits.


CHECK = CheckOptions()

TIE = 4.0 * float(np.finfo(float).eps)
"""Two probabilities that differ by less are equal. Derived: a sum of exponentials and a quotient round twice each."""


class CopyError(NamedTuple):
    """What a copy gets wrong, relative to the spread of the answers.

    `error` is exceeded at one input in a hundred, between `low` and `high` with 95 % confidence; `rms` is the root mean square;
    `agreement` is the share of inputs with the same class, at least `agreement_low`; NaN where there are no classes.
    """

    error: float = inf
    low: float = inf
    high: float = inf
    rms: float = nan
    agreement: float = nan
    agreement_low: float = nan


NO_COPY = CopyError()


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Inputs x (M, dim) and the answers of the model (M, columns); `kind`: "outputs", "probabilities" or "labels"."""

    x: Array
    answers: Array
    kind: str
    options: CheckOptions = CHECK
    looks: int = 1
    """Copies that are judged; each has its part of the level."""
    spread: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", spread_of(self.answers))

    def check_size(self) -> None:
        """Raise TooFewSamples if no copy could be shown to be one: with M inputs that are all right, (1 - ε)^M <= α."""
        least = ceil(log(self._level) / log1p(-self.options.share))
        if len(self.x) < least:
            gone = self.options.queries - len(self.x)
            without = f", {gone:,} of {self.options.queries:,} had none" if gone > 0 else ""
            raise TooFewSamples(
                f"The check has {len(self.x):,} inputs with an answer{without}.",
                f"To show with {1.0 - self.options.level:.0%} confidence that one of {self.looks} copies is off on at most "
                f"{self.options.share:.0%} of inputs takes {least:,}, all of them right.",
                f"Give check={least:,}, better some more: {CHECK.queries:,} is the default.", least=least)

    def judge(self, copy: Callable[[Array], Array]) -> CopyError:
        """The error of a copy that answers in the same columns."""
        given = np.asarray(copy(self.x), dtype=float).reshape(self.answers.shape)
        if self.kind == "labels":
            same = given[:, 0] == self.answers[:, 0]
            return CopyError(*_share_bounds(~same, self._level), nan, *_agreement(same, self._level))
        off = np.where(np.isfinite(given), np.abs(given - self.answers), inf).max(axis=1) / self.spread
        classes = (nan, nan)
        if self.kind == "probabilities":
            classes = _agreement(same_class(given, self.answers), self._level)
        return CopyError(*quantile_bounds(off, self.options.share, self._level), float(np.sqrt((off**2).mean())), *classes)

    @property
    def _level(self) -> float:
        return self.options.level / self.looks


def spread_of(answers: Array) -> float:
    """Root mean square of the answers about their means, over all columns; 1 if they are constant."""
    return float(np.sqrt(answers.var(axis=0).mean())) or 1.0 if len(answers) else 1.0


def classes_of(answers: Array) -> Array:
    """The likeliest class of every row; one column is the probability of the second of two classes."""
    return np.asarray(answers[:, 0] > 0.5 if answers.shape[1] == 1 else answers.argmax(axis=1))


def same_class(given: Array, answers: Array) -> Array:
    """Whether the class that a copy finds likeliest is one of the likeliest of the model; ties to rounding are ties."""
    both = [np.column_stack([1.0 - p, p]) if p.shape[1] == 1 else p for p in (given, answers)]
    chosen = np.take_along_axis(both[1], both[0].argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(chosen >= both[1].max(axis=1) - TIE)


def quantile_bounds(errors: Array, share: float, level: float) -> tuple[float, float, float]:
    """The quantile with this share above it: its estimate, and bounds at this level, each; infinite with too few errors."""
    ordered, count = np.sort(errors)[::-1], len(errors)
    misses = np.arange(count)
    allowed = misses[bdtr(misses, count, share) <= level]
    beyond = misses[1.0 - bdtr(misses, count, share) <= level]
    high = float(ordered[allowed[-1]]) if len(allowed) else inf
    low = float(ordered[beyond[0]]) if len(beyond) else 0.0
    return float(ordered[min(int(share * count), count - 1)]), low, high


def _share_bounds(misses: Array, level: float) -> tuple[float, float, float]:
    """The share of misses, and its bounds."""
    wrong, count = int(misses.sum()), len(misses)
    low = float(betaincinv(wrong, count - wrong + 1, level)) if wrong else 0.0
    high = float(betaincinv(wrong + 1, count - wrong, 1.0 - level)) if wrong < count else 1.0
    return wrong / count, low, high


def _agreement(same: Array, level: float) -> tuple[float, float]:
    wrong, _, high = _share_bounds(~same, level)
    return 1.0 - wrong, 1.0 - high
