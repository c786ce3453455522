"""Units measured again where they can be measured best, once all units are known nearly.

On a line a unit is measured wherever the line happens to meet it, between neighbours that may be very near. Known units leave a
choice of better points. One stencil (dim + 1 queries) at each; errors are those of rounding over the length of the steps, which
the known kinks bound, and errors of other units do not enter.

**One layer**, for networks too large for the fit, or before it. With independent normals (width ≤ dim) there is a point at any
distance from every hyperplane, on any side of it: N (x - p) = h + z is a linear system. Unit i is measured where it alone is
active and all hyperplanes are ρ away, f(x) = c + v·(x - p) + aᵢ (nᵢ·(x - p) - hᵢ), and c and v where no unit is.

**The lowest layer of a deep network** too large for a joint fit. Some of its units can be switched off and others on, each at any
distance. Between a base point, where a unit is off, and the same with it alone switched on, and nothing above changing sides, the
gradients differ by c wᵢ and the values by c zᵢ: that gives the row and the bias.

**The second layer**, once the lowest one is known to the last digits. Features h ≥ 0 can be chosen freely, and a linear program
finds the point of a unit's hyperplane that is farthest from all other kinks, in the cell where it was first met
(`laybare.lines.reachable`). Stencils in the features on both sides of it differ by c w: 2 (width + 1) queries per unit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.lines.deep_fit import DeepParameters, LayerErrors
from laybare.lines.layer import LayerEstimate
from laybare.lines.model_fit import FIT, unit_error_bars
from laybare.lines.partial_network import PartialNetwork, UnitEstimates
from laybare.lines.query import QueryContext
from laybare.lines.reachable import isolated_point
from laybare.numerics.shapes import Array


class LocalAffine(NamedTuple):
    """The function around a point (an input, or features): value (outputs,), gradient (dim, outputs), sd of its entries."""

    point: Array
    value: Array
    gradient: Array
    sd: float

    def at(self, x: Array) -> Array:
        """The affine function at another point, (outputs,)."""
        return np.asarray(self.value + (x - self.point) @ self.gradient)


def remeasure_units(
    context: QueryContext, model: PartialNetwork, *, precision: float, max_queries: int, spread: float = 1.0
) -> PartialNetwork:
    """The model with its worst units measured again, until all error bars are below `precision` or the queries are spent.

    Unchanged if there are more units than dimensions, or if their normals are dependent.
    """
    cost, left = len(model.point) + 1, context.queries.left
    if left is not None:
        max_queries = min(max_queries, left - cost)
    bars = unit_error_bars(model)
    wanted = [int(i) for i in np.argsort(-bars) if FIT.precision_sds * bars[i] > precision][: max(0, max_queries // cost - 1)]
    inverse = _inverse_of_normals(model.units) if wanted else None
    if inverse is None:
        return model
    clearance = FIT.clearance * spread
    base = _measure_affine(context, model, _isolated_point(model, inverse, None, clearance))
    if np.abs(base.gradient - model.gradient).max() > FIT.max_change_sds * (base.sd + model.gradient_sd):
        return model
    model = replace(model, value=base.at(model.point), gradient=base.gradient, gradient_sd=base.sd)
    for i in wanted:
        beyond = _measure_affine(context, model, _isolated_point(model, inverse, i, clearance))
        model = _update_unit(model, i, beyond, base)
    return model


def _inverse_of_normals(units: UnitEstimates) -> Array | None:
    """The pseudo-inverse of the normals (dim, k), if they are independent enough."""
    if len(units) > units.normals.shape[1] or np.linalg.cond(units.normals) > FIT.max_condition:
        return None
    return np.asarray(np.linalg.pinv(units.normals))


def _isolated_point(model: PartialNetwork, inverse: Array, i: int | None, clearance: float) -> Array:
    """The nearest point to p at which unit i alone is active (none for i None), with clearance from all hyperplanes."""
    now = -model.units.distances
    wanted = np.minimum(now, -clearance)
    if i is not None:
        wanted[i] = clearance
    return np.asarray(model.point + inverse @ (wanted - now))


def _update_unit(model: PartialNetwork, i: int, beyond: LocalAffine, base: LocalAffine) -> PartialNetwork:
    """The model with unit i from the two sides of its hyperplane, if that is an improvement."""
    units = model.units
    jump = beyond.gradient - base.gradient
    along = units.readouts[i] / np.linalg.norm(units.readouts[i])
    row = jump @ along
    size = float(np.linalg.norm(row))
    if size == 0.0:  # it does not bend there: the borders of another layer end
        return model
    normal, sd = row / size, float(np.hypot(beyond.sd, base.sd)) / size
    off = float(np.abs(normal - units.normals[i]).max())
    if sd >= units.normal_sd[i] or off > FIT.max_change_sds * (units.normal_sd[i] + sd):
        return model
    height = float((beyond.at(beyond.point) - base.at(beyond.point)) @ along) / size
    distance = float((beyond.point - model.point) @ normal) - height
    readout = jump.T @ normal

    def put(old: Array, value: Array | float) -> Array:
        new = old.copy()
        new[i] = value
        return new

    return replace(model, units=replace(
        units, normals=put(units.normals, normal), distances=put(units.distances, distance),
        readouts=put(units.readouts, readout), normal_sd=put(units.normal_sd, sd),
        distance_sd=put(units.distance_sd, (1.0 + distance) * sd),
        readout_sd=put(units.readout_sd, sd * float(np.abs(readout).max()))))


def _measure_affine(context: QueryContext, model: PartialNetwork, point: Array) -> LocalAffine:
    """Value and gradient at a point, with steps that stay on its side of every known hyperplane."""
    units, (queries, rounding, _) = model.units, context
    z = np.abs((point - model.point) @ units.normals.T - units.distances)
    with np.errstate(divide="ignore"):
        steps = FIT.step_share * (z[:, None] / np.abs(units.normals)).min(axis=0)
    steps = np.minimum(steps, np.linalg.norm(point) + 1.0)
    value = queries.ask(point[None], "polish")
    y = queries.ask_stencil(point, np.arange(len(point)), steps, "polish")
    noise = np.sqrt(2.0) * rounding.sd(point[None], value)[0]
    return LocalAffine(point, value[0], (y - value) / steps[:, None], float(np.sqrt(np.mean((noise / steps) ** 2))))


class UpperLinearisation(NamedTuple):
    """z and its derivatives A with respect to the first features, for all units above the lowest layer; the answers' slope."""

    z: Array
    rates: Array
    slope: Array


class RemeasuredNetwork(NamedTuple):
    """The network with a layer measured again, and the errors of its units; infinite for those that are unchanged."""

    network: DeepParameters
    errors: LayerErrors


class MeasuredUnit(NamedTuple):
    """Row, bias, and the standard deviations of the row's entries and of the bias."""

    row: Array
    bias: float
    row_sd: float
    bias_sd: float


def remeasure_lowest_layer(context: QueryContext, network: DeepParameters, *, spread: float) -> RemeasuredNetwork:
    """Rows and biases of the lowest layer from stencils where each unit is alone. Units without a good place are unchanged.

    Those that come out poorly, because something bends beside their place, are tried from other base points.
    """
    units = len(network.layers[0][1])
    errors = LayerErrors(np.full(units, np.inf), np.full(units, np.inf))
    for _ in range(FIT.base_rounds):
        rows = errors.rows
        wanted = rows > FIT.poor_ratio * float(np.median(rows)) if np.isfinite(rows).any() else np.ones(units, bool)
        if not wanted.any():
            break
        network, errors = _remeasure_from_bases(context, RemeasuredNetwork(network, errors), wanted, spread)
    return RemeasuredNetwork(network, errors)


def _remeasure_from_bases(
    context: QueryContext, before: RemeasuredNetwork, wanted: Array, spread: float
) -> RemeasuredNetwork:
    """The wanted units from stencils at new base points, where these are more exact."""
    network, errors, rng = before.network, LayerErrors(*(part.copy() for part in before.errors)), context.rng
    weights, biases = (part.copy() for part in network.layers[0])
    inverse, units, clearance = np.linalg.pinv(weights), len(biases), FIT.clearance * spread
    bases = [-clearance * np.ones(units)]
    bases += [clearance * rng.choice([-1.0, 1.0], units) * rng.uniform(0.5, 1.5, units) for _ in range(FIT.base_points)]
    chosen, lengths = _best_bases(network, bases, FIT.max_distance * spread)
    for number, base in enumerate(bases):
        mine = np.flatnonzero(wanted & (chosen == number) & (lengths[number] > 0.0))
        if not len(mine):
            continue
        off = _affine_at_input(context, network, inverse @ (base - network.layers[0][1]), spread)
        for i in mine:
            place = base.copy()
            place[i] = 0.5 * lengths[number, i]
            on = _affine_at_input(context, network, inverse @ (place - network.layers[0][1]), spread)
            unit = _unit_between(weights[i], float(biases[i]), off, on)
            if unit.row_sd < errors.rows[i]:
                weights[i], biases[i], errors.rows[i], errors.biases[i] = unit
    return RemeasuredNetwork(network._replace(layers=((weights, biases), *network.layers[1:])), errors)


def _best_bases(network: DeepParameters, bases: list[Array], farthest: float) -> tuple[Array, Array]:
    """For every unit the number of its best base, and for every base and unit how far it can be switched on there."""
    lengths, gains = (np.zeros((len(bases), len(bases[0]))) for _ in range(2))
    for number, base in enumerate(bases):
        upper = _linearise_above(network, np.maximum(base, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(upper.rates * upper.z[:, None] < 0.0, -upper.z[:, None] / upper.rates, np.inf)
        lengths[number] = np.where(base < 0.0, np.minimum(ends.min(axis=0), farthest), 0.0)
        gains[number] = lengths[number] * np.abs(upper.slope).max(axis=1)
    return gains.argmax(axis=0), lengths


def _linearise_above(network: DeepParameters, h: Array) -> UpperLinearisation:
    """The layers above the lowest one, where its features are h."""
    A, z, before, rates = np.eye(len(h)), h, [], []
    for weights, biases in network.layers[1:]:
        A, z = weights @ A, weights @ z + biases
        before.append(z)
        rates.append(A)
        A, z = np.where(z[:, None] > 0.0, A, 0.0), np.maximum(z, 0.0)
    return UpperLinearisation(np.concatenate(before), np.vstack(rates), A.T @ network.readout)


def _safe_steps(z: Array, rates: Array, spread: float) -> Array:
    """Steps along each axis that end before the nearest known kink."""
    with np.errstate(divide="ignore"):
        nearest = (np.abs(z)[:, None] / np.abs(rates)).min(axis=0)
    return np.asarray(np.minimum(FIT.deep_step_share * nearest, FIT.max_distance * spread))


def _affine_at_input(context: QueryContext, network: DeepParameters, x: Array, spread: float) -> LocalAffine:
    weights, biases = network.layers[0]
    lowest = weights @ x + biases
    upper = _linearise_above(network, np.maximum(lowest, 0.0))
    rates = np.vstack([weights, upper.rates @ np.where(lowest[:, None] > 0.0, weights, 0.0)])
    steps = _safe_steps(np.append(lowest, upper.z), rates, spread)
    y = context.queries.ask_stencil(x, np.append(np.arange(len(x)), 0), np.append(steps, 0.0), "gradients")
    return _as_affine(context, x, x, steps, y)


def _as_affine(context: QueryContext, point: Array, x: Array, steps: Array, y: Array) -> LocalAffine:
    """From answers y at all steps, and at the point itself, which is the input x."""
    noise = float(context.rounding.sd(x[None], y[-1:])[0]) / steps
    return LocalAffine(point, y[-1], (y[:-1] - y[-1]) / steps[:, None], float(np.sqrt(np.mean(noise**2))))


def _unit_between(row: Array, bias: float, off: LocalAffine, on: LocalAffine) -> MeasuredUnit:
    """A unit from both sides of its hyperplane; unchanged, with infinite deviations, if it is not this unit."""
    jump = on.gradient - off.gradient
    c = row @ jump
    along = jump @ c
    size = float(np.linalg.norm(along))
    if size == 0.0 or np.abs(along / size - row).max() > FIT.max_row_change:
        return MeasuredUnit(row, bias, np.inf, np.inf)
    moved = along / size
    value = float((on.value - off.value - (on.point - off.point) @ off.gradient) @ c) / float((moved @ jump) @ c)
    sd = float(np.hypot(on.sd, off.sd)) * float(np.linalg.norm(c)) / size
    return MeasuredUnit(moved, value - float(moved @ on.point), sd, sd * (1.0 + float(np.linalg.norm(on.point))))


def remeasure_second_layer(
    context: QueryContext, network: DeepParameters, layer: LayerEstimate, *, spread: float
) -> RemeasuredNetwork:
    """Rows and biases of the second layer from stencils beside each unit. Units without a good place are unchanged."""
    weights, biases = (part.copy() for part in network.layers[1])
    inverse = np.linalg.pinv(network.layers[0][0])
    errors = LayerErrors(np.full(len(biases), np.inf), np.full(len(biases), np.inf))
    for j in range(len(biases)):
        start = _features_on_unit(network, layer, weights[j])
        place = None if start is None else isolated_point(network.layers[1:], start, j, spread)
        if place is None:
            continue
        h, room = place
        off, on = (
            _affine_at_features(context, network, inverse, h + side * FIT.second_layer_offset * room * weights[j], spread)
            for side in (-1.0, 1.0))
        weights[j], biases[j], errors.rows[j], errors.biases[j] = _unit_between(weights[j], float(biases[j]), off, on)
    return RemeasuredNetwork(network._replace(layers=(network.layers[0], (weights, biases), *network.layers[2:])), errors)


def _features_on_unit(network: DeepParameters, layer: LayerEstimate, row: Array) -> Array | None:
    """Features where a line has met the unit of this row."""
    mine = next((surface for surface in layer.observed.known if 1.0 - abs(float(surface.normal @ row)) < 1e-6), None)
    weights, biases = network.layers[0]
    return None if mine is None else np.maximum(weights @ mine.x + biases, 0.0)


def _affine_at_features(context: QueryContext, network: DeepParameters, inverse: Array, h: Array, spread: float) -> LocalAffine:
    """From answers at steps along the features."""
    upper = _linearise_above(network, h)
    steps = _safe_steps(np.append(h, upper.z), np.vstack([np.eye(len(h)), upper.rates]), spread)
    x = inverse @ (h - network.layers[0][1])
    y = context.queries.ask(np.vstack([x + steps[:, None] * inverse.T, x]), "gradients")
    return _as_affine(context, h, x, steps, y)
