"""From moments to a network by descent on a designed objective: f′ by default, G and F as printed or improved, polar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.errors import TooFewSamples
from laybare.landscape import (
    Bounds,
    Design,
    LandscapeUnits,
    Minimum,
    NormPenalty,
    Objective,
    Parameters,
    SampledPenalty,
    Steps,
    TurnedQuartic,
    algorithm_1,
    algorithm_2,
    batches_of,
    coefficient,
    corrected_readout,
    descend,
    general_design,
    orthogonal_design,
    polar_iteration,
    second_order,
    stochastic_descent,
    tensor_risk,
    theorem_2_3,
    theorem_b_1,
    theorem_c_4,
    theorem_c_5,
    whitened_design,
    whitening,
)
from laybare.landscape.objective import unit_rows
from laybare.methods.landscape_design.even_moments import Seen, check_positive, controlled, plain, readout_bounds
from laybare.moments import quartic
from laybare.networks import Layer, Network
from laybare.shapes import Array
from laybare.source import Source

AGREE = 1e-3
"""Two descents that end at the same value, relative to the fall from the start, have found the same minimum."""


class Ended(NamedTuple):
    """A first network, the moments it came from, and the minimum it was read from if there was a descent."""

    network: Network
    seen: Seen
    minimum: Minimum | None


@runtime_checkable
class DesignRoute(Protocol):
    """A way from white Gaussian samples to a first network, by a designed objective."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Ended: ...


@dataclass(frozen=True, kw_only=True)
class TensorRoute:
    """f′ from controlled moments: L-BFGS and saddle escape from up to `restarts` random starts, until two end equally low."""

    restarts: int = 6
    max_steps: int = 500

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Ended:
        """The network behind the lowest minimum."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        second = np.sqrt(2.0) * coefficient(activation, 2) * seen.gram
        objective = tensor_risk(second, seen.fourth, activation, width)
        best = lowest(objective, self.restarts, self.max_steps, rng)
        units = signed(best.point[:, 1:], seen, activation, best.point[:, 0])
        return Ended(lifted_units(units, seen.basis, activation), seen, best)


@dataclass(frozen=True, kw_only=True)
class PolarRoute:
    """The polar iteration in whitened coordinates, from controlled moments. It wants a well-conditioned M."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Ended:
        """The network behind the orthonormal components."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        readout_bounds(seen, width)
        W, back = whitening(seen.gram, width)
        rows = polar_iteration(TurnedQuartic(seen.fourth, W), _sign(activation), width, rng=rng)
        dual = rows @ back.T  # √aᵢ bᵢ
        units = signed(unit_rows(dual), seen, activation, np.sum(dual**2, axis=1))
        return Ended(lifted_units(units, seen.basis, activation), seen, None)


@dataclass(frozen=True, kw_only=True)
class PrintedRoute:
    """G (`orthogonal`) or F as printed: plain averages, the parameters of Theorem 2.3, C.4 or C.5, Algorithm 1 or 2.

    `steps` None minimises the objective of all samples (Theorem 2.7) by L-BFGS with saddle escape; else stochastic gradients take
    `batch` fresh samples a step, and F's penalty is a U-statistic of the batch. G is for orthonormal weights only.
    """

    orthogonal: bool = False
    parameters: Parameters | None = None
    steps: Steps | None = None
    batch: int = 8192

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Ended:
        """The network read from where the descent ended."""
        seen = plain(source, width if self.orthogonal else source.dim, activation)
        check_positive(seen, width)
        chosen = self.parameters or self._rule(seen, width, activation)
        whole = self._objective(seen, width, activation, chosen)
        start = whole.start(rng)
        if self.steps is None:
            minimum = descend(whole, start, rng=rng, max_steps=3000, polish=False)
        else:
            stream = batches_of(source, self.batch, self._fresh(whole, seen.basis, activation))
            point = stochastic_descent(stream, start, self.steps).point
            minimum = Minimum(point, whole.slope(point).value, second_order(whole, point, rng=rng), 0, self.steps.count)
        _check_bounded(minimum, source)
        dual = whole.rows(minimum.point)
        readout = np.diag(unit_rows(dual) @ seen.gram @ unit_rows(dual).T) if self.orthogonal else corrected_readout(
            dual, coefficient(activation, 4), mu=chosen.mu, strength=chosen.strength)
        units = signed(unit_rows(dual), seen, activation, readout, orthogonal=self.orthogonal)
        return Ended(lifted_units(units, seen.basis, activation), seen, minimum)

    def _rule(self, seen: Seen, width: int, activation: Activation) -> Parameters:
        bounds, dim = readout_bounds(seen, width), len(seen.gram)
        if self.orthogonal:
            return theorem_2_3(bounds, dim)
        return theorem_c_4(bounds, dim, bounds.least) if width == dim else theorem_c_5(activation, bounds, width, dim, bounds)

    def _objective(self, seen: Seen, width: int, activation: Activation, chosen: Parameters) -> Design:
        sign, dim = _sign(activation), len(seen.gram)
        if self.orthogonal:
            return orthogonal_design(seen.fourth, sign, width, dim, mu=chosen.mu, strength=chosen.strength)
        return general_design(
            seen.fourth, sign, width, dim, penalty=NormPenalty(seen.gram), mu=chosen.mu, strength=chosen.strength,
            ridge=chosen.ridge)

    def _fresh(self, whole: Design, basis: Array, activation: Activation) -> Callable[[Source], Objective]:
        """The same objective on one batch."""
        def make(part: Source) -> Objective:
            batch = replace(whole, quartic=TurnedQuartic(quartic(part), basis))
            return batch if self.orthogonal else replace(batch, penalty=SampledPenalty(part, coefficient(activation, 2)))

        return make


@dataclass(frozen=True, kw_only=True)
class WhitenedRoute:
    """F in whitened coordinates from controlled moments, where it is G of the readouts 1/a: better conditioned, the same minima.

    λ is that of Theorem B.1; μ is `mu`, which runs like larger than the theorems allow.
    """

    mu: float = 1.0
    restarts: int = 6

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Ended:
        """The network behind the lowest minimum."""
        seen = controlled(source, width, activation)
        check_positive(seen, width)
        bounds = readout_bounds(seen, width)
        strength = theorem_b_1(activation, Bounds(1.0 / bounds.most, 1.0 / bounds.least), width).strength
        objective = whitened_design(seen.fourth, seen.gram, _sign(activation), width, mu=self.mu, strength=strength)
        best = lowest(objective, self.restarts, 2000, rng)
        _check_bounded(best, source)
        dual = objective.rows(best.point)
        readout = corrected_readout(dual, coefficient(activation, 4), mu=self.mu, strength=strength)
        units = signed(unit_rows(dual), seen, activation, readout)
        return Ended(lifted_units(units, seen.basis, activation), seen, best)


def lowest(objective: Objective, restarts: int, max_steps: int, rng: Generator) -> Minimum:
    """The lowest of several descents; two that end equally low end the search."""
    ends: list[Minimum] = []
    for _ in range(restarts):
        start = objective.start(rng)
        ends.append(descend(objective, start, rng=rng, max_steps=max_steps, polish=False))
        best = min(end.value for end in ends)
        fall = objective.slope(start).value - best
        if sum(end.value - best <= AGREE * fall for end in ends) > 1:
            break
    return min(ends, key=lambda end: end.value)


def _check_bounded(minimum: Minimum, source: Source) -> None:
    if not minimum.bounded:
        raise TooFewSamples(
            f"From {source.size:,} samples the designed objective falls without end.",
            "The noise of plain fourth moments outweighs the terms that hold its rows.",
            "Give many more samples, or use LandscapeDesign() instead of its literal form.", samples=source.size)


def signed(directions: Array, seen: Seen, activation: Activation, readout: Array, *, orthogonal: bool = False) -> LandscapeUnits:
    """Algorithm 2 (or 1); the readout that even orders give where there is no odd one, as for |t|."""
    first = coefficient(activation, 1)
    if abs(first) < 1e-8:
        return LandscapeUnits(readout, directions)
    return (algorithm_1 if orthogonal else algorithm_2)(directions, seen.linear, first)


def lifted_units(units: LandscapeUnits, basis: Array, activation: Activation) -> Network:
    """Units in the coordinates x·basis as a network on x."""
    return Network(Layer(units.directions @ basis.T, None, activation), units.readout)


def _sign(activation: Activation) -> float:
    return float(np.sign(coefficient(activation, 4)))
