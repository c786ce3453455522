"""A third or higher layer above which there are others: its active sides, and whether a unit is missing.

Every gradient with respect to the features of floor 1 is g = Bᵀ v, and tells v at the features that are active there. There v is
a combination of the rows of those units that are active: v = Σⱼ cⱼ wⱼ with cⱼ = 0 for the others. What lies above changes the
c from place to place and not this. So signs are right if what the active rows do not explain vanishes for all gradients. Where
all rows are independent on the active features, one gradient tells c, and with it active sides; the other signs are searched by
flipping those that leave fewer gradients unexplained. A gradient that no choice explains shows that a unit is missing; two
choices that explain all of them, that the active side of some units is not told. Cost: n small singular value decompositions for
each choice, no query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.following import Seen, exact_slopes
from laybare.lines.layers import LayerRead
from laybare.lines.parts import Branches, Part
from laybare.shapes import Array

NOTHING = 1e-4
"""Share of a gradient below which what is left of it is rounding: errors are 1e-9 times a condition, what is missing 0.1."""

STARTS = 12
"""Random signs from which flips begin."""

DEPENDENT, INVOLVED = 1e7, 1e-3
"""Condition beyond which rows depend on each other, and share of the largest coefficient from which one takes part in that."""

TELLING = 3
"""Gradients at least that a wrong sign must leave unexplained."""


class FeatureGradients(NamedTuple):
    """Gradients v (n, features, outputs) with respect to the features h (n, features), known where these are not zero."""

    values: Array
    features: Array


class _SidedGradients(NamedTuple):
    """The same, where they are known (n, features), and the sides (n, m) of units on which they were measured."""

    values: Array
    on: Array
    sides: Array


def middle_read(
    branches: Branches, units: list[Part], gradients: FeatureGradients, *, rng: Generator
) -> LayerRead | None:
    """The layer of these units with their signs; None if they do not explain all gradients, or if a sign is not told."""
    if not units or not len(gradients.values) or len(units) > len(units[0].row):
        return None
    W, b = np.array([unit.row for unit in units]), np.array([unit.bias for unit in units])
    if np.linalg.cond(W) > DEPENDENT:
        return None
    sided = _SidedGradients(gradients.values, gradients.features > 0.0, np.sign(gradients.features @ W.T + b))
    signs = _signs(sided, W, rng)
    if signs is None:
        return None
    mine = tuple(surface for unit in units for surface in unit.surfaces)
    taken = {id(surface) for surface in mine}
    others = tuple(s for part in branches.parts for s in part.surfaces if id(s) not in taken)
    seen = Seen(branches.floor, mine, (), branches.slopes, len(others), branches.lines, branches.quiet, others)
    sd = np.array([max(s.sd for s in unit.surfaces) for unit in units])
    return LayerRead(seen, signs[:, None] * W, signs * b, sd)


def independent(parts: list[Part]) -> Iterator[list[Part]]:
    """These parts, or where their rows depend on each other, all but one of those that do, by fewest kinks: where few units of a
    layer are active, a unit further up has a row that is a combination of theirs, and may pass for one of them."""
    if not parts:
        yield parts
        return
    left, sizes, _ = np.linalg.svd(np.array([part.row for part in parts]))
    if len(sizes) == len(parts) and sizes[0] <= DEPENDENT * sizes[-1]:
        yield parts
        return
    shares = np.abs(left[:, -1])
    for i in sorted(np.flatnonzero(shares > INVOLVED * shares.max()), key=lambda i: parts[i].members):
        yield from independent(parts[:i] + parts[i + 1 :])


def feature_gradients(branches: Branches) -> FeatureGradients:
    """All gradients that were measured, as far as they tell those with respect to the features."""
    values, features = [], []
    for slope in exact_slopes(branches.slopes):
        before, B = branches.above(slope.x)
        on = before[-1] > 0.0
        if not on.any() or np.linalg.matrix_rank(B[on], tol=1e-6) < on.sum():
            continue
        v = np.zeros((len(on), slope.values.shape[1]))
        v[on] = np.linalg.lstsq(B[on].T, slope.values, rcond=None)[0]
        values.append(v)
        features.append(np.maximum(before[-1], 0.0))
    return FeatureGradients(np.array(values), np.array(features).reshape(-1, len(branches.layers[-1][1])))


def _signs(gradients: _SidedGradients, W: Array, rng: Generator) -> Array | None:
    """The one choice of signs that explains all gradients; None if there is none, or another one."""
    told = None if _unexplained(gradients, W, None) else _told(gradients, W)
    if told is None:
        return None
    found: list[Array] = []
    for _ in range(STARTS if (told == 0.0).any() else 1):
        signs = np.where(told == 0.0, rng.choice([-1.0, 1.0], len(W)), told)
        signs, left = _flipped(gradients, W, signs, told == 0.0)
        if left == 0 and not any(np.array_equal(signs, other) for other in found):
            found.append(signs)
    return found[0] if len(found) == 1 and _firm(gradients, W, found[0]) else None


def _told(gradients: _SidedGradients, W: Array) -> Array | None:
    """Signs (m,) that single gradients tell, 0 where none does; None if they contradict each other."""
    ahead, behind = np.zeros(len(W), bool), np.zeros(len(W), bool)
    for v, on, side in zip(gradients.values, gradients.on, gradients.sides, strict=True):
        rows = W[:, on]
        if on.sum() < len(W) or np.linalg.cond(rows) > 1.0 / NOTHING:
            continue
        c = np.abs(np.linalg.lstsq(rows.T, v[on], rcond=None)[0]).max(axis=1)
        felt = c > 10.0 * NOTHING * c.max()
        ahead |= felt & (side > 0.0)
        behind |= felt & (side < 0.0)
    return None if (ahead & behind).any() else np.where(ahead, 1.0, np.where(behind, -1.0, 0.0))


def _flipped(gradients: _SidedGradients, W: Array, signs: Array, free: Array) -> tuple[Array, int]:
    """Signs after all flips that leave fewer gradients unexplained, and how many are left."""
    left = _unexplained(gradients, W, signs)
    while left:
        tries = [_flip(signs, int(i)) for i in np.flatnonzero(free)]
        counts = [_unexplained(gradients, W, other) for other in tries]
        if not counts or min(counts) >= left:
            break
        left = min(counts)
        signs = tries[counts.index(left)]
    return signs, left


def _firm(gradients: _SidedGradients, W: Array, signs: Array) -> bool:
    """Whether every other sign of a single unit leaves gradients unexplained."""
    return all(_unexplained(gradients, W, _flip(signs, i)) >= TELLING for i in range(len(W)))


def _flip(signs: Array, unit: int) -> Array:
    other = signs.copy()
    other[unit] *= -1.0
    return other


def _unexplained(gradients: _SidedGradients, W: Array, signs: Array | None) -> int:
    """Gradients that the active rows do not explain; all rows without signs."""
    active = gradients.sides * signs > 0.0 if signs is not None else np.ones_like(gradients.sides, bool)
    rows = W.T[None] * gradients.on[:, :, None] * active[:, None, :]
    left = gradients.values - rows @ (np.linalg.pinv(rows, rcond=1e-7) @ gradients.values)
    size = np.abs(gradients.values).max(axis=(1, 2))
    return int(np.sum(np.abs(left).max(axis=(1, 2)) > NOTHING * size))
