"""A unit that never bends where inputs can reach, and is always on: an affine map of the features, which joins what lies above.

On floor 1 every h ≥ 0 can be reached, so a unit is always on if its weights and its bias are not negative. If the lines have met
every unit of the layer that bends, what is left of the gradients lies along its row u: g = C W + D u. The part of u along W is
told by the units that bend: where unit j is off, nothing of it may be left, so that its coefficient there is D times a number,
and that number belongs to u. On its active side the coefficient is something else, which tells the sign as without such a
unit, unless D is everywhere the same: relu(z) = relu(-z) + z, so that in a last layer with one output an affine map hides the
active sides. Then those are taken for which u has one sign, which as a rule are told by that. Several units that are always on
cannot be told from their sum, and the bias no answer tells.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from laybare.lines.following import Seen, exact_slopes
from laybare.lines.layers import LEVELS, RELATIVE, LayerRead, choices, unsigned, with_readout
from laybare.shapes import Array

CHOICES, MOST_UNTOLD = 12, 16
"""Choices of suspects that are tried; and units of which all combinations of signs are."""

NEGATIVE = 1e-7
"""Weights above this share of the largest one are not negative."""


def folded_layer(seen: Seen) -> LayerRead | None:
    """The layer with a row that is always on, if this and its own explain all gradients."""
    tried = islice(choices(seen.suspects), CHOICES)
    reads = (_folded(unsigned(seen, (*seen.surfaces, *chosen))) for chosen in (*tried, ()))
    return next((read for read in reads if read is not None), None)


def _folded(read: LayerRead) -> LayerRead | None:
    if read.trouble or len(read.weights) >= read.seen.floor.width:
        return None
    slopes, inverse = exact_slopes(read.seen.slopes), np.linalg.pinv(read.weights)
    g = np.array([slope.values.T for slope in slopes])  # (n, outputs, width)
    C = g @ inverse
    rest = g - C @ read.weights
    sizes, rows = np.linalg.svd(rest.reshape(-1, g.shape[2]), full_matrices=False)[1:]
    noise = np.sqrt(g.shape[2]) * np.array([slope.sd for slope in slopes])
    if int(np.sum(sizes > LEVELS * np.sqrt(len(g)) * noise.max() + RELATIVE * np.abs(C).max())) != 1:
        return None
    D = rest @ rows[0]
    z = read.seen.floor.features(np.array([slope.x for slope in slopes])) @ read.weights.T + read.biases
    if ((z > 0.0).all(axis=0) | (z < 0.0).all(axis=0)).any():
        return None  # nothing is known of one side of a unit
    level = LEVELS * noise[:, None] * np.linalg.norm(inverse, axis=0) + RELATIVE * np.abs(C).max(axis=(0, 1))
    shares = np.array([
        [_share(C[..., j], D, s * z[:, j] < 0.0, level[:, j]) for s in (1.0, -1.0)] for j in range(len(read.biases))])
    signs = _signs(rows[0], read.weights, shares)
    if not len(signs):
        return None
    share = np.where(signs[0] > 0.0, shares[:, 0], shares[:, 1])
    row = rows[0] + share @ read.weights
    size = float(np.linalg.norm(row)) * (1.0 if row[np.argmax(np.abs(row))] > 0.0 else -1.0)
    whole = replace(
        read, weights=np.vstack([signs[0][:, None] * read.weights, row / size]), biases=np.append(signs[0] * read.biases, 1.0),
        sd=np.append(read.sd, float(np.median(read.sd))), trouble="", folded=1, untold=int(np.sum(np.ptp(signs, axis=0) > 0.0)))
    coefficients = np.concatenate([signs[0] * (C - D[..., None] * share), size * D[..., None]], axis=2)
    return with_readout(whole, slopes, coefficients, np.column_stack([level, level.max(axis=1)]))


def _share(coefficients: Array, D: Array, off: Array, level: Array) -> float:
    """The number c with coefficients = c D wherever the unit is off; NaN if there is none."""
    c = float(np.sum(coefficients[off] * D[off]) / np.sum(D[off] ** 2))
    left = np.abs(coefficients[off] - c * D[off]).max(axis=1)
    return np.nan if (left > level[off]).any() else c


def _signs(row: Array, weights: Array, shares: Array) -> Array:
    """The signs (k, m) of all units with which the row that is always on has no two entries of different signs."""
    open_ = np.flatnonzero(~np.isnan(shares).any(axis=1))
    if len(open_) > MOST_UNTOLD or np.isnan(shares).all(axis=1).any():
        return np.empty((0, len(weights)))
    bits = (np.arange(2 ** len(open_))[:, None] >> np.arange(len(open_))) & 1
    signs = np.tile(np.where(np.isnan(shares[:, 0]), -1.0, 1.0), (len(bits), 1))
    signs[:, open_] = 1.0 - 2.0 * bits
    rows = row + np.where(signs > 0.0, np.nan_to_num(shares[:, 0]), np.nan_to_num(shares[:, 1])) @ weights
    largest = np.abs(rows).max(axis=1)
    return np.asarray(signs[np.minimum(-rows.min(axis=1), rows.max(axis=1)) <= NEGATIVE * largest])
