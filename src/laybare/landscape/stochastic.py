"""Stochastic gradients with fresh samples at every step, projected onto the domain: how the paper optimises.

A stream gives one objective per step, each on samples of its own. The average over a batch is an unbiased gradient of the
population objective (of F's too: its penalty is a U-statistic).
Source: Ge, Lee & Ma (2018), section 4 and Corollary 2.4; steps, μ, λ and start are not stated there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput, TooFewSamples
from laybare.landscape.objective import Objective
from laybare.shapes import Array
from laybare.source.protocol import Source

Stream = Callable[[int], Objective]

DIVERGED = 1e6
"""Length of a row that no converging run reaches."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Step length, how many steps, and by what it is divided after every `every` steps once `hold` are done.

    The paper divides by 4 every 5000 steps after 10,000.
    """

    step: float = 0.01
    count: int = 2000
    hold: int = 10_000
    every: int = 5000
    factor: float = 4.0
    record: int = 100

    def length(self, step: int) -> float:
        """Length of that step."""
        return self.step / self.factor ** max(0, (step - self.hold) // self.every + 1) if step >= self.hold else self.step


class Walk(NamedTuple):
    """Where the walk ended, and every `record` steps: the step's number, the point, the batch's value."""

    point: Array
    at: tuple[int, ...]
    points: tuple[Array, ...]
    values: tuple[float, ...]


def stochastic_descent(stream: Stream, start: Array, steps: Steps = Steps()) -> Walk:
    """b ← project(b - step · tangent gradient), a fresh objective from `stream` every time."""
    point, at, points, values = start, list[int](), list[Array](), list[float]()
    for number in range(steps.count + 1):
        objective = stream(number)
        slope = objective.slope(point)
        if number % steps.record == 0 or number == steps.count:
            at, points, values = [*at, number], [*points, point], [*values, slope.value]
        if number == steps.count:
            break
        gradient = objective.domain.tangent(point, slope.gradient)
        point = objective.domain.project(point - steps.length(number) * gradient)
        if not np.abs(point).max() < DIVERGED:
            raise InvalidInput(
                f"With step {steps.step:g} the rows grew beyond {DIVERGED:g} after {number + 1} steps.",
                "The step is longer than the curvature of the objective allows.", f"Try a step of {steps.step / 10:g}.",
                step=steps.step, steps=number + 1)
    return Walk(point, tuple(at), tuple(points), tuple(values))


def batches_of(source: Source, batch: int, make: Callable[[Source], Objective]) -> Stream:
    """A stream over consecutive batches of a source, none used twice."""
    def stream(step: int) -> Objective:
        if (step + 1) * batch > source.size:
            raise TooFewSamples(
                f"{source.size:,} samples hold {source.size // batch:,} batches of {batch:,}; step {step} asks for one more.",
                "Every step takes samples that no step before it has seen.",
                f"Give {(step + 1) * batch:,} samples or more, smaller batches, or fewer steps.",
                samples=source.size, batch=batch)
        return make(source.between(step * batch, (step + 1) * batch))

    return stream
