"""A black box with many outputs as one function on lines, with the error of every answer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.shapes import Array
from laybare.source import Oracle, Rounding
from laybare.source.links import Identity, Link, Logit

SLACK = 64.0
"""Answers that differ by less than so many standard deviations of rounding agree: sums inside a network add up a few."""


class ProbeLine(NamedTuple):
    """All point + t * direction."""

    point: Array
    direction: Array

    def at(self, t: Array) -> Array:
        """Points (n, dim)."""
        return np.asarray(self.point + np.asarray(t)[..., None] * self.direction)


class Heard(NamedTuple):
    """Values (n,) of the function and how far they may be off, (n,); NaN where there is no usable answer."""

    y: Array
    slack: Array


class Enough(Exception):
    """The queries of a look are used up: what has been seen must do."""


class Probe:
    """Asks an oracle, until it has spent `most`, and adds outputs up with random weights: what bends in one bends in the sum.

    Answers go through a `link` first, if one is given. No point is paid for twice.
    """

    def __init__(self, oracle: Oracle, rounding: Rounding, most: int, rng: Generator, link: Link = Identity()) -> None:
        self.oracle, self.rounding, self.most, self.link = oracle, rounding, most, link
        self.low, self.high = np.inf, -np.inf  # of all answers, before the link
        outputs = oracle.outputs
        self.weights = np.ones(1) if outputs == 1 else rng.uniform(0.5, 1.5, outputs) * rng.choice([-1.0, 1.0], outputs)

    def __call__(self, x: Array) -> Heard:
        """Values at points (n, dim)."""
        if self.oracle.spent + len(x) > self.most:
            raise Enough
        given = self.oracle.ask(x, gaps=True, reuse=True)
        self.low, self.high = min(self.low, float(np.min(given))), max(self.high, float(np.max(given)))
        y = self.link(given)
        return Heard(y @ self.weights, SLACK * self.rounding.level(y) @ np.abs(self.weights))

    def as_log_odds(self, rng: Generator) -> Probe:
        """The same black box, its answers taken as probabilities."""
        return Probe(self.oracle, replace(self.rounding, log_odds=True), self.most, rng, Logit())

    def line(self, line: ProbeLine, t: Array) -> Heard:
        """Values on a line."""
        return self(line.at(t))
