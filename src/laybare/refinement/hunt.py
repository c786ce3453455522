"""What does not change during an over-wide search: the rows, the model, how hard to look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.damping import Effort, Trace
from laybare.errors import TooFewSamples
from laybare.levels import SOLVED_LOSS
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import CHEAP, minimise
from laybare.refinement.normal import Model, Point
from laybare.refinement.pruning import parameter_count, prune
from laybare.shapes import Array, Progress
from laybare.source import Source

COARSE, COARSE_ROUGH = 1.0, 0.3
"""Where steps are dear, runs with noise end earlier (`Effort.settled` and `rough`, times the width: a share of what a unit is
worth), since all rows come later."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How hard to look: `spares` None means max(2, 15 % of the width); `hops` repairs after the first run, and up
    to three times as many where these are quick and noise leaves it open which run is the best.

    `peel` takes half of the redrawn units from the moments of the residual (Gaussian inputs) instead of at random. `laybare
    reproduce overwide` prints both; it was no better, so it is off.
    """

    spares: int | None = None
    hops: int = 8
    peel: bool = False
    bias_scale: float = 0.5
    effort: Effort = Effort()

    def extra(self, width: int) -> int:
        return self.spares if self.spares is not None else max(2, -(-15 * width // 100))


class Hunt(NamedTuple):
    """One search: its source, model and efforts."""

    source: Source
    model: Model
    search: Search
    scale: float
    rng: Generator
    progress: Progress | None

    @property
    def equations(self) -> int:
        return self.source.size * self.source.outputs

    def minimise(self, start: Point, floor: float = 0.0) -> Refined:
        effort = self.effort(start)
        return minimise(
            self.source, start, self.scale, effort=replace(effort, floor=max(effort.floor, floor)), progress=self.progress)

    def prune(self, found: Refined, width: int | None) -> Refined:
        return prune(self.source, found, self.scale, width=width, effort=self.effort(found.point), progress=self.progress)

    def pruned(self, found: Refined, width: int | None) -> Refined:
        """The same, with the steps that it took and none before."""
        return self.prune(found._replace(trace=Trace(found.trace.rows[-1:], found.trace.reason)), width)

    def work(self, point: Point) -> float:
        """n·P²: of one step at that width."""
        return self.source.size * float(parameter_count(point)) ** 2

    def dear(self, point: Point) -> bool:
        """Whether a step at that width takes more than some milliseconds."""
        return self.work(point) >= CHEAP

    def effort(self, point: Point) -> Effort:
        """Of one run."""
        effort = self.search.effort
        if not self.dear(point):
            return effort
        settled, rough = (min(0.1 * share, share / point.width) for share in (COARSE, COARSE_ROUGH))
        return replace(effort, settled=max(effort.settled, settled), rough=max(effort.rough, rough))

    def solved(self, found: Refined, floor: float = 0.0) -> bool:
        return found.loss <= max(SOLVED_LOSS, floor) * self.scale

    def random(self, count: int) -> Array:
        return random_units(count, self.source.dim, self.search.bias_scale if self.model.biases else None, self.rng)

    def start(self, units: Array) -> Point:
        return self.model.start(units, self.source.outputs)

    def wide(self, width: int) -> int:
        """With spares, as many as the samples allow."""
        return min(width + self.search.extra(width), self.largest_width())

    def numbers(self, width: int) -> int:
        """Free numbers at a width."""
        return parameter_count(self.start(np.zeros((width, self.source.dim + self.model.biases))))

    def largest_width(self) -> int:
        """Largest width that leaves at least a sixth of the equations over."""
        one, two = self.numbers(1), self.numbers(2)
        return int((self.equations / 1.2 - (2 * one - two)) // (two - one))

    def check_width(self, width: int) -> None:
        limit = self.largest_width()
        if limit < width:
            raise TooFewSamples(
                f"{self.source.size:,} samples for width {width} in dimension {self.source.dim}.",
                f"The network has more free numbers than that leaves to check: at most width {limit} could be told from noise.",
                f"About {int(3 * self.source.size * width / max(limit, 1)):,} samples would do, or ask for a smaller width.",
                samples=self.source.size, width=width, largest_width=limit)


def random_units(count: int, dim: int, bias_scale: float | None, rng: Generator) -> Array:
    """Unit rows in random directions for whitened inputs, with Gaussian biases unless `bias_scale` is None."""
    rows = rng.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows if bias_scale is None else np.column_stack([rows, bias_scale * rng.standard_normal(count)])
