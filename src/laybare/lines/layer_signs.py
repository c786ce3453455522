"""Active sides, readout and completeness of a third or higher layer, from all gradients with respect to the first features.

**Last layer.** Every measured gradient is g = Bᵀ (Σⱼ aⱼ [zⱼ > 0] wⱼ + v), linear in a and v. If all signs are right and all units
bend somewhere, v = 0. A unit with the wrong sign leaves -aⱼ wⱼ in v, so the coefficients of v with respect to aⱼ wⱼ are 0 or -1:
they decide the signs. The rest of v belongs to units that are always active: an affine map of the features, which at most one
always active unit per output stands for. Beside such a map signs make no difference: relu(z) = relu(-z) + z. Needs independent
rows, so no more units than features.

**Weights that no kink gives** (`complete_row`). The surface of a unit may end before it reaches the boundary of some feature. If
the unit is active wherever that feature is, every gradient there contains the weight times the readout; if it is inactive there,
none does. So the gradients are fitted with these weights at zero, and the unit on one side, then on the other, wherever they
matter. Outside of these features v is a sum of aⱼ wⱼ of the units with the wrong sign; what is left of v at them are the weights.
The fit of the completed layer confirms it or not.

**Middle layer.** With layers above, g = Bᵀ v gives v at the active features, where it is a combination of the rows of the active
units: v = Σⱼ cⱼ wⱼ with cⱼ = 0 for the others. Layers above change c from place to place, and not this. So signs are right if the
active rows explain all gradients. Where all rows are independent on the active features, one gradient gives c, and with it active
sides; the other signs are searched by flips that leave fewer gradients unexplained. If no choice explains all of them, a unit is
missing; if two do, some active sides are undecided. Cost: n small singular value decompositions per choice, no query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.assembly.sign_decoding import decode_signs
from laybare.lines.layer import LayerEstimate
from laybare.lines.observations import LAYER, LayerObservations, accurate_gradients
from laybare.lines.partial_layer import PartialLayer, PartialRow
from laybare.numerics.shapes import Array


class LastLayer(NamedTuple):
    """Rows (m, features), biases (m,), readout (m, outputs), offset (outputs,); always active rows of length 1, their readout."""

    weights: Array
    biases: Array
    readout: Array
    offset: Array
    always_active: Array
    always_active_readout: Array


class GradientFit(NamedTuple):
    """Readout a (m, outputs) and linear part v (features, outputs) of all gradients, the features (n, k) at which these were
    measured, and the index of the most exact one."""

    readout: Array
    linear: Array
    features: Array
    best: int


def fit_gradients(layer: PartialLayer, W: Array, b: Array, beyond: tuple[Array, bool] | None = None) -> GradientFit | None:
    """Least squares of all gradients; None if they do not fit, or if the rows are dependent.

    `beyond`: features for which the last row is unknown, and whether its unit is active where one of them is.
    """
    gradients = accurate_gradients(layer.gradients)
    if len(W) > W.shape[1] or np.linalg.cond(W) > LAYER.max_condition:
        return None
    places = [layer.linearise(gradient.x) for gradient in gradients]
    h = np.maximum(np.array([before[-1] for before, _ in places]), 0.0)
    active = h @ W.T + b > 0.0
    if beyond is not None:
        active[(h[:, beyond[0]] > 0.0).any(axis=1), -1] = beyond[1]
    weight = 1.0 / np.array([gradient.sd for gradient in gradients])
    A = np.vstack([w * np.hstack([B.T @ (on * W.T), B.T]) for (_, B), on, w in zip(places, active, weight, strict=True)])
    y = np.vstack([w * gradient.values for gradient, w in zip(gradients, weight, strict=True)])
    solved = np.linalg.lstsq(A, y, rcond=1e-13)[0]
    off = np.abs(A @ solved - y) / np.repeat(weight, layer.space.width)[:, None]
    a, v = solved[: len(W)], solved[len(W) :]
    return None if off.max() > LAYER.last_layer_misfit * np.abs(a).max() else GradientFit(a, v, h, int(np.argmax(weight)))


def _stack(units: list[PartialRow]) -> tuple[Array, Array]:
    return np.array([unit.weights for unit in units]), np.array([unit.bias for unit in units])


def explain_as_last_layer(layer: PartialLayer) -> LastLayer | None:
    """Signs and readout from all gradients; None if the complete rows do not explain them."""
    units = layer.complete
    if not units:
        return None
    W, b = _stack(units)
    fit = fit_gradients(layer, W, b)
    if fit is None:
        return None
    a, v, h, best = fit
    share = np.sum((np.linalg.pinv(W).T @ v) * a, axis=1) / np.sum(a * a, axis=1)
    wrong = np.abs(share + 1.0) < LAYER.sign_tol
    rest = v + W[wrong].T @ a[wrong]
    sign = np.where(wrong, -1.0, 1.0)
    W, b = sign[:, None] * W, sign * b
    offset = accurate_gradients(layer.gradients)[best].answer - np.maximum(W @ h[best] + b, 0.0) @ a - h[best] @ rest
    rows, sizes, mixes = np.linalg.svd(rest, full_matrices=False)
    large = sizes > LAYER.linear_part_share * np.abs(a).max()
    return LastLayer(W, b, a, offset, rows.T[large], (sizes[:, None] * mixes)[large])


def last_layer_estimate(layer: PartialLayer, last: LastLayer) -> LayerEstimate:
    """The layer, with always active units for what the others do not explain."""
    surfaces = tuple(surface for unit in layer.complete for surface in unit.surfaces)
    h = np.array([layer.features(gradient.x) for gradient in layer.gradients])
    biases = 1.0 + LAYER.always_active_margin * np.abs(h @ last.always_active.T).max(axis=0)
    gradients, count = tuple(accurate_gradients(layer.gradients)), len(biases)
    observed = LayerObservations(layer.space, surfaces, gradients=gradients, lines=layer.lines, quiet=layer.quiet)
    sd = _row_sds(layer.complete)
    return LayerEstimate(
        observed, np.vstack([last.weights, last.always_active]), np.append(last.biases, biases),
        np.append(sd, np.full(count, sd.max())), "", np.vstack([last.readout, last.always_active_readout]),
        last.offset - biases @ last.always_active_readout, count, len(last.weights) if count else 0)


def _row_sds(units: list[PartialRow]) -> Array:
    return np.array([max(surface.sd for surface in unit.surfaces) for unit in units])


def complete_row(layer: PartialLayer) -> Iterator[PartialLayer]:
    """The layer with its only incomplete row completed, in every way that the gradients allow."""
    incomplete = layer.incomplete
    if len(incomplete) != 1 or incomplete[0].kinks < LAYER.min_kinks_per_row or not layer.complete:
        return
    row, others = incomplete[0], tuple(other for other in layer.rows if other is not incomplete[0])
    for weights in _completed_weights(layer, row):
        size = float(np.linalg.norm(weights))
        whole = PartialRow(weights / size, np.ones_like(row.known), row.bias / size, row.surfaces)
        yield replace(layer, rows=(*others, whole))


def _completed_weights(layer: PartialLayer, row: PartialRow) -> Iterator[Array]:
    W, b = _stack([*layer.complete, row])
    for side in (True, False):
        fit = fit_gradients(layer, W, b, (~row.known, side))
        if fit is None:
            continue
        a, v = fit.readout, fit.linear
        pulls = (a[:, None, :] * W[:, :, None])[:, row.known] / 2.0  # (m, features, outputs)
        target = (v[row.known] + pulls.sum(axis=0)).ravel()
        signs = decode_signs(pulls.reshape(len(W), -1), target, LAYER.partial_sign_tol)
        for pattern in signs.alternatives:
            if (pattern[-1] > 0.0) == side:
                rest = v + np.einsum("j,jo,jk->ko", (1.0 - pattern) / 2.0, a, W)
                weights = row.weights.copy()
                weights[~row.known] = pattern[-1] * (rest[~row.known] @ a[-1]) / float(a[-1] @ a[-1])
                yield weights


class FeatureGradients(NamedTuple):
    """Gradients v (n, features, outputs) with respect to the features h (n, features), known where these are not zero."""

    values: Array
    features: Array


class _SidedGradients(NamedTuple):
    """The same, where they are known (n, features), and the sides (n, m) of units on which they were measured."""

    values: Array
    on: Array
    sides: Array


def read_middle_layer(
    layer: PartialLayer, units: list[PartialRow], gradients: FeatureGradients, *, rng: Generator
) -> LayerEstimate | None:
    """The layer of these units with their signs; None if they do not explain all gradients, or if a sign is undecided."""
    if not units or not len(gradients.values) or len(units) > len(units[0].weights):
        return None
    W, b = _stack(units)
    if np.linalg.cond(W) > LAYER.max_condition:
        return None
    sided = _SidedGradients(gradients.values, gradients.features > 0.0, np.sign(gradients.features @ W.T + b))
    signs = _find_signs(sided, W, rng)
    if signs is None:
        return None
    mine = tuple(surface for unit in units for surface in unit.surfaces)
    taken = {id(surface) for surface in mine}
    others = tuple(s for row in layer.rows for s in row.surfaces if id(s) not in taken)
    observed = LayerObservations(layer.space, mine, (), layer.gradients, others, layer.lines, layer.quiet)
    return LayerEstimate(observed, signs[:, None] * W, signs * b, _row_sds(units))


def independent_rows(rows: list[PartialRow]) -> Iterator[list[PartialRow]]:
    """These rows; if they are dependent, all but one of those involved, by fewest kinks, until they are independent.

    Where few units of a layer are active, the row of a unit further up is a combination of theirs, and may pass for one of them.
    """
    if not rows:
        yield rows
        return
    left, sizes, _ = np.linalg.svd(np.array([row.weights for row in rows]))
    if len(sizes) == len(rows) and sizes[0] <= LAYER.max_condition * sizes[-1]:
        yield rows
        return
    shares = np.abs(left[:, -1])
    for i in sorted(np.flatnonzero(shares > LAYER.involved_share * shares.max()), key=lambda i: rows[i].kinks):
        yield from independent_rows(rows[:i] + rows[i + 1 :])


def feature_gradients(layer: PartialLayer) -> FeatureGradients:
    """All measured gradients, as far as they determine those with respect to the features."""
    values, features = [], []
    for gradient in accurate_gradients(layer.gradients):
        before, B = layer.linearise(gradient.x)
        on = before[-1] > 0.0
        if not on.any() or np.linalg.matrix_rank(B[on], tol=1e-6) < on.sum():
            continue
        v = np.zeros((len(on), gradient.values.shape[1]))
        v[on] = np.linalg.lstsq(B[on].T, gradient.values, rcond=None)[0]
        values.append(v)
        features.append(np.maximum(before[-1], 0.0))
    return FeatureGradients(np.array(values), np.array(features).reshape(-1, len(layer.below[-1][1])))


def _find_signs(gradients: _SidedGradients, W: Array, rng: Generator) -> Array | None:
    """The only signs that explain all gradients; None if there are none, or others too."""
    decided = None if _count_unexplained(gradients, W, None) else _signs_of_single_gradients(gradients, W)
    if decided is None:
        return None
    found: list[Array] = []
    for _ in range(LAYER.sign_starts if (decided == 0.0).any() else 1):
        signs = np.where(decided == 0.0, rng.choice([-1.0, 1.0], len(W)), decided)
        signs, left = _flip_signs(gradients, W, signs, decided == 0.0)
        if left == 0 and not any(np.array_equal(signs, other) for other in found):
            found.append(signs)
    return found[0] if len(found) == 1 and _all_flips_contradicted(gradients, W, found[0]) else None


def _signs_of_single_gradients(gradients: _SidedGradients, W: Array) -> Array | None:
    """Signs (m,) that single gradients decide, 0 where none does; None if they contradict each other."""
    ahead, behind = np.zeros(len(W), bool), np.zeros(len(W), bool)
    for v, on, side in zip(gradients.values, gradients.on, gradients.sides, strict=True):
        rows = W[:, on]
        if on.sum() < len(W) or np.linalg.cond(rows) > 1.0 / LAYER.gradient_rest_share:
            continue
        c = np.abs(np.linalg.lstsq(rows.T, v[on], rcond=None)[0]).max(axis=1)
        nonzero = c > 10.0 * LAYER.gradient_rest_share * c.max()
        ahead |= nonzero & (side > 0.0)
        behind |= nonzero & (side < 0.0)
    return None if (ahead & behind).any() else np.where(ahead, 1.0, np.where(behind, -1.0, 0.0))


def _flip_signs(gradients: _SidedGradients, W: Array, signs: Array, free: Array) -> tuple[Array, int]:
    """Signs after all flips that leave fewer gradients unexplained, and the number that is left."""
    left = _count_unexplained(gradients, W, signs)
    while left:
        tries = [_flip(signs, int(i)) for i in np.flatnonzero(free)]
        counts = [_count_unexplained(gradients, W, other) for other in tries]
        if not counts or min(counts) >= left:
            break
        left = min(counts)
        signs = tries[counts.index(left)]
    return signs, left


def _all_flips_contradicted(gradients: _SidedGradients, W: Array, signs: Array) -> bool:
    """Whether every other sign of a single unit leaves enough gradients unexplained."""
    return all(_count_unexplained(gradients, W, _flip(signs, i)) >= LAYER.min_contradictions for i in range(len(W)))


def _flip(signs: Array, unit: int) -> Array:
    other = signs.copy()
    other[unit] *= -1.0
    return other


def _count_unexplained(gradients: _SidedGradients, W: Array, signs: Array | None) -> int:
    """Gradients that the active rows do not explain; all rows without signs."""
    active = gradients.sides * signs > 0.0 if signs is not None else np.ones_like(gradients.sides, bool)
    rows = W.T[None] * gradients.on[:, :, None] * active[:, None, :]
    left = gradients.values - rows @ (np.linalg.pinv(rows, rcond=1e-7) @ gradients.values)
    size = np.abs(gradients.values).max(axis=(1, 2))
    return int(np.sum(np.abs(left).max(axis=(1, 2)) > LAYER.gradient_rest_share * size))
