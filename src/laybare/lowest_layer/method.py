"""HighThreshold: the lowest layer of a deep network, found through thresholds that are rarely crossed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import InvalidInput
from laybare.lowest_layer.facets import FacetSearch
from laybare.lowest_layer.found import FoundLayer
from laybare.lowest_layer.printed.one_by_one import OneByOne
from laybare.lowest_layer.printed.refine_estimate import RandomSearch
from laybare.lowest_layer.printed.simultaneous import Simultaneous
from laybare.lowest_layer.silent_route import Silent, find_silent
from laybare.lowest_layer.smooth_route import Smooth, find_exponential, find_smooth
from laybare.lowest_layer.start import LayerStart, ThirdMoments
from laybare.lowest_layer.tops import MonomialTop, TopFitter
from laybare.lowest_layer.union_fit import Annealing
from laybare.shapes import Progress
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class HighThreshold:
    """The lowest layer of f(x) = P(u(w₁·x - t₁), …, u(w_k·x - t_k)), whatever P is, after Goel and Panigrahy (2019).

    For `lb.recover_layer`. Assumes x ~ N(0, Σ) for the start, independent weight vectors (width ≤ dim), and thresholds so high
    that all units sleep in more than half of the rows (step, ReLU), or a polynomial P (smooth units). With an Oracle that
    answers without noise, step and ReLU layers are read off the facets of the silent region instead, to about 12 digits.

    Parameters
    ----------
    activation : Activation
        step, relu, power_relu(p); sigmoid, softplus and other smooth ones; exponential(ρ) for rows of zeros and ones.
    start : LayerStart
        Directions to begin with: ThirdMoments(), OneByOne(), Simultaneous().
    annealing : Annealing
        Effort of the fit of half-spaces.
    repairs : int
        Attempts to find units that the start missed.
    degree, powers : int
        Of how many smooth units the polynomial may have products, and up to which power each enters alone.
    queries : FacetSearch or None
        How to search for facets; None treats an Oracle like samples.
    search : RandomSearch or None
        The printed refinement in place of the fit of half-spaces (and of the lines of ReLU units).
    top : TopFitter or None
        What to fit above the layer: MonomialTop(), RegressorTop(...), or nothing.

    References
    ----------
    Goel and Panigrahy (2019), Recovering the lowest layer of deep networks with high threshold activations. Deviations: third
    moments instead of fourth, all units fitted at once instead of one by one, exact lines for ReLU, queries.
    """

    activation: Activation = relu
    start: LayerStart = ThirdMoments()
    annealing: Annealing = Annealing()
    repairs: int = 6
    degree: int = 2
    powers: int = 1
    queries: FacetSearch | None = FacetSearch()
    search: RandomSearch | None = None
    top: TopFitter | None = MonomialTop()

    @classmethod
    def literal(cls, activation: Activation = relu, threshold: float = 2.0, *, simultaneous: bool = False) -> HighThreshold:
        """The paper's route for step and ReLU units of known threshold: fourth moments, then random search by the angle.

        Both work on the activity of rows, whose units are steps.
        """
        start: LayerStart = Simultaneous(threshold=threshold) if simultaneous else OneByOne(threshold=threshold)
        return cls(activation=activation, start=start, queries=None, search=RandomSearch())

    @property
    def silent(self) -> bool:
        """Whether units are exactly zero below their thresholds."""
        return not self.activation(np.array([-1e-3, -1.0, -30.0])).any()

    @property
    def silent_choices(self) -> Silent:
        """What the route for such units needs."""
        return Silent(self.activation, self.start, self.annealing, self.repairs, self.search)

    @property
    def exponential(self) -> bool:
        """Whether units are e^{ρu}."""
        return self.activation.name.startswith("exponential(")

    def find_layer(
        self, used: Source, fresh: Source, width: int | None, *, rng: Generator, progress: Progress | None = None
    ) -> FoundLayer:
        """The layer behind white samples `used`, checked on `fresh` ones."""
        self.check(used, width)
        if self.silent:
            return find_silent(used, fresh, width, self.silent_choices, rng=rng)
        if self.exponential:
            return find_exponential(used, fresh, width, self.activation)
        choices = Smooth(self.activation, self.start, self.degree, self.powers)
        return find_smooth(used, fresh, width, choices, rng=rng, progress=progress)

    def check(self, source: Source, width: int | None) -> None:
        """Refuse widths beyond the dimension, and units that are never silent and yet not smooth."""
        if width is not None and width > source.dim:
            raise InvalidInput(
                f"Width {width} in dimension {source.dim}.",
                "The method finds independent weight vectors, at most as many as dimensions.",
                f"Give at most {source.dim}, or None to have the units counted.", width=width, dim=source.dim)
        if not self.silent and self.activation.kinks:
            raise InvalidInput(
                f"{self.activation.name} has a kink and is not zero below it.",
                "Its units neither sleep below their thresholds nor are they smooth.",
                "Use step, relu or power_relu(p), or a smooth activation.", activation=self.activation.name)
