"""The problem, posed once: rows to fit and rows that nothing sees before the certificate, both white, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, TooFewSamples
from laybare.networks import Network
from laybare.refinement.distinct import different_inputs, row_groups, split_groups
from laybare.refinement.variation import total_variation
from laybare.shapes import Array, Progress, tell
from laybare.source import Affine, Oracle, Source
from laybare.source.protocol import Parts
from laybare.source.rounding import representation
from laybare.source.sums import GRAIN
from laybare.source.whitening import whitening_map

LARGEST, SMALLEST = 1e280, 1e-280
"""Sums of squares that leave room for factors on either side before they overflow or vanish."""

AGAIN, RESERVE = 16, 64
"""Queries that are asked again at the end, if the budget is so many times that."""

LOOKED_AT = 4096
"""Labels that show what all of them were rounded to."""


class Repeats(NamedTuple):
    """Answers to the same inputs (n, outputs): when they were first asked, and towards the end."""

    first: Array
    last: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """What the loop works on.

    Attributes
    ----------
    used, fresh : Source
        White inputs by one map; kept in memory if they fit, else streamed.
    transform : Affine
        From the inputs as they were given to the white ones.
    variation : float
        Sum of squares of the used outputs about their mean: the unit of every relative loss.
    biases : bool
        Whether units have biases.
    distinct : int
        Different inputs among the used rows, which have no exact copies (as many as there are rows if not given).
    rounding : float
        Mean square of the error that the labels' own representation makes: float32, or so many decimals.
    repeats : Repeats or None
        Answers of a black box to its first inputs, and to the same inputs after nearly all others.
    """

    used: Source
    fresh: Source
    transform: Affine
    variation: float
    biases: bool
    distinct: int
    rounding: float
    repeats: Repeats | None = None

    @property
    def rows(self) -> int:
        """All rows, used and fresh."""
        return self.used.size + self.fresh.size

    @property
    def equations(self) -> int:
        """Numbers that are fitted."""
        return self.used.size * self.used.outputs

    def given(self, network: Network) -> Network:
        """A network on white inputs as one on the inputs that were given."""
        return self.transform.pull_back(network)

    def white(self, network: Network) -> Network:
        """A network on the given inputs as one on white inputs."""
        return self.transform.inverse().pull_back(network)


def pose(source: Source, *, biases: bool, rng: Generator, progress: Progress | None = None) -> Problem:
    """Split, whiten, keep, measure the variation: six readings at most, two of them to keep the rows.

    Exact copies of rows are left out, and rows with one input stay on one side of the split. Of the queries that a black box
    is granted, sixteen are spent on asking its first inputs again.
    """
    tell(progress, "reading")
    repeats = _asked_again(source) if isinstance(source, Oracle) else None
    parts, distinct = _split(source, rng)
    return replace(pose_parts(*parts, biases=biases, distinct=distinct), repeats=repeats)


def pose_parts(used: Source, fresh: Source, *, biases: bool, distinct: int | None = None) -> Problem:
    """The same for rows that are split already."""
    transform, law = whitening_map(used, centred=biases), used.law.white()
    white = used.mapped(transform, law).kept()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        variation = total_variation(white)
    _check_variation(variation, white)
    return Problem(
        white, fresh.mapped(transform, law).kept(), transform, variation, biases, distinct or white.size, _label_rounding(white))


def held_out(size: int) -> int:
    """Rows kept for the certificate: a tenth of few, a twentieth of many, never more than 20,000."""
    return max(1, min(20_000, max(size // 20, min(size // 10, 100))))


def _split(source: Source, rng: Generator) -> tuple[Parts, int]:
    """Used and fresh rows, and the number of different inputs among the used ones. Rows that are drawn do not repeat."""
    share = 1.0 - held_out(source.size) / source.size
    if source.exchangeable:
        parts = source.split(share, rng=rng)
        return parts, parts.first.size
    groups = row_groups(source)
    if groups is None:
        parts = source.split(share, rng=rng)
        return parts, parts.first.size
    if groups.inputs < 2:
        raise TooFewSamples(
            f"All {source.size:,} rows have one input.", "A function cannot be seen at a single point.",
            "Give samples at different inputs.", size=source.size)
    parts = split_groups(source, groups, held_out(len(groups.first)), rng=rng)
    return parts, different_inputs(parts.first)


def _asked_again(source: Oracle) -> Repeats | None:
    """The first rows once more, when nearly all others have been answered: the last grain is bought after that.

    Nothing if the budget is small, or spent already.
    """
    if source.size < RESERVE * AGAIN or source.spent + AGAIN > source.budget:
        return None
    first = source.read(0, AGAIN)
    x, y = first.x.copy(), first.y.copy()
    source.ready(0, max(AGAIN, source.size - GRAIN - AGAIN), source.schedule.progress)
    if source.spent + AGAIN > source.budget:
        return None
    return Repeats(y, source.ask(x, purpose="asked again"))


def _label_rounding(source: Source) -> float:
    """Mean square error of labels that were rounded as these are, each error uniform: a third of the largest, squared."""
    labels = source.read(0, min(source.size, LOOKED_AT)).y
    grid = representation(labels)
    return float(np.mean((grid.absolute + grid.relative * np.abs(labels)) ** 2)) / 3.0


def _check_variation(variation: float, source: Source) -> None:
    if not SMALLEST < variation < LARGEST:
        raise InvalidInput(
            f"The squares of the outputs of {source.size:,} rows, about their mean, add up to {variation:.3g}.",
            "Numbers of that size overflow or vanish when they are squared again.",
            "Give the outputs in another unit: divide them by their standard deviation.", variation=variation)
