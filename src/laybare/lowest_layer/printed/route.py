"""The paper's own routes from samples to a layer; each stops where the paper stops.

    step, ReLU, …        sections 2, 2.1   the objective on f - c₀ (or on the activity), then RefineEstimate by the activity
    sigmoid, …           appendix B.7      the objective on f, or on rows that are retained in proportion to f
    exponential(ρ)       Theorem 7         the graph of pairs with E[f x_i x_j] ≥ ρ (Algorithm 3) of f - E[f], and its cliques
    even, no threshold   Theorem 9         directions of largest fourth moment

No solver runs after them: the layer is as accurate as moments and random search are, and there are no error bars.

Rows retained with a probability proportional to f ≥ 0 (appendix B.7, Theorem 13) have E_b[h] = E[f h]/E[f], so moments of f are
averages over retained rows with y = 1, scaled. It helps against rare activity, but needs more samples than plain rows with their
linear part subtracted (`laybare reproduce gp19-theorem13`).

Even activations and orthonormal weights (Theorem 9, appendix D.3, corrected): every local maximum of E[f h₄(z·x)] on the sphere
is a unit. Not every unit is one, but the others appear once those found are projected out (deflation). For u₄ < 0, such as |t|,
-h₄ takes the place of h₄.
Source: Goel and Panigrahy (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.activations import Activation, step
from laybare.errors import AssumptionViolated, InvalidInput, NotSeparated
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.acceptance import LayerFinding, layer_from_spaces, residual_claim, undefined_errors
from laybare.lowest_layer.active_rows import Baseline, find_baseline, is_silent, label_active_rows
from laybare.lowest_layer.layer_start import Directions, count_visible_units
from laybare.lowest_layer.printed.objectives import OneByOne, Simultaneous, hermite_correlation, restrict_to_span
from laybare.lowest_layer.printed.searches import DeltaSearch, RandomSearch, SpaceSearch
from laybare.lowest_layer.smooth_route import disjoint_cliques, is_exponential, printed_graph
from laybare.lowest_layer.tops import check_one_output, fit_polynomial, relative_residual
from laybare.lowest_layer.union_fit import HalfSpaces, count_mismatch
from laybare.moments import Residual, fit_hermite
from laybare.networks import Layer
from laybare.numerics.shapes import Array
from laybare.source import Samples, Source
from laybare.source.derived import RelabelledOutputs
from laybare.source.views import rows_with_smallest_key
from laybare.theory.high_threshold_forms import threshold_coefficient


@dataclass(frozen=True, kw_only=True)
class PrintedRoute:
    """Which of the printed algorithms, and its parameters.

    Parameters
    ----------
    threshold : float or None
        t, which the paper assumes known; None takes it from the share of silent rows, for units that are zero below it.
    simultaneous : bool
        All units at once (appendix B.4) instead of one by one.
    activity : bool or None
        Whether the objective is formed from the activity of rows, a polynomial of step units, instead of f; None: for steps only.
    biased : bool
        Rows are retained with a probability proportional to f ≥ 0 first (appendix B.7).
    factor : float
        Penalty of the objective over its smallest possible value for coefficients of the top of size 1.
    search : SpaceSearch, DeltaSearch or None
        What refines units that are zero below t: RandomSearch() (section 2.1), DeltaAscent() (section 3), or nothing; or
        DeltaSearch(), section 3 from random starts in place of everything else.
    """

    threshold: float | None = None
    simultaneous: bool = False
    activity: bool | None = None
    biased: bool = False
    factor: float = 5.0
    search: SpaceSearch | DeltaSearch | None = RandomSearch()

    def find(self, used: Source, fresh: Source, width: int | None, activation: Activation, *, rng: Generator) -> LayerFinding:
        """The layer that the paper's algorithm for such units finds; both sources are white."""
        if is_exponential(activation):
            return _from_graph(used, fresh, width, activation)
        if activation.parity == "even":
            return _even(used, fresh, width, activation, rng)
        if isinstance(self.search, DeltaSearch):
            return self._by_delta(self.search, used, fresh, width, activation, rng)
        if is_silent(activation):
            return self._silent(used, fresh, width, activation, rng)
        return self._smooth(used, fresh, width, activation, rng)

    def _by_delta(
        self, search: DeltaSearch, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator
    ) -> LayerFinding:
        """Section 3 (Theorems 3 and 6, Corollary 1; appendix C.1 for ReLU)."""
        check_one_output(used)
        if activation.degree not in (0, 1) or width is None:
            raise InvalidInput(
                f"{activation.name} units, width {width}.", "δ' shows step units, δ'' ReLU units, and how many is assumed known.",
                "Give step or relu and the width, or use HighThreshold().")
        found = search(used, width, 1 if activation.degree == 0 else 2, self.threshold, rng=rng)
        return _with_polynomial(layer_from_spaces(found.spaces, activation), used, fresh)

    def _silent(self, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
        rule = find_baseline(used)
        activity = label_active_rows(used, rule)
        count = count_visible_units(activity) if width is None else width
        t = float(ndtri(rule.silent ** (1.0 / count))) if self.threshold is None else self.threshold
        by_activity = activation == step if self.activity is None else self.activity
        looked_at = activity if by_activity else _above(used, rule)
        start = self._directions(looked_at, count, step if by_activity else activation, t, rng)
        spaces = HalfSpaces(start.weights, np.full(count, t))
        if self.search is not None and not isinstance(self.search, DeltaSearch):
            spaces = self.search(activity, spaces, rng=rng)
        whole = count_mismatch(activity, spaces)
        claims = (
            *start.claims, *acceptance.common_claims(spaces, whole, count_mismatch(label_active_rows(fresh, rule), spaces)),
            acceptance.noiseless_claim(rule.exact))
        layer = layer_from_spaces(spaces, activation)
        return LayerFinding(layer, claims, undefined_errors(layer), float(rule.noise.max()))

    def _smooth(self, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
        check_one_output(used)
        if self.threshold is None:
            raise InvalidInput(
                "The literal form was not given the threshold.", f"{activation.name} units are never zero: nothing shows it.",
                f"Give HighThreshold.literal({activation.name}, threshold), or use HighThreshold(), which finds it.")
        count = count_visible_units(Residual(used, fit_hermite(used, 1))) if width is None else width
        looked_at = _retained(used, rng) if self.biased else _centred(used)
        start = self._directions(looked_at, count, activation, self.threshold, rng)
        layer = Layer(start.weights, np.full(count, -self.threshold), activation)
        return _with_polynomial(layer, used, fresh, start)

    def _directions(self, source: Source, width: int, activation: Activation, threshold: float, rng: Generator) -> Directions:
        kind = Simultaneous if self.simultaneous else OneByOne
        return kind(activation=activation, threshold=threshold, factor=self.factor)(source, width, rng=rng)


def _above(used: Source, rule: Baseline) -> Source:
    """f - c₀."""
    check_one_output(used)
    return RelabelledOutputs(used, lambda y: y[:, 0] - rule.value[0])


def _mean(source: Source) -> float:
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),), stage="mean")
    return float(total[0]) / source.size


def _centred(used: Source) -> Source:
    """f - E[f]: the constant does not matter for the moments, and much for their noise."""
    mean = _mean(used)
    return RelabelledOutputs(used, lambda y: y[:, 0] - mean)


def _retained(used: Source, rng: Generator) -> Source:
    """Rows retained by f less its smallest value, with its mean as y: averages of y h over them are E[(f - min f) h]."""
    lowest = float(rows_with_smallest_key(used, lambda x, y: y[:, 0], 1).y[0, 0])
    rest = RelabelledOutputs(used, lambda y: y[:, 0] - lowest)
    mean = _mean(rest)
    return RelabelledOutputs(retain_by_output(rest, rng=rng), lambda y: np.full(len(y), mean))


def _from_graph(used: Source, fresh: Source, width: int | None, activation: Activation) -> LayerFinding:
    check_one_output(used)
    rho = float(activation.derivative(np.zeros(1))[0])
    rows = disjoint_cliques(printed_graph(_centred(used), rho))
    seen = rows[rows.sum(axis=1) > 1]
    if not len(seen) or (width is not None and len(seen) != width):
        raise NotSeparated(
            f"The graph of pairs with E[f x_i x_j] ≥ ρ = {rho:g} has {len(seen)} cliques.",
            "ρ is a threshold in the wrong units: the size of the correlations depends on the coefficients of the top and on t.",
            "Use HighThreshold(activation=exponential(ρ)), which cuts at the largest gap.", cliques=len(seen))
    return _with_polynomial(Layer(seen, np.zeros(len(seen)), activation), used, fresh)


def _even(used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
    check_one_output(used)
    count = count_visible_units(used) if width is None else width
    weights: Array = even_directions(used, count, activation, rng=rng)
    return _with_polynomial(Layer(weights, np.zeros(count), activation), used, fresh)


def _with_polynomial(layer: Layer, used: Source, fresh: Source, start: Directions | None = None) -> LayerFinding:
    """The layer with the polynomial of least squares above it, judged by what that leaves on fresh rows."""
    top = fit_polynomial(used, layer)
    exact = residual_claim(relative_residual(fresh, lambda x: top(layer(x))), fresh.size)
    claims = (exact, acceptance.separation_claim(layer.weights / np.linalg.norm(layer.weights, axis=1, keepdims=True)))
    return LayerFinding(layer, ((*start.claims, *claims) if start else claims), undefined_errors(layer), 0.0, top)


MAX_RETAINED_ROWS = 200_000
"""Rows kept in memory, 16 MB in ten dimensions. Checked by `pytest tests/lowest_layer`."""


def retain_by_output(source: Source, *, rng: Generator, limit: int = MAX_RETAINED_ROWS) -> Source:
    """Rows kept with probability y/max(y), with y = 1: a source whose moments are those of f over E[f]."""
    (negative,) = source.sum(lambda x, y: (np.asarray(np.sum(y[:, 0] < 0)),), stage="signs of y")
    if source.outputs > 1 or negative:
        raise AssumptionViolated(
            f"{source.outputs} outputs, {int(negative)} of them negative.",
            "Rows are kept with a probability proportional to one output, which must not be negative.",
            "Give one output, and subtract its smallest value.", negative=int(negative))
    highest = float(rows_with_smallest_key(source, lambda x, y: -y[:, 0], 1).y[0, 0])
    kept = rows_with_smallest_key(source, lambda x, y: np.where(rng.random(len(x)) * highest < y[:, 0], 0.0, np.inf), limit)
    return RelabelledOutputs(Samples(kept.x, kept.x[:, 0], law=source.law), lambda y: np.ones(len(y)))


def even_directions(
    source: Source, width: int, activation: Activation, *, starts: int = 3, max_steps: int = 100, rng: Generator
) -> Array:
    """Orthonormal rows (k, d) in the span that the second moment shows: ascent of ± E[f h₄(z·x)] on the sphere, best of some
    starts, then in the orthogonal complement."""
    sign = float(np.sign(threshold_coefficient(activation, 4, 0.0)))
    inside = restrict_to_span(source, width)
    found = np.zeros((0, width))
    for _ in range(width):
        _, _, rows = np.linalg.svd(found, full_matrices=True) if len(found) else (None, None, np.eye(width))
        free = rows[len(found) :]
        climbs = [_climb(inside, free, sign, max_steps, rng) for _ in range(starts)]
        found = np.vstack([found, max(climbs, key=lambda climb: climb[1])[0]])
    return found @ inside.basis.T


def _climb(source: Source, free: Array, sign: float, max_steps: int, rng: Generator) -> tuple[Array, float]:
    """The direction in the span of `free` where the ascent ends, and the value there: z ← normalised gradient plus a multiple
    of z."""
    a = rng.standard_normal(len(free))
    a /= np.linalg.norm(a)
    value, length = -np.inf, 1.0
    for _ in range(max_steps):
        at = hermite_correlation(source, a @ free)
        now, slope = sign * at.fourth, sign * free @ at.fourth_gradient
        tangent = slope - (slope @ a) * a
        size = float(np.linalg.norm(tangent))
        if size < 1e-9 * max(abs(now), 1e-300):
            break
        while length > 1e-8:
            moved = a + length * tangent / size
            moved /= np.linalg.norm(moved)
            trial = sign * hermite_correlation(source, moved @ free).fourth
            if trial > now:
                break
            length /= 2
        else:
            break
        a, value, length = moved, trial, min(1.0, 2 * length)
    return a @ free, value
