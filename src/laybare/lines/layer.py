"""One layer of a deep network, estimated in its feature space.

Hyperplanes that lines have met (`laybare.lines.observations`) are units of this layer. Every gradient with respect to features
is a combination of their normals, g = C W, and the coefficient of a unit vanishes wherever it is inactive. So the measured
gradients give the active side of each unit, and show whether a unit is missing: then g leaves a rest, or a coefficient vanishes
on neither side. Both need independent normals, so a layer must not be wider than its input. A unit that is inactive wherever a
gradient was measured is not missed by this test.

**Choice among undecided surfaces** (`choose_units`). A unit with all random points on one side cannot be tested far away, and a
surface of a layer above that turns rarely may pass for a unit. The rank of the gradients is the number of units that are active
anywhere, and every coefficient vanishes on one side only for the right choice. So all choices of that many surfaces are tried.

**A last layer wider than its input** (`read_wide_last_layer`). Dependent rows leave the coefficients undetermined. But if nothing
lies above the layer, it is a network of one layer on the features, and its sign-free form is linear in the unknowns:

    f = Σ αⱼ |zⱼ| + v·h + c,      ∂f/∂h = Σ αⱼ sign(zⱼ) wⱼ + v,      v = Σ ξⱼ αⱼ wⱼ  with ξⱼ = ±1.

Least squares on all gradients gives α and v, and whether nothing lies above; v decides the signs, which
are unique in general because they are binary (`laybare.assembly.sign_decoding`). A unit that never bends adds to v, and no signs
fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb
from typing import TypeVar

import numpy as np

from laybare.assembly.sign_decoding import decode_signs
from laybare.lines.observations import LAYER, LayerObservations, accurate_gradients, distinct_refused, sides_of_hyperplanes
from laybare.lines.surfaces import PieceGradient, Surface
from laybare.numerics.shapes import Array

DEPENDENT = "the normals of its units are not independent"

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class LayerEstimate:
    """Weights (m, width) of norm 1, biases (m,) with their standard deviations, and the active side of each unit decided."""

    observed: LayerObservations
    weights: Array
    biases: Array
    sd: Array
    failure: str = ""  # why the layer is not complete; empty if it is
    readout: Array | None = None  # (m, outputs) of a last layer, in which the coefficients of active units are constant
    offset: Array | None = None  # (outputs,)
    always_active: int = 0  # the number of units at the end that never bend, and stand for an affine map of the features
    undecided_sides: int = 0  # the number of units whose active side makes no difference beside such a map


def estimate_layer(observed: LayerObservations) -> LayerEstimate:
    """The layer as far as it is known, with the undecided surfaces that the gradients need, and what is missing.

    If the normals are dependent, or one more than the space has features, a unit of a layer above may have passed the far checks:
    the one without which all gradients are explained is left out.
    """
    planes = observed.hyperplanes
    first = decide_sides(layer_without_sides(observed, planes))
    spare = len(planes) - observed.space.width
    if not first.failure or spare > 1:
        return first
    if first.failure == DEPENDENT or spare == 1:
        tried = ((*planes[:i], *planes[i + 1 :]) for i in range(len(planes)))
    else:
        tried = ((*planes, *chosen) for chosen in subsets_to_try(observed.undecided))
    layers = (decide_sides(layer_without_sides(observed, surfaces)) for surfaces in tried)
    every = layer_without_sides(observed, observed.known)  # if none was refused, those that could not be tested are units too
    wide = not observed.curved and len(every.biases) > observed.space.width
    return next((layer for layer in layers if not layer.failure), every if wide else first)


def subsets_to_try(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    """All items, then subsets of one, two, three; no more than a few hundred."""
    if items:
        yield items
    for count, most in enumerate(LAYER.max_undecided, start=1):
        if len(items) <= most:
            yield from combinations(items, count)


def layer_without_sides(observed: LayerObservations, surfaces: tuple[Surface, ...]) -> LayerEstimate:
    """The layer of these surfaces, their active sides not decided."""
    width, m = observed.space.width, len(surfaces)
    normals = np.array([s.normal for s in surfaces]).reshape(m, width)
    layer = LayerEstimate(observed, normals, np.array([s.offset for s in surfaces]), np.array([s.sd for s in surfaces]))
    if not m:
        return replace(layer, failure="no hyperplane was found")
    if m > width:
        return replace(layer, failure=f"it is wider than its input ({m} units, {width} features): signs are not known")
    if np.linalg.cond(normals) > LAYER.max_condition:
        return replace(layer, failure=DEPENDENT)
    return layer


def decide_sides(layer: LayerEstimate) -> LayerEstimate:
    """The layer with its active sides, and its readout if it is the last one; or what is missing."""
    if layer.failure:
        return layer
    if not layer.observed.gradients:
        return replace(layer, failure="no gradient was measured: the active sides of its units are not known")
    gradients, inverse = accurate_gradients(layer.observed.gradients), np.linalg.pinv(layer.weights)
    g = np.array([gradient.values for gradient in gradients])  # (n, width, outputs)
    coefficients = inverse.T @ g
    rest = np.abs(g - layer.weights.T @ coefficients).max(axis=(1, 2))
    size = np.abs(coefficients).max(axis=(1, 2))
    normals_sd = np.sqrt(np.sum((np.abs(coefficients).max(axis=2) * layer.sd) ** 2, axis=1))
    noise = np.hypot(np.array([g.sd for g in gradients]), normals_sd)
    longest = noise * np.sqrt(layer.observed.space.width)  # of a whole gradient
    if (rest > LAYER.zero_sds * longest + LAYER.zero_share * size.max()).any():
        return replace(layer, failure="a unit is missing, or never bends: some gradients are no combination of the known ones")
    side = sides_of_units(layer, gradients)
    large = np.abs(coefficients).max(axis=2)
    level = LAYER.zero_sds * noise[:, None] * np.linalg.norm(inverse, axis=0) + LAYER.zero_share * large.max(axis=0)
    ahead, behind = (large > level) & (side > 0.0), (large > level) & (side < 0.0)
    both, none = ahead.any(axis=0) & behind.any(axis=0), ~(ahead.any(axis=0) | behind.any(axis=0))
    if both.any() or none.any():
        undecided = int((both | none).sum())
        return replace(layer, failure=f"the active side of {undecided} units cannot be decided: a unit is missing")
    sign = np.where(ahead.any(axis=0), 1.0, -1.0)
    signed = replace(layer, weights=sign[:, None] * layer.weights, biases=sign * layer.biases)
    return with_readout(signed, gradients, sign * coefficients.transpose(0, 2, 1), level)


def sides_of_units(layer: LayerEstimate, gradients: list[PieceGradient]) -> Array:
    """The sides (n, m) of all units on which gradients were measured: 1, -1, or 0 within the error bar."""
    h = layer.observed.space.features(np.array([gradient.x for gradient in gradients]))
    return sides_of_hyperplanes(h, layer.weights, layer.biases, layer.sd)


def with_readout(layer: LayerEstimate, gradients: list[PieceGradient], coefficients: Array, level: Array) -> LayerEstimate:
    """The layer with its readout, if the coefficients (n, outputs, m) of active units are everywhere the same."""
    side = sides_of_units(layer, gradients)
    h = layer.observed.space.features(np.array([gradient.x for gradient in gradients]))
    before = h @ layer.weights.T + layer.biases
    readout = np.zeros((layer.weights.shape[0], coefficients.shape[1]))
    for i in range(len(readout)):
        on = np.flatnonzero(side[:, i] > 0.0)
        if not len(on):
            return layer
        best = on[np.argmin(level[on, i])]
        readout[i] = coefficients[best, :, i]
        off = np.abs(coefficients[on, :, i] - readout[i]).max(axis=1)
        if (off > level[on, i] + level[best, i]).any():
            return layer
    near = _nearest(gradients)
    return replace(layer, readout=readout, offset=gradients[near].answer - np.maximum(before[near], 0.0) @ readout)


def _nearest(gradients: list[PieceGradient]) -> int:
    """The gradient nearest to the inputs' centre: an error of a weight grows with the distance, that of an answer hardly."""
    return int(np.argmin([np.linalg.norm(gradient.x) for gradient in gradients]))


def choose_units(observed: LayerObservations) -> LayerEstimate | None:
    """The layer of those hyperplanes and undecided surfaces that explain all gradients; None if no choice does.

    At most one hyperplane is left out. No query; each choice takes a pseudo-inverse.
    """
    if not observed.gradients:
        return None
    gradients = accurate_gradients(observed.gradients)
    g = np.array([gradient.values.T for gradient in gradients])  # (n, outputs, width)
    h = observed.space.features(np.array([gradient.x for gradient in gradients]))
    rank = _rank_of_gradients(g / np.array([gradient.sd for gradient in gradients])[:, None, None])
    most = min(LAYER.max_subsets, int(LAYER.max_subset_work / max(1, rank * observed.space.width)))
    tried = (chosen for chosen in islice(_choices(observed, rank), most) if _coefficients_vanish(chosen, g, h))
    layers = (decide_sides(layer_without_sides(observed, chosen)) for chosen in tried)
    return next((layer for layer in layers if not layer.failure), None)


def choose_lowest_units(observed: LayerObservations) -> LayerEstimate | None:
    """The lowest layer of those surfaces that explain all gradients; None if no choice does. No query.

    Layers above may hide a hyperplane where it was tested, and a surface that seldom turns may pass. So surfaces that were
    refused take the places of known ones, as few as possible. Only in layers narrower than their input: else any choice spans all
    gradients.
    """
    if not observed.gradients:
        return None
    gradients = accurate_gradients(observed.gradients)
    g, h = np.array([gradient.values.T for gradient in gradients]), np.array([gradient.x for gradient in gradients])
    scaled = g / np.array([gradient.sd for gradient in gradients])[:, None, None]
    ranks = {_rank_of_gradients(scaled), _rank_of_gradients(scaled, share=0.0)}
    for rank in sorted(rank for rank in ranks if 0 < rank < observed.space.width):
        most = min(LAYER.max_subsets_per_choice, int(LAYER.max_subset_work / (rank * observed.space.width)))
        tried = (chosen for chosen in islice(_exchanges(observed, rank), most) if _coefficients_vanish(chosen, g, h))
        layers = (decide_sides(layer_without_sides(observed, chosen)) for chosen in tried)
        found = next((layer for layer in layers if not layer.failure), None)
        if found is not None:
            return found
    return None


def _exchanges(observed: LayerObservations, rank: int) -> Iterator[tuple[Surface, ...]]:
    """Choices of `rank` surfaces: known ones, and as few of the refused ones as possible."""
    known, refused = observed.known, distinct_refused(observed)
    for kept in range(min(rank, len(known)), max(0, rank - len(refused)) - 1, -1):
        for chosen in combinations(known, kept):
            yield from ((*chosen, *others) for others in combinations(refused, rank - kept))


def _rank_of_gradients(g: Array, share: float = LAYER.zero_share) -> int:
    """The rank of gradients (n, outputs, width), which are in standard deviations; values below this share are zero."""
    sizes = np.linalg.svd(g.reshape(-1, g.shape[2]), compute_uv=False)
    return int(np.sum(sizes > LAYER.zero_sds * np.sqrt(len(g)) + share * sizes[0]))


def _choices(observed: LayerObservations, rank: int) -> Iterator[tuple[Surface, ...]]:
    planes, undecided = observed.hyperplanes, observed.undecided
    for kept in (planes, *((*planes[:i], *planes[i + 1 :]) for i in range(len(planes)))):
        more = rank - len(kept)
        if 0 <= more <= len(undecided) and rank and comb(len(undecided), more) <= LAYER.max_subsets_per_choice:
            yield from ((*kept, *chosen) for chosen in combinations(undecided, more))


def _coefficients_vanish(surfaces: tuple[Surface, ...], g: Array, h: Array) -> bool:
    """Whether every coefficient of the gradients vanishes on one side of its surface."""
    W, b = np.array([surface.normal for surface in surfaces]), np.array([surface.offset for surface in surfaces])
    c = np.abs(g @ np.linalg.pinv(W)).max(axis=1)
    ahead = h @ W.T + b > 0.0
    less = np.minimum(np.where(ahead, c, 0.0).max(axis=0), np.where(ahead, 0.0, c).max(axis=0))
    return bool((less <= LAYER.vanishing_share * c.max(axis=0)).all())


def read_wide_last_layer(observed: LayerObservations) -> LayerEstimate | None:
    """The layer with signs and readout; None if it does not explain all gradients, or if its signs are not unique."""
    tried = (observed.known, observed.hyperplanes) if observed.undecided else (observed.hyperplanes,)
    return next((layer for layer in (_wide_last_layer(observed, surfaces) for surfaces in tried) if layer is not None), None)


def _wide_last_layer(observed: LayerObservations, surfaces: tuple[Surface, ...]) -> LayerEstimate | None:
    layer, gradients = layer_without_sides(observed, surfaces), accurate_gradients(observed.gradients)
    W, b, (m, width) = layer.weights, layer.biases, layer.weights.shape
    side = sides_of_units(layer, gradients)
    gradients, side = [g for g, z in zip(gradients, side, strict=True) if z.all()], side[side.all(axis=1)]
    if len(gradients) * width < m + width:
        return None
    weight = 1.0 / np.array([gradient.sd for gradient in gradients])
    A = np.vstack([w * np.hstack([z * W.T, np.eye(width)]) for z, w in zip(side, weight, strict=True)])
    y = np.vstack([w * gradient.values for gradient, w in zip(gradients, weight, strict=True)])
    solved, _, rank, _ = np.linalg.lstsq(A, y, rcond=1e-13)
    off = np.abs(A @ solved - y) / np.repeat(weight, width)[:, None]
    alpha, v = solved[:m], solved[m:]
    if rank < m + width or off.max() > LAYER.last_layer_misfit * np.abs(alpha).max():
        return None
    signs = decode_signs((alpha[:, None, :] * W[:, :, None]).reshape(m, -1), v.ravel(), LAYER.wide_sign_tol)
    if not signs.unique:
        return None
    W, b = signs.signs[:, None] * W, signs.signs * b
    best = gradients[_nearest(gradients)]
    h = observed.space.features(best.x[None])[0]
    readout = 2.0 * alpha
    return LayerEstimate(observed, W, b, layer.sd, "", readout, best.answer - np.maximum(W @ h + b, 0.0) @ readout)
