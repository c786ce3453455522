"""From moments to a network by descent on a designed objective: f′ by default, F in white coordinates, polar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.errors import TooFewSamples
from laybare.landscape import (
    Bounds,
    LandscapeUnits,
    Minimum,
    Objective,
    TurnedQuartic,
    algorithm_1,
    algorithm_2,
    coefficient,
    corrected_readout,
    descend,
    polar_iteration,
    tensor_risk,
    theorem_b_1,
    whitened_design,
    whitening,
)
from laybare.landscape.objective import unit_rows
from laybare.methods.landscape_design.claims import positive_readouts, stationary
from laybare.methods.landscape_design.even_moments import EvenMoments, check_positive, controlled, readout_bounds
from laybare.methods.start import Start
from laybare.networks import Layer, Network
from laybare.shapes import Array
from laybare.source import Source

SAME_MINIMUM = 1e-3
"""Two descents that end at the same value, relative to the fall from the start, have found the same minimum."""


@dataclass(frozen=True, kw_only=True)
class TensorRoute:
    """f′ from controlled moments: L-BFGS and saddle escape from up to `restarts` random starts, until two end equally low."""

    restarts: int = 6
    max_steps: int = 500

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the lowest minimum."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        second = np.sqrt(2.0) * coefficient(activation, 2) * seen.gram
        objective = tensor_risk(second, seen.fourth, activation, width)
        best = lowest(objective, self.restarts, self.max_steps, rng)
        units = signed(best.point[:, 1:], seen, activation, best.point[:, 0])
        return start_at(lifted_units(units, seen.basis, activation), seen, best)


@dataclass(frozen=True, kw_only=True)
class PolarRoute:
    """The polar iteration in whitened coordinates, from controlled moments. It wants a well-conditioned M."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the orthonormal components."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        readout_bounds(seen, width)
        W, back = whitening(seen.gram, width)
        rows = polar_iteration(TurnedQuartic(seen.fourth, W), fourth_sign(activation), width, rng=rng)
        dual = rows @ back.T  # √aᵢ bᵢ
        units = signed(unit_rows(dual), seen, activation, np.sum(dual**2, axis=1))
        return start_at(lifted_units(units, seen.basis, activation), seen, None)


@dataclass(frozen=True, kw_only=True)
class WhitenedRoute:
    """F in whitened coordinates from controlled moments, where it is G of the readouts 1/a: better conditioned, the same minima.

    λ is that of Theorem B.1; μ is `mu`, which runs like larger than the theorems allow.
    """

    mu: float = 1.0
    restarts: int = 6

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the lowest minimum."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        bounds = readout_bounds(seen, width)
        strength = theorem_b_1(activation, Bounds(1.0 / bounds.most, 1.0 / bounds.least), width).strength
        objective = whitened_design(seen.fourth, seen.gram, fourth_sign(activation), width, mu=self.mu, strength=strength)
        best = lowest(objective, self.restarts, 2000, rng)
        check_bounded(best, source)
        dual = objective.rows(best.point)
        readout = corrected_readout(dual, coefficient(activation, 4), mu=self.mu, strength=strength)
        units = signed(unit_rows(dual), seen, activation, readout)
        return start_at(lifted_units(units, seen.basis, activation), seen, best)


def lowest(objective: Objective, restarts: int, max_steps: int, rng: Generator) -> Minimum:
    """The lowest of several descents; two that end equally low end the search."""
    ends: list[Minimum] = []
    for _ in range(restarts):
        start = objective.start(rng)
        ends.append(descend(objective, start, rng=rng, max_steps=max_steps, polish=False))
        best = min(end.value for end in ends)
        fall = objective.slope(start).value - best
        if sum(end.value - best <= SAME_MINIMUM * fall for end in ends) > 1:
            break
    return min(ends, key=lambda end: end.value)


def check_bounded(minimum: Minimum, source: Source) -> None:
    if not minimum.bounded:
        raise TooFewSamples(
            f"From {source.size:,} samples the designed objective falls without end.",
            "The noise of plain fourth moments outweighs the terms that hold its rows.",
            "Give many more samples, or use LandscapeDesign() instead of its literal form.", samples=source.size)


def signed(
    directions: Array, seen: EvenMoments, activation: Activation, readout: Array, *, orthogonal: bool = False
) -> LandscapeUnits:
    """Algorithm 2 (or 1); the readout that even orders give where there is no odd one, as for |t|."""
    first = coefficient(activation, 1)
    if abs(first) < 1e-8:
        return LandscapeUnits(readout, directions)
    return (algorithm_1 if orthogonal else algorithm_2)(directions, seen.linear, first)


def start_at(network: Network, seen: EvenMoments, minimum: Minimum | None) -> Start:
    """A start with what can be said about the moments and the minimum behind it."""
    return Start(network, (*stationary(minimum), positive_readouts(seen)))


def lifted_units(units: LandscapeUnits, basis: Array, activation: Activation) -> Network:
    """Units in the coordinates x·basis as a network on x."""
    return Network(Layer(units.directions @ basis.T, None, activation), units.readout)


def fourth_sign(activation: Activation) -> float:
    return float(np.sign(coefficient(activation, 4)))
