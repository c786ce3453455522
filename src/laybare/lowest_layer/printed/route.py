"""The paper's own routes from samples to a layer; each stops where the paper stops.

    step, ReLU, …        sections 2, 2.1   the objective on f - c₀ (or on the activity), then RefineEstimate by the activity
    sigmoid, …           appendix B.7      the objective on f, or on rows that are retained in proportion to f
    exponential(ρ)       Theorem 7         the graph of pairs with E[f x_i x_j] ≥ ρ (Algorithm 3), and its cliques
    even, no threshold   Theorem 9         directions of largest fourth moment

No solver runs after them: what is found is as accurate as moments and random search are, and the certificate says so. There are
no error bars.
Source: Goel and Panigrahy (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.activations import Activation, step
from laybare.errors import InvalidInput, NotSeparated
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.activity import Baseline, activity_of, baseline, is_silent
from laybare.lowest_layer.cliques import blocks, is_exponential, printed_graph
from laybare.lowest_layer.finding import LayerFinding, layer_of, unknown_errors
from laybare.lowest_layer.polynomial_above import check_one_output, exact_on_fresh, polynomial_above, relative_residual
from laybare.lowest_layer.printed.biased_oracle import retained
from laybare.lowest_layer.printed.even_units import even_directions
from laybare.lowest_layer.printed.one_by_one import OneByOne
from laybare.lowest_layer.printed.random_search import RandomSearch, SpaceSearch
from laybare.lowest_layer.printed.simultaneous import Simultaneous
from laybare.lowest_layer.start import Directions, count_units
from laybare.lowest_layer.union_fit import HalfSpaces, mismatch
from laybare.moments import Residual, fit_hermite
from laybare.networks import Layer
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.relabelled import Relabelled
from laybare.source.selection import closest_rows


@dataclass(frozen=True, kw_only=True)
class PrintedRoute:
    """Which of the printed algorithms, and what it is told.

    Parameters
    ----------
    threshold : float or None
        t, which the paper knows; None reads it off the share of silent rows, for units that are silent below it.
    simultaneous : bool
        All units at once (appendix B.4) instead of one by one.
    activity : bool or None
        Whether the objective is formed from the activity of rows, a polynomial of step units, instead of f; None: for steps only.
    biased : bool
        Rows are retained with a probability proportional to f ≥ 0 first (appendix B.7).
    factor : float
        Penalty of the objective over its smallest possible value for coefficients of the top of size 1.
    search : SpaceSearch or None
        What refines silent units: RandomSearch() (section 2.1), DeltaAscent() (section 3), or nothing.
    """

    threshold: float | None = None
    simultaneous: bool = False
    activity: bool | None = None
    biased: bool = False
    factor: float = 5.0
    search: SpaceSearch | None = RandomSearch()

    def find(self, used: Source, fresh: Source, width: int | None, activation: Activation, *, rng: Generator) -> LayerFinding:
        """The layer that the paper's algorithm for such units finds; both sources are white."""
        if is_exponential(activation):
            return _from_graph(used, fresh, width, activation)
        if activation.parity == "even":
            return _even(used, fresh, width, activation, rng)
        if is_silent(activation):
            return self._silent(used, fresh, width, activation, rng)
        return self._smooth(used, fresh, width, activation, rng)

    def _silent(self, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
        rule = baseline(used)
        activity = activity_of(used, rule)
        told = count_units(activity) if width is None else width
        t = float(ndtri(rule.silent ** (1.0 / told))) if self.threshold is None else self.threshold
        by_activity = activation == step if self.activity is None else self.activity
        looked_at = activity if by_activity else _above(used, rule)
        start = self._directions(looked_at, told, step if by_activity else activation, t, rng)
        spaces = HalfSpaces(start.weights, np.full(told, t))
        if self.search is not None:
            spaces = self.search(activity, spaces, rng=rng)
        whole = mismatch(activity, spaces)
        claims = (
            *start.claims, *acceptance.common_claims(spaces, whole, mismatch(activity_of(fresh, rule), spaces)),
            acceptance.noiseless(rule.exact))
        layer = layer_of(spaces, activation)
        return LayerFinding(layer, claims, unknown_errors(layer), float(rule.noise.max()))

    def _smooth(self, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
        check_one_output(used)
        if self.threshold is None:
            raise InvalidInput(
                "The literal form was not told the threshold.", f"{activation.name} units are never silent, so nothing shows it.",
                f"Give HighThreshold.literal({activation.name}, threshold), or use HighThreshold(), which finds it.")
        told = count_units(Residual(used, fit_hermite(used, 1))) if width is None else width
        looked_at = _retained(used, rng) if self.biased else _centred(used)
        start = self._directions(looked_at, told, activation, self.threshold, rng)
        layer = Layer(start.weights, np.full(told, -self.threshold), activation)
        return _with_polynomial(layer, used, fresh, start)

    def _directions(self, source: Source, width: int, activation: Activation, threshold: float, rng: Generator) -> Directions:
        kind = Simultaneous if self.simultaneous else OneByOne
        return kind(activation=activation, threshold=threshold, factor=self.factor)(source, width, rng=rng)


def _above(used: Source, rule: Baseline) -> Source:
    """f - c₀."""
    check_one_output(used)
    return Relabelled(used, lambda y: y[:, 0] - rule.value[0])


def _mean(source: Source) -> float:
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),), stage="mean")
    return float(total[0]) / source.size


def _centred(used: Source) -> Source:
    """f - E[f]: the constant does not matter for the moments, and much for their noise."""
    mean = _mean(used)
    return Relabelled(used, lambda y: y[:, 0] - mean)


def _retained(used: Source, rng: Generator) -> Source:
    """Rows retained by f less its smallest value, with its mean as y: averages of y h over them are E[(f - min f) h]."""
    lowest = float(closest_rows(used, lambda x, y: y[:, 0], 1).y[0, 0])
    rest = Relabelled(used, lambda y: y[:, 0] - lowest)
    mean = _mean(rest)
    return Relabelled(retained(rest, rng=rng), lambda y: np.full(len(y), mean))


def _from_graph(used: Source, fresh: Source, width: int | None, activation: Activation) -> LayerFinding:
    check_one_output(used)
    rho = float(activation.derivative(np.zeros(1))[0])
    rows = blocks(printed_graph(used, rho))
    seen = rows[rows.sum(axis=1) > 1]
    if not len(seen) or (width is not None and len(seen) != width):
        raise NotSeparated(
            f"The graph of pairs with E[f x_i x_j] ≥ ρ = {rho:g} has {len(seen)} cliques.",
            "ρ is a threshold in the wrong units: the size of the correlations depends on the coefficients of the top and on t.",
            "Use HighThreshold(activation=exponential(ρ)), which cuts at the largest gap.", cliques=len(seen))
    return _with_polynomial(Layer(seen, np.zeros(len(seen)), activation), used, fresh)


def _even(used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
    check_one_output(used)
    told = count_units(used) if width is None else width
    weights: Array = even_directions(used, told, activation, rng=rng)
    return _with_polynomial(Layer(weights, np.zeros(told), activation), used, fresh)


def _with_polynomial(layer: Layer, used: Source, fresh: Source, start: Directions | None = None) -> LayerFinding:
    """The layer with the polynomial of least squares above it, judged by what that leaves on fresh rows."""
    top = polynomial_above(used, layer)
    exact = exact_on_fresh(relative_residual(fresh, lambda x: top(layer(x))), fresh.size)
    claims = (exact, acceptance.separated(layer.weights / np.linalg.norm(layer.weights, axis=1, keepdims=True)))
    return LayerFinding(layer, ((*start.claims, *claims) if start else claims), unknown_errors(layer), 0.0, top)
