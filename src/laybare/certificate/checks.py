"""The checks behind a certificate: what can be known about a recovered network without knowing the truth.

Test loss alone does not reveal wrong parameters: over-wide fits with wrong units reach a relative error of 1e-8. So a certificate asks
for more: no unit that could be left out, every kink crossed by samples, units that can be told apart, more equations than
unknowns, a residual on samples never used before that is no larger than on the used ones, and nothing left in it that features of the
inputs explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.certificate.claims import Certificate, Claim
from laybare.certificate.spread import standard_errors
from laybare.network import Network
from laybare.refinement.normal import Fit, FitStatistic, Point, point_of
from laybare.refinement.overwide import total_variation
from laybare.refinement.pruning import elimination_order, parameter_count
from laybare.refinement.spd import solve_spd
from laybare.shapes import Array, Sums
from laybare.source import Source

EXACT = 1e-18
"""Relative mean square below which data count as noiseless and fitted: solved fits end below 1e-28, stuck ones above 1e-6."""

PROBES = 20
"""Random kinks that the residual is regressed on."""

PARALLEL = 0.999
"""|cosine| of two extended rows (w, b) beyond which they are hard to tell apart."""

SIGMAS = 4.0


def certify(
    network: Network, used: Source, fresh: Source, *, biases: bool, offset: bool, rng: Generator, extra: tuple[Claim, ...] = ()
) -> Certificate:
    """Certificate of `network`, fitted to `used`, with `fresh` samples that nothing has seen. Four passes."""
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    fit = Fit(*used.sum(FitStatistic(point), stage="certificate"))
    equations, unknowns = used.size * used.outputs, parameter_count(point)
    noise2 = float(fit.loss) / max(1, equations - unknowns)
    variance = total_variation(used) / equations
    residual = _Residual.of(network, fresh, rng)
    claims = [
        _enough_samples(equations, unknowns),
        _fresh_residual(residual, noise2, variance, unknowns / equations),
        _nothing_left(residual, variance, unknowns / equations),
        _no_removable_unit(point, fit, noise2, variance),
        _separated(network),
    ]
    if network.activation.kinks:
        claims.append(_kinks_crossed(network, used))
    errors = standard_errors(network, used, float(np.sqrt(noise2)), biases=biases, offset=offset)
    return Certificate((*claims, *extra), errors, float(np.sqrt(noise2)))


@dataclass(frozen=True)
class _Residual:
    """Sums of the fresh residual: its square, its share explained by probing features, and their number."""

    count: int
    square: float
    explained: float
    features: int

    @staticmethod
    def of(network: Network, fresh: Source, rng: Generator) -> _Residual:
        weights = rng.standard_normal((PROBES, network.dim)) / np.sqrt(network.dim)
        shifts = rng.standard_normal(PROBES)
        quadratic = fresh.size > 4 * (1 + 2 * network.dim + PROBES)

        def statistic(x: Array, y: Array) -> Sums:
            r = y - network(x).reshape(y.shape)
            spread = (x - centre) / width
            parts = [np.ones((len(x), 1)), spread, np.abs(spread @ weights.T + shifts)]
            phi = np.hstack([*parts, spread**2] if quadratic else parts)
            return phi.T @ phi, phi.T @ r, np.sum(r * r)

        (total, squares) = fresh.sum(lambda x, y: (x.sum(axis=0), (x * x).sum(axis=0)), stage="certificate")
        centre = total / fresh.size
        width = np.sqrt(np.maximum(squares / fresh.size - centre**2, 0.0))
        width[width == 0.0] = 1.0
        gram, moment, square = fresh.sum(statistic, stage="certificate")
        explained = float(np.sum(moment * solve_spd(gram, moment)))
        return _Residual(fresh.size * fresh.outputs, float(square), explained, len(gram) * fresh.outputs)


def _enough_samples(equations: int, unknowns: int) -> Claim:
    ratio = equations / unknowns
    return Claim(
        "equations per unknown", ratio, 1.2, ratio >= 1.2, "proved",
        f"{equations:,} numbers were fitted with {unknowns:,} free ones; below 1.2 a fit proves little, at 1 nothing.")


def _fresh_residual(residual: _Residual, noise2: float, variance: float, load: float) -> Claim:
    """Fresh mean square against that of the used samples, corrected for the parameters fitted; both may be rounding."""
    floor = EXACT * variance
    ratio = (residual.square / residual.count + floor) / (noise2 + floor)
    limit = (1.0 + 2.0 * load) * (1.0 + SIGMAS * np.sqrt(2.0 / residual.count)) + SIGMAS * np.sqrt(2.0 / residual.count) * load
    return Claim(
        "fresh residual over used residual", ratio, float(limit), ratio <= limit, "tested",
        f"mean square on {residual.count:,} fresh numbers, {residual.square / residual.count / variance:.1e} of the variance of y, "
        "against the used ones; larger means over-fitting or a wrong network.", decisive=True)


def _nothing_left(residual: _Residual, variance: float, load: float) -> Claim:
    """Share of the fresh residual that probing features explain, against what chance and estimation error allow (χ²)."""
    mean = residual.square / residual.count
    free = residual.features
    limit = (free + SIGMAS * np.sqrt(2.0 * free) + residual.count * load) / residual.count
    share = residual.explained / residual.square if mean > EXACT * variance else 0.0
    return Claim(
        "structure left in the residual", share, float(limit), share <= limit, "tested",
        f"share of the fresh residual that {free} features of the inputs explain; noise would leave about {free / residual.count:.2g}, "
        "a missed or wrong unit leaves more.", decisive=True)


def _no_removable_unit(point: Point, fit: Fit, noise2: float, variance: float) -> Claim:
    """The cheapest unit's share of the fit against the noise: what leaving it out would cost, per free number of it."""
    _, costs = elimination_order(point, fit)
    noise = max(noise2, EXACT * variance) * (point.units.shape[1] + 1)
    value = float(costs[0]) / noise if len(costs) else np.inf
    limit = float(np.log(max(float(fit.rows), 2.0)))
    return Claim(
        "cheapest unit over noise", value, limit, value > limit, "tested",
        "what leaving out the least important unit would add to the squared error, over what its free numbers would take from noise; "
        "small means that the width is not supported by the data.")


def _separated(network: Network) -> Claim:
    rows = network.layer.rows
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    cosines = np.abs(rows @ rows.T) - np.eye(len(rows)) * 2.0
    value = max(0.0, float(cosines.max())) if len(rows) > 1 else 0.0
    return Claim(
        "largest cosine of two units", value, PARALLEL, value < PARALLEL, "proved",
        "two units with nearly the same row (w, b) can trade weight without changing the fit.")


def _kinks_crossed(network: Network, used: Source) -> Claim:
    """Samples on the thinner side of each kink: a unit that is linear on all samples cannot be seen."""
    kinks = np.array(network.activation.kinks)

    def statistic(x: Array, y: Array) -> Sums:
        return (np.sum(network.layer.before(x)[:, :, None] > kinks, axis=0),)

    (above,) = used.sum(statistic, stage="certificate")
    thinner = np.minimum(above, used.size - above).min(axis=1)
    worst, need = int(np.argmin(thinner)), network.dim + 2
    return Claim(
        "samples beyond the least crossed kink", float(thinner.min()), need, bool(thinner.min() >= need), "proved",
        f"unit {worst} has {int(thinner.min())} of {used.size:,} samples on the thinner side of its kink; it takes dim + 2 to fix its row.")
