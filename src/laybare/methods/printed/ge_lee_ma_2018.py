"""G, F and f' of Ge, Lee and Ma (2018) as printed: plain averages, parameters of the theorems, Algorithms 1 and 2, SGD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare import landscape
from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.landscape import Design, DesignParameters, Objective
from laybare.methods import landscape_design
from laybare.methods.landscape_design import EvenMoments
from laybare.methods.start import Start
from laybare.moments import quartic
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class PrintedDesign:
    """G (`orthogonal`) or F as printed: plain averages, the parameters of Theorem 2.3, C.4 or C.5, Algorithm 1 or 2.

    `steps` None minimises the objective of all samples (Theorem 2.7) by L-BFGS with saddle escape; else stochastic gradients take
    `batch` fresh samples per step, and F's penalty is a U-statistic of the batch. G is for orthonormal weights only.

    With fewer units than inputs F is taken in the span of the units, which the second moment shows, where Theorem C.4 applies.
    `span` False is F with the ridge of Theorem C.5 in all dimensions. It has the right minima for exact moments only: off the
    span sampled fourth moments outweigh a ridge, and F falls without end.
    """

    orthogonal: bool = False
    span: bool = True
    parameters: DesignParameters | None = None
    steps: landscape.StepSchedule | None = None
    batch: int = 8192

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network read from where the descent ended."""
        seen = landscape_design.plain_even_moments(source, width if self.orthogonal or self.span else source.dim, activation)
        landscape_design.check_positive(seen, width)
        chosen = self.parameters or self._rule(seen, width, activation)
        whole = self._objective(seen, width, activation, chosen)
        start = whole.start(rng)
        if self.steps is None:
            minimum = landscape.descend(whole, start, rng=rng, max_steps=3000, polish=False)
        else:
            stream = landscape.batch_stream(source, self.batch, self._fresh(whole, seen.basis, activation))
            point = landscape.stochastic_descent(stream, start, self.steps).point
            value = whole.value_and_gradient(point).value
            minimum = landscape.Minimum(point, value, landscape.second_order(whole, point, rng=rng), 0, self.steps.count)
        landscape_design.check_bounded(minimum, source)
        dual = whole.rows(minimum.point)
        readout = np.diag(unit_rows(dual) @ seen.gram @ unit_rows(dual).T) if self.orthogonal else landscape.corrected_readout(
            dual, landscape.coefficient(activation, 4), mu=chosen.mu, strength=chosen.strength)
        units = landscape_design.units_with_signs(unit_rows(dual), seen, activation, readout, orthogonal=self.orthogonal)
        network = landscape_design.network_on_inputs(units, seen.basis, activation)
        return landscape_design.start_with_claims(network, seen, minimum)

    def _rule(self, seen: EvenMoments, width: int, activation: Activation) -> DesignParameters:
        bounds, dim = landscape_design.readout_bounds(seen, width), len(seen.gram)
        if self.orthogonal:
            return landscape.theorem_2_3(bounds, dim)
        if width == dim:
            return landscape.theorem_c_4(bounds, dim, bounds.least)
        return landscape.theorem_c_5(activation, bounds, width, dim, bounds)

    def _objective(self, seen: EvenMoments, width: int, activation: Activation, chosen: DesignParameters) -> Design:
        sign, dim = landscape_design.fourth_sign(activation), len(seen.gram)
        if self.orthogonal:
            return landscape.orthogonal_design(seen.fourth, sign, width, dim, mu=chosen.mu, strength=chosen.strength)
        penalty = landscape.NormPenalty(seen.gram)
        return landscape.general_design(seen.fourth, sign, width, dim, penalty=penalty, parameters=chosen)

    def _fresh(self, whole: Design, basis: Array, activation: Activation) -> Callable[[Source], Objective]:
        """The same objective on one batch."""
        def make(part: Source) -> Objective:
            batch = replace(whole, quartic=landscape.TurnedQuartic(quartic(part), basis))
            if self.orthogonal:
                return batch
            return replace(batch, penalty=landscape.SampledPenalty(part, landscape.coefficient(activation, 2), basis))

        return make


@dataclass(frozen=True, kw_only=True)
class PrintedRisk:
    """f' as printed, equation (2.5): E(y' - y)² with y' = Σ aᵢ (σ₂h₂ + σ₄h₄)(bᵢ·x), by projected SGD over a and unit rows.

    Every step has `batch` samples that no other has, as many steps as there are batches; `step` is held for half of them, then
    divided by 4 every eighth, after the experiments of section 4, which do not state it. That f' has no spurious minima is a
    conjecture. Even orders do not show the signs of rows: these come from E[yx], as in Algorithm 2.
    """

    batch: int = 100
    step: float = 1.0

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network where the descent ends."""
        count = max(source.size // self.batch - 1, 1)
        steps = landscape.StepSchedule(step=self.step, count=count, hold=count // 2, every=max(count // 8, 1), record=count)
        response = landscape.even_response(activation)

        def risk(part: Source) -> landscape.SampledRisk:
            return landscape.SampledRisk(source=part, response=response, width=width)

        stream = landscape.batch_stream(source, self.batch, risk)
        point = landscape.stochastic_descent(stream, risk(source.take(1)).start(rng), steps).point
        (linear,) = source.sum(lambda x, y: (y[:, 0] @ x,), stage="signs")
        units = landscape.algorithm_2(point[:, 1:], linear / source.size, landscape.coefficient(activation, 1))
        return Start(Network(Layer(units.directions, None, activation), point[:, 0]))
