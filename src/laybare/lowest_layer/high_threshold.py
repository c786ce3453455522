"""HighThreshold: the lowest layer of a deep network, found through thresholds that are rarely crossed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import InvalidInput, LaybareError
from laybare.lowest_layer.acceptance import LayerFinding
from laybare.lowest_layer.active_rows import given_baseline, is_silent
from laybare.lowest_layer.facets import FacetSearch
from laybare.lowest_layer.jump_route import JumpSearch
from laybare.lowest_layer.layer_start import LayerStart, ThirdMoments
from laybare.lowest_layer.printed.route import PrintedRoute
from laybare.lowest_layer.silent_route import SilentChoices, find_silent_units
from laybare.lowest_layer.smooth_route import SmoothChoices, find_exponential_units, find_smooth_units, is_exponential
from laybare.lowest_layer.tops import MonomialTop, TopFitter
from laybare.lowest_layer.union_fit import Annealing
from laybare.methods.start import check_method
from laybare.numerics.checks import show_choices
from laybare.numerics.shapes import Progress
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class HighThreshold:
    """The lowest layer of f(x) = P(u(w₁·x - t₁), …, u(w_k·x - t_k)), whatever P is, after Goel and Panigrahy (2019).

    For `lb.recover_layer`. Assumes x ~ N(0, Σ) for the start, independent weight vectors (width ≤ dim), and thresholds so high
    that all units are inactive in more than half of the rows (step, ReLU), or a polynomial P (smooth units). With an Oracle that
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
        The polynomial has products of up to `degree` smooth units, and powers of single ones up to `powers`.
    baseline : float or None
        The output while all units are inactive, if known; else the output of more than half of the rows.
    queries : FacetSearch or None
        How to search for facets; None treats an Oracle like samples.
    jumps : JumpSearch or None
        How step and ReLU units are found where these assumptions fail, at low thresholds or without linear terms in P: by the
        jumps and bends of one output without noise. None leaves it out.
    printed : PrintedRoute or None
        The paper's own algorithm in place of all of this; `literal` makes it.
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
    baseline: float | None = None
    queries: FacetSearch | None = FacetSearch()
    jumps: JumpSearch | None = JumpSearch()
    printed: PrintedRoute | None = None
    top: TopFitter | None = MonomialTop()

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self, baseline=-math.inf)

    @classmethod
    def literal(
        cls, activation: Activation = relu, threshold: float | None = None, route: PrintedRoute = PrintedRoute()
    ) -> HighThreshold:
        """The paper's own algorithm for such units, and nothing after it; `route` has its options.

        Step, ReLU and powers of ReLU: fourth moments of f (steps: of the activity), then random search by the angle. Sigmoid
        and the like: fourth moments alone, with a given threshold. exponential(ρ): Algorithm 3. Even activations: Theorem 9.
        With `PrintedRoute(search=DeltaSearch())` section 3: step and ReLU units from random starts, whatever the threshold, by
        δ' and δ''.
        """
        return cls(activation=activation, queries=None, printed=replace(route, threshold=threshold))

    @property
    def asks(self) -> bool:
        """Whether an Oracle is asked at chosen points, instead of being treated like samples."""
        return self.queries is not None and self.printed is None and is_silent(self.activation)

    @property
    def silent_choices(self) -> SilentChoices:
        """What the route for units that are silent below their thresholds needs."""
        return SilentChoices(self.activation, self.start, self.annealing, self.repairs)

    def find_layer(
        self, used: Source, fresh: Source, width: int | None, *, rng: Generator, progress: Progress | None = None
    ) -> LayerFinding:
        """The layer behind white samples `used`, checked on `fresh` ones."""
        self.check(used, width)
        if self.printed is not None:
            return self.printed.find(used, fresh, width, self.activation, rng=rng)
        if is_silent(self.activation):
            return self._find_silent(used, fresh, width, rng)
        if is_exponential(self.activation):
            return find_exponential_units(used, fresh, width, self.activation)
        choices = SmoothChoices(self.activation, self.start, self.degree, self.powers)
        return find_smooth_units(used, fresh, width, choices, rng=rng, progress=progress)

    def _find_silent(self, used: Source, fresh: Source, width: int | None, rng: Generator) -> LayerFinding:
        """By the active set; where that does not show a union of half-spaces, by jumps, if these explain the outputs."""
        rule = None if self.baseline is None else given_baseline(used, self.baseline)
        by_jumps = self.jumps if used.outputs == 1 and self.activation.degree in (0, 1) and rule is None else None
        try:
            found = find_silent_units(used, fresh, width, self.silent_choices._replace(rule=rule), rng=rng)
        except LaybareError as refusal:
            other = None if by_jumps is None else by_jumps.find_exactly(used, fresh, width, self.activation, rng=rng)
            if other is None:
                raise refusal from None
            return other
        if by_jumps is None or all(claim.passed for claim in found.claims if claim.decisive):
            return found
        return by_jumps.find_exactly(used, fresh, width, self.activation, rng=rng) or found

    def check(self, source: Source, width: int | None) -> None:
        """Refuse widths beyond the dimension, and units that are never silent and yet not smooth."""
        if width is not None and width > source.dim:
            raise InvalidInput(
                f"Width {width} in dimension {source.dim}.",
                "The method finds independent weight vectors, at most as many as dimensions.",
                f"Give at most {source.dim}, or None to have the units counted.", width=width, dim=source.dim)
        even = self.printed is not None and self.activation.parity == "even"
        if self.activation.kinks and not is_silent(self.activation) and not even:
            raise InvalidInput(
                f"{self.activation.name} has a kink and is not zero below it.",
                "Its units are neither zero below their thresholds nor smooth.",
                "Use step, relu or power_relu(p), a smooth activation, or HighThreshold.literal for an even one.",
                activation=self.activation.name)
