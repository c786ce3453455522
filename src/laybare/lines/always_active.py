"""A unit of the second layer that is active for all inputs: an affine map of the features, which joins what lies above.

In the first feature space every h ≥ 0 can be reached, so a unit is always active if its weights and its bias are not negative. If
the lines have met every unit of the layer that bends, what is left of the gradients lies along its row u: g = C W + D u. The part
of u along W follows from the units that bend: where unit j is inactive, its coefficient must be D times a number, and that number
belongs to u. On its active side the coefficient is something else, which decides the sign as without such a unit, unless D is
constant: relu(z) = relu(-z) + z, so that in a last layer with one output an affine map hides the active sides. Then those are
taken for which u has one sign, which as a rule is unique. Several always active units cannot be told from their sum, and their
bias cannot be measured.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from laybare.lines.layer import LayerEstimate, layer_without_sides, subsets_to_try, with_readout
from laybare.lines.observations import LAYER, LayerObservations, accurate_gradients
from laybare.numerics.shapes import Array


def layer_with_always_active_unit(observed: LayerObservations) -> LayerEstimate | None:
    """The layer with one always active row, if this and the others explain all gradients."""
    tried = islice(subsets_to_try(observed.undecided), LAYER.max_always_active_subsets)
    layers = (_add_row(layer_without_sides(observed, (*observed.hyperplanes, *chosen))) for chosen in (*tried, ()))
    return next((layer for layer in layers if layer is not None), None)


def _add_row(layer: LayerEstimate) -> LayerEstimate | None:
    if layer.failure or len(layer.weights) >= layer.observed.space.width:
        return None
    gradients, inverse = accurate_gradients(layer.observed.gradients), np.linalg.pinv(layer.weights)
    g = np.array([gradient.values.T for gradient in gradients])  # (n, outputs, width)
    C = g @ inverse
    rest = g - C @ layer.weights
    sizes, rows = np.linalg.svd(rest.reshape(-1, g.shape[2]), full_matrices=False)[1:]
    noise = np.sqrt(g.shape[2]) * np.array([gradient.sd for gradient in gradients])
    if int(np.sum(sizes > LAYER.zero_sds * np.sqrt(len(g)) * noise.max() + LAYER.zero_share * np.abs(C).max())) != 1:
        return None
    D = rest @ rows[0]
    z = layer.observed.space.features(np.array([gradient.x for gradient in gradients])) @ layer.weights.T + layer.biases
    if ((z > 0.0).all(axis=0) | (z < 0.0).all(axis=0)).any():
        return None  # nothing is known of one side of a unit
    level = LAYER.zero_sds * noise[:, None] * np.linalg.norm(inverse, axis=0) + LAYER.zero_share * np.abs(C).max(axis=(0, 1))
    shares = np.array([
        [_share_where_inactive(C[..., j], D, s * z[:, j] < 0.0, level[:, j]) for s in (1.0, -1.0)]
        for j in range(len(layer.biases))])
    signs = _signs_with_one_sided_row(rows[0], layer.weights, shares)
    if not len(signs):
        return None
    share = np.where(signs[0] > 0.0, shares[:, 0], shares[:, 1])
    row = rows[0] + share @ layer.weights
    size = float(np.linalg.norm(row)) * (1.0 if row[np.argmax(np.abs(row))] > 0.0 else -1.0)
    whole = replace(
        layer, weights=np.vstack([signs[0][:, None] * layer.weights, row / size]), biases=np.append(signs[0] * layer.biases, 1.0),
        sd=np.append(layer.sd, float(np.median(layer.sd))), failure="", always_active=1,
        undecided_sides=int(np.sum(np.ptp(signs, axis=0) > 0.0)))
    coefficients = np.concatenate([signs[0] * (C - D[..., None] * share), size * D[..., None]], axis=2)
    return with_readout(whole, gradients, coefficients, np.column_stack([level, level.max(axis=1)]))


def _share_where_inactive(coefficients: Array, D: Array, off: Array, level: Array) -> float:
    """The number c with coefficients = c D wherever the unit is inactive; NaN if there is none."""
    c = float(np.sum(coefficients[off] * D[off]) / np.sum(D[off] ** 2))
    left = np.abs(coefficients[off] - c * D[off]).max(axis=1)
    return np.nan if (left > level[off]).any() else c


def _signs_with_one_sided_row(row: Array, weights: Array, shares: Array) -> Array:
    """The signs (k, m) of all units with which the always active row has no entries of different signs."""
    open_ = np.flatnonzero(~np.isnan(shares).any(axis=1))
    if len(open_) > LAYER.max_undecided_sides or np.isnan(shares).all(axis=1).any():
        return np.empty((0, len(weights)))
    bits = (np.arange(2 ** len(open_))[:, None] >> np.arange(len(open_))) & 1
    signs = np.tile(np.where(np.isnan(shares[:, 0]), -1.0, 1.0), (len(bits), 1))
    signs[:, open_] = 1.0 - 2.0 * bits
    rows = row + np.where(signs > 0.0, np.nan_to_num(shares[:, 0]), np.nan_to_num(shares[:, 1])) @ weights
    largest = np.abs(rows).max(axis=1)
    return np.asarray(signs[np.minimum(-rows.min(axis=1), rows.max(axis=1)) <= LAYER.negative_share * largest])
