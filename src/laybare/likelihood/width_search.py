"""The over-wide search for any loss: runs with spare units from random ones, pruned by deviance, until two end at the same fit.

As `wide.py`, whose least squares it replaces by `maximise_likelihood`. A gain is a difference of deviances over the dispersion φ,
twice a log-likelihood ratio; a unit is kept if it gains more than Schwarz's penalty, its parameters times log N, N the effective
number of equations. Signs of ReLU-like units are free in the search and are chosen after it, by the deviance of refits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.sign_decoding import restore_signs, sign_free_model, with_signs
from laybare.certificate import Claim, ClaimName
from laybare.errors import TooFewSamples
from laybare.likelihood.weighted_fit import (
    FeatureStatistic,
    constant_point,
    deviance_at,
    dispersion,
    maximise_likelihood,
    sums_at,
)
from laybare.networks import Network
from laybare.numerics.levels import EPS
from laybare.numerics.shapes import Array, Progress, Sums, report_progress
from laybare.search import settings
from laybare.search.settings import Search, random_units
from laybare.solver import Effort, FitInterrupt
from laybare.solver.minimise import schwarz_penalty, stop_when_decided
from laybare.solver.normal import Fit, elimination_order
from laybare.solver.point import (
    FittedPoint,
    Model,
    Point,
    add_units,
    keep_units,
    network_of,
    outputs_at,
    parameter_count,
    parameters_per_unit,
    point_of,
)
from laybare.source.losses import LikelihoodRows


class LikelihoodSearch(NamedTuple):
    """What does not change during a search; `scale` is the deviance of a constant."""

    rows: LikelihoodRows
    model: Model
    search: Search
    scale: float
    rng: Generator
    progress: Progress | None = None

    @staticmethod
    def of(
        rows: LikelihoodRows, activation: Activation, search: Search, *, rng: Generator, progress: Progress | None = None
    ) -> LikelihoodSearch:
        """With the deviance of a constant, which takes a pass."""
        model = sign_free_model(activation, biases=True)
        scale = deviance_at(rows, constant_point(rows, model.start(np.zeros((0, rows.dim + 1)), rows.outputs)))
        return LikelihoodSearch(rows, model, search, max(scale, np.finfo(float).tiny), rng, progress)

    @property
    def equations(self) -> float:
        return self.rows.effective * self.rows.outputs

    def minimise(self, start: Point, effort: Effort | None = None) -> FittedPoint:
        """The fit from a start; if it is interrupted the best so far, marked."""
        try:
            return maximise_likelihood(
                self.rows, start, self.scale, effort=effort or self.search.effort, progress=self.progress)
        except FitInterrupt as stop:
            best: FittedPoint = stop.best
            return best

    def start(self, units: Array) -> Point:
        """Units with readout zero beside the best constant."""
        constant = constant_point(self.rows, self.model.start(units, self.rows.outputs))
        return add_units(constant, units, np.zeros((len(units), self.rows.outputs)))

    def draw_units(self, count: int) -> Array:
        return random_units(count, self.rows.dim, self.search.bias_scale, self.rng)

    def largest_width(self) -> int:
        """Largest width with two equations per free parameter."""
        one = parameter_count(self.start(self.draw_units(1)))
        each = parameters_per_unit(self.start(self.draw_units(1)))
        return int((self.equations / 2.0 - (one - each)) // each)

    def dispersion(self, found: FittedPoint) -> float:
        """φ at a fit, not below rounding."""
        spare = 1.0 - parameter_count(found.point) / self.equations
        phi = dispersion(self.rows, sums_at(self.rows, found.point), spare)
        return float(max(phi, EPS**1.5 * self.scale / self.equations))

    def bic(self, found: FittedPoint, phi: float) -> float:
        return found.loss / phi + schwarz_penalty(parameter_count(found.point), self.equations)

    def order(self, point: Point) -> Array:
        """Units, the least needed first."""
        return elimination_order(point, Fit(*self.rows.sum(FeatureStatistic(point, self.rows.loss), stage="pruning")))[0]


def search_likelihood(context: LikelihoodSearch, width: int | None, known: Array | None = None) -> FittedPoint:
    """The best fit at `width`, or at the width where a further unit gains less than its penalty. `runs`: when two had agreed."""
    limit = context.largest_width()
    if limit < (width or 1):
        raise TooFewSamples(
            f"{context.rows.size:,} rows, {context.rows.effective:,.0f} by their weights, for width {width or 1} in dimension "
            f"{context.rows.dim}.", "They leave too few equations to check the free parameters.",
            "Give more rows, or ask for a smaller width.", largest_width=limit)
    if width is not None:
        return _search_at(context, width, width, known)
    units, best = min(settings.SEARCH.first_width, limit), None
    while True:
        found = _search_at(context, units, None, known)
        best = found if best is None or context.bic(found, context.dispersion(found)) < _same_phi(context, best, found) else best
        if found.trace.reason == "interrupted" or found.point.width < units or units >= limit:
            return best
        units = min(2 * units, limit)


def _same_phi(context: LikelihoodSearch, one: FittedPoint, other: FittedPoint) -> float:
    return context.bic(one, context.dispersion(other))


def _search_at(context: LikelihoodSearch, units: int, given: int | None, known: Array | None) -> FittedPoint:
    """Runs at one width with its spares, until two pruned ones end at the best fit."""
    wide = units + context.search.count_spares(units)
    rows = context.draw_units(wide)
    if known is not None:
        rows[: min(len(known), wide)] = known[:wide]
    ended: list[FittedPoint] = []
    start, runs = context.start(rows), context.search.hops + 2
    for run in range(runs):
        report_progress(context.progress, "searching", run, runs)
        first = context.minimise(start)
        pruned = first if first.trace.reason == "interrupted" else prune_likelihood(context, first, given)
        ended.append(pruned)
        phi = context.dispersion(pruned)
        best = min(ended, key=lambda one, phi=phi: one.loss if given is not None else context.bic(one, phi))  # type: ignore[misc]
        if pruned.trace.reason == "interrupted":
            return replace(best, trace=pruned.trace)
        agreed = [one for one in ended if same_fit(context, one, best, phi)]
        if len(agreed) > 1:
            return replace(best, runs=run + 1)
        start = _repaired(context, best, wide) if run % 2 else context.start(context.draw_units(wide))
    return best


def _repaired(context: LikelihoodSearch, found: FittedPoint, wide: int) -> Point:
    """A fit without its least needed third, and new random units in its place and as spares."""
    order = context.order(found.point)
    rest = keep_units(found.point, np.sort(order[-(-len(order) // 3) :]))
    count = max(1, wide - rest.width)
    return add_units(rest, context.draw_units(count), np.zeros((count, context.rows.outputs)))


def prune_likelihood(context: LikelihoodSearch, found: FittedPoint, width: int | None) -> FittedPoint:
    """Remove units batch by batch: down to `width` if given, else as long as a batch loses less than the penalty of one unit.

    A batch that loses more is halved: a needed unit must not hide behind the penalties of several spare ones.
    """
    goal, batch = (1 if width is None else width), found.point.width
    phi = context.dispersion(found)
    while found.point.width > goal and batch >= 1:
        batch = min(batch, found.point.width - goal)
        fewer = keep_units(found.point, np.sort(context.order(found.point)[batch:]))
        penalty = schwarz_penalty(parameters_per_unit(found.point), context.equations)
        spare = int(max(1, context.equations - parameter_count(fewer)))
        tried = context.minimise(fewer, stop_when_decided(context.search.effort, penalty, spare))
        if tried.trace.reason == "interrupted":
            return replace(found, trace=tried.trace)
        if (tried.loss - found.loss) / phi < penalty or (width is not None and batch == 1):
            found = context.minimise(tried.point)
            batch = found.point.width
            phi = context.dispersion(found)
        else:
            batch //= 2
    return found


def same_fit(context: LikelihoodSearch, one: FittedPoint, other: FittedPoint, phi: float) -> bool:
    """Whether two fits differ by less than a standard error, in the mean over all directions; `phi` is the dispersion.

    As for runs that end early: labels and counts leave the deviance rough near kinks.
    """
    if one.point.width != other.point.width:
        return False
    most = settings.SEARCH.same_minimum_early * parameter_count(one.point) * phi
    if abs(one.loss - other.loss) > most:
        return False
    loss = context.rows.loss

    def apart(x: Array, y: Array) -> Sums:
        first, second = outputs_at(one.point, x), outputs_at(other.point, x)
        return (np.asarray(np.sum(y[:, -2:-1] * loss.rows(first, y[:, :-2]).information * (first - second) ** 2)),)

    (difference,) = context.rows.sum(apart, stage="likelihood")
    return bool(difference <= most)


class SignedFit(NamedTuple):
    """A fit in its own activation, and the claim about its signs, if there was a choice."""

    fit: FittedPoint
    claims: tuple[Claim, ...] = ()


def with_own_signs(context: LikelihoodSearch, found: FittedPoint, activation: Activation) -> SignedFit:
    """A sign-free fit as a network in its own activation, refitted; patterns that its linear part allows compete by deviance.

    If the best of them loses more than Schwarz's penalty of a linear part, that part is kept: it is one of the network's own.
    """
    if found.trace.reason == "interrupted":
        return SignedFit(found)
    effort = Effort(gain_tol=settings.SEARCH.last_gain_tol, kink_tol=settings.SEARCH.last_kink_tol)
    if not found.point.linear:
        return SignedFit(replace(context.minimise(found.point, effort), runs=found.runs))
    folded = network_of(found.point, vector=context.rows.outputs == 1)
    decoded = restore_signs(folded, activation, tol=_linear_tolerance(context, found))
    patterns = decoded.signs.alternatives or (decoded.signs.signs,)
    tries = sorted(
        (_refit(context, with_signs(folded, activation, pattern)) for pattern in patterns[: settings.SEARCH.sign_patterns]),
        key=lambda fit: fit.loss)
    best, phi, rules = tries[0], context.dispersion(found), settings.SEARCH
    penalty = rules.linear_part * schwarz_penalty(context.rows.dim * context.rows.outputs, context.equations)
    if (best.loss - found.loss) / phi > penalty:
        last = context.minimise(point_of(decoded.network, biases=True, offset=True, linear=True), effort)
        text = "the network has a linear part of its own, beside which the signs of its units are a convention."
        claim = Claim(ClaimName.SIGN_PATTERNS, 0.0, 1.0, True, "tested", text)
        return SignedFit(replace(last, runs=found.runs), (claim,))
    rivals = [one for one in tries if (one.loss - best.loss) / phi < rules.sign_gap and not same_fit(context, one, best, phi)]
    text = f"of {len(tries)} sign patterns that noise lets through, refitted, {1 + len(rivals)} explain the rows equally well."
    claim = Claim(ClaimName.SIGN_PATTERNS, 1.0 + len(rivals), 1.0, not rivals, "tested", text)
    return SignedFit(replace(context.minimise(best.point, effort), runs=found.runs), (claim,))


def _refit(context: LikelihoodSearch, network: Network) -> FittedPoint:
    point = point_of(network, biases=True, offset=True, linear=False)
    return context.minimise(point, Effort(max_steps=30))


def _linear_tolerance(context: LikelihoodSearch, found: FittedPoint) -> float:
    """Errors of the linear part relative to the outputs, times the rule for signs."""
    sums, outputs = sums_at(context.rows, found.point), outputs_at(found.point, context.rows.rows.read(0, context.rows.size).x)
    variance = parameter_count(found.point) * context.dispersion(found) / max(float(sums.weight), np.finfo(float).tiny)
    return settings.SEARCH.sign_residual * float(np.sqrt(variance / max(np.var(outputs), np.finfo(float).tiny)))
