"""Signs and readout of a last layer whose rows are known, from all gradients; and what no unit of it explains.

Every measured gradient is g = Bᵀ (Σⱼ aⱼ [zⱼ > 0] wⱼ + v), linear in a and v. If all signs are right and every unit bends
somewhere, v = 0. A unit with the wrong sign leaves -aⱼ wⱼ in v, so the coefficients of v with respect to aⱼ wⱼ are 0 or -1: those
tell the signs. What is left then belongs to units that never bend where inputs can reach, and are always on: an affine map of
the features, which one unit for each output (or fewer) that is always on stands for. Beside such a map signs make no difference:
relu(z) = relu(-z) + z. Needs independent rows, so no more units than features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lines.following import Seen, exact_slopes
from laybare.lines.layers import LayerRead
from laybare.lines.parts import Branches
from laybare.shapes import Array

FITS, SIGN = 1e-5, 1e-3
"""Relative misfit of all gradients, and distance of the coefficients of v from 0 and -1, of a last layer."""

NOTHING = 1e-6
"""What is left of v below this share of the readout is rounding."""

ON = 4.0
"""How far a unit that is always on is from bending, in units of the largest value that was seen of it."""


class Explanation(NamedTuple):
    """Rows (m, features), biases (m,), readout (m, outputs), offset (outputs,); what no unit explains: `folded` rows of length 1,
    their readout."""

    weights: Array
    biases: Array
    readout: Array
    offset: Array
    folded: Array
    folded_readout: Array


class GradientFit(NamedTuple):
    """Readout a (m, outputs) and linear part v (features, outputs) of all gradients; the features (n, k) they were measured at;
    and which of them is known best."""

    readout: Array
    linear: Array
    features: Array
    best: int


def gradient_fit(branches: Branches, W: Array, b: Array, beyond: tuple[Array, bool] | None = None) -> GradientFit | None:
    """Least squares of all gradients; None if they do not fit, or if the rows are not independent.

    `beyond`: features for which the last row is not known, and whether its unit is on where one of them is active.
    """
    slopes = exact_slopes(branches.slopes)
    if len(W) > W.shape[1] or np.linalg.cond(W) > 1e7:
        return None
    places = [branches.above(slope.x) for slope in slopes]
    h = np.maximum(np.array([before[-1] for before, _ in places]), 0.0)
    active = h @ W.T + b > 0.0
    if beyond is not None:
        active[(h[:, beyond[0]] > 0.0).any(axis=1), -1] = beyond[1]
    weight = 1.0 / np.array([slope.sd for slope in slopes])
    A = np.vstack([w * np.hstack([B.T @ (on * W.T), B.T]) for (_, B), on, w in zip(places, active, weight, strict=True)])
    y = np.vstack([w * slope.values for slope, w in zip(slopes, weight, strict=True)])
    solved = np.linalg.lstsq(A, y, rcond=1e-13)[0]
    off = np.abs(A @ solved - y) / np.repeat(weight, branches.floor.width)[:, None]
    a, v = solved[: len(W)], solved[len(W) :]
    return None if off.max() > FITS * np.abs(a).max() else GradientFit(a, v, h, int(np.argmax(weight)))


def explanation(branches: Branches) -> Explanation | None:
    """Signs and readout from all gradients; None if the units that are known do not explain them."""
    units = branches.whole
    if not units:
        return None
    W, b = np.array([unit.row for unit in units]), np.array([unit.bias for unit in units])
    fit = gradient_fit(branches, W, b)
    if fit is None:
        return None
    a, v, h, best = fit
    share = np.sum((np.linalg.pinv(W).T @ v) * a, axis=1) / np.sum(a * a, axis=1)
    wrong = np.abs(share + 1.0) < SIGN
    rest = v + W[wrong].T @ a[wrong]
    sign = np.where(wrong, -1.0, 1.0)
    W, b = sign[:, None] * W, sign * b
    offset = exact_slopes(branches.slopes)[best].answer - np.maximum(W @ h[best] + b, 0.0) @ a - h[best] @ rest
    rows, sizes, mixes = np.linalg.svd(rest, full_matrices=False)
    large = sizes > NOTHING * np.abs(a).max()
    return Explanation(W, b, a, offset, rows.T[large], (sizes[:, None] * mixes)[large])


def layer_read(branches: Branches, told: Explanation) -> LayerRead:
    """The layer, with units that are always on for what the others do not explain."""
    surfaces = tuple(surface for unit in branches.whole for surface in unit.surfaces)
    h = np.maximum(np.array([branches.above(slope.x)[0][-1] for slope in branches.slopes]), 0.0)
    lift = 1.0 + ON * np.abs(h @ told.folded.T).max(axis=0)
    seen = Seen(branches.floor, surfaces, (), tuple(exact_slopes(branches.slopes)), 0, branches.lines, branches.quiet)
    sd = np.array([max(s.sd for s in unit.surfaces) for unit in branches.whole])
    return LayerRead(
        seen, np.vstack([told.weights, told.folded]), np.append(told.biases, lift), np.append(sd, np.full(len(lift), sd.max())),
        "", np.vstack([told.readout, told.folded_readout]), told.offset - lift @ told.folded_readout, len(lift),
        len(told.weights) if len(lift) else 0)
