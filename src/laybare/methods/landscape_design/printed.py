"""G and F of Ge, Lee and Ma (2018) as printed: plain averages, the parameters of the theorems, Algorithm 1 or 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.landscape import (
    Design,
    Minimum,
    NormPenalty,
    Objective,
    Parameters,
    SampledPenalty,
    Steps,
    TurnedQuartic,
    batches_of,
    coefficient,
    corrected_readout,
    descend,
    general_design,
    orthogonal_design,
    second_order,
    stochastic_descent,
    theorem_2_3,
    theorem_c_4,
    theorem_c_5,
)
from laybare.landscape.objective import unit_rows
from laybare.methods.landscape_design.even_moments import EvenMoments, check_positive, plain, readout_bounds
from laybare.methods.landscape_design.routes import check_bounded, fourth_sign, lifted_units, signed, start_at
from laybare.methods.start import Start
from laybare.moments import quartic
from laybare.shapes import Array
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class PrintedDesign:
    """G (`orthogonal`) or F as printed: plain averages, the parameters of Theorem 2.3, C.4 or C.5, Algorithm 1 or 2.

    `steps` None minimises the objective of all samples (Theorem 2.7) by L-BFGS with saddle escape; else stochastic gradients take
    `batch` fresh samples a step, and F's penalty is a U-statistic of the batch. G is for orthonormal weights only.

    With fewer units than inputs F is taken in the span of the units, which the second moment shows, where Theorem C.4 applies.
    `span` False is F with the ridge of Theorem C.5 in all dimensions. It has the right minima for exact moments only: off the
    span sampled fourth moments outweigh a ridge, and F falls without end.
    """

    orthogonal: bool = False
    span: bool = True
    parameters: Parameters | None = None
    steps: Steps | None = None
    batch: int = 8192

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network read from where the descent ended."""
        seen = plain(source, width if self.orthogonal or self.span else source.dim, activation)
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
        check_bounded(minimum, source)
        dual = whole.rows(minimum.point)
        readout = np.diag(unit_rows(dual) @ seen.gram @ unit_rows(dual).T) if self.orthogonal else corrected_readout(
            dual, coefficient(activation, 4), mu=chosen.mu, strength=chosen.strength)
        units = signed(unit_rows(dual), seen, activation, readout, orthogonal=self.orthogonal)
        return start_at(lifted_units(units, seen.basis, activation), seen, minimum)

    def _rule(self, seen: EvenMoments, width: int, activation: Activation) -> Parameters:
        bounds, dim = readout_bounds(seen, width), len(seen.gram)
        if self.orthogonal:
            return theorem_2_3(bounds, dim)
        return theorem_c_4(bounds, dim, bounds.least) if width == dim else theorem_c_5(activation, bounds, width, dim, bounds)

    def _objective(self, seen: EvenMoments, width: int, activation: Activation, chosen: Parameters) -> Design:
        sign, dim = fourth_sign(activation), len(seen.gram)
        if self.orthogonal:
            return orthogonal_design(seen.fourth, sign, width, dim, mu=chosen.mu, strength=chosen.strength)
        return general_design(
            seen.fourth, sign, width, dim, penalty=NormPenalty(seen.gram), mu=chosen.mu, strength=chosen.strength,
            ridge=chosen.ridge)

    def _fresh(self, whole: Design, basis: Array, activation: Activation) -> Callable[[Source], Objective]:
        """The same objective on one batch."""
        def make(part: Source) -> Objective:
            batch = replace(whole, quartic=TurnedQuartic(quartic(part), basis))
            return batch if self.orthogonal else replace(batch, penalty=SampledPenalty(part, coefficient(activation, 2), basis))

        return make
