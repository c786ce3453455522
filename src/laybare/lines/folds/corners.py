"""Corners of the known layers: inputs at which every unit above that is on anywhere is on somewhere.

Between the walls of the known layers a unit above them is affine in x, so that its pre-activation is largest at a corner of the
cell, where dim walls meet, or at the end of an edge, where dim - 1 do, as far out as inputs go. So a unit that random inputs
hardly ever meet, because it is on in a few small cells only, shows at corners, and so does one that is hardly ever off. If all
corners of layer 1 are predicted, the second layer lacks no unit that bends within the reach, whatever the share of inputs on
which it is on: a proof, where random inputs leave a share ε. In deeper networks, and where there are too many, some are drawn;
where few sets of walls meet, as in many dimensions, inputs at which a random mixture of the features is largest take their place.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.folds.stack import KnownLayers
from laybare.numerics.shapes import Array


class Corners(NamedTuple):
    """Inputs (n, dim), and whether they are all corners that there are."""

    x: Array
    every: bool


def find_corners(known: KnownLayers, radius: float, most: int, rng: Generator, *, steps: int = 12) -> Corners:
    """Corners and ends of edges within a radius, about `most` at most; asks nothing."""
    walls = np.array([(level, unit) for level, b in enumerate(known.biases) for unit in range(len(b))])
    d, count = known.dim, len(walls)
    every = known.depth == 1 and comb(count, d) + 2 * comb(count, d - 1) <= most
    inner, edges = (_all_sets(count, q) if every else _drawn_sets(count, q, most // 3, rng) for q in (d, d - 1))
    start = radius * rng.standard_normal((max(len(inner), len(edges)), d)) / (4.0 * np.sqrt(d))
    met = [_meeting(known, walls[inner], start[: len(inner)], steps)]
    along = _meeting(known, walls[edges], start[: len(edges)], steps, keep=True)
    slopes = known.unit_values(along, walls[edges][..., 0], walls[edges][..., 1])[1]
    u = np.linalg.svd(slopes)[2][:, -1] if len(edges) else along
    for side in (-1.0, 1.0):
        end = along + side * radius * u
        met.append(_meeting(known, walls[edges], radius * end / np.linalg.norm(end, axis=1, keepdims=True), steps, radius))
    x = np.vstack(met)
    x = x[np.linalg.norm(x, axis=1) <= 1.001 * radius]
    lacking = 0 if every else max(0, most // 3 - len(x))
    return Corners(np.vstack([x, find_extremes(known, radius, lacking, rng, steps=steps)]), every)


def find_extremes(known: KnownLayers, radius: float, n: int, rng: Generator, *, steps: int = 12) -> Array:
    """Inputs (n, dim) at which random mixtures of the highest features are largest within spheres up to a radius; asks nothing.

    A unit above is such a mixture, and on somewhere if it is on where it is largest. On a sphere the gradient at a largest point
    points outwards: x goes halfway to there at every step.
    """
    x, mixture = rng.standard_normal((n, known.dim)), rng.standard_normal((n, len(known.biases[-1])))
    size = radius * 2.0 ** -rng.integers(0, 4, (n, 1))
    x *= size / np.linalg.norm(x, axis=1, keepdims=True)
    for _ in range(steps if n else 0):
        g = known.pulled_back(known.preactivations(x), known.depth, mixture)
        far = np.linalg.norm(g, axis=1, keepdims=True)
        x = x + np.where(far > 0.0, size * g / np.where(far > 0.0, far, 1.0), 0.0)
        x *= size / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    return x


def _all_sets(count: int, q: int) -> Array:
    return np.array(list(combinations(range(count), q)), dtype=int).reshape(-1, q)


def _drawn_sets(count: int, q: int, most: int, rng: Generator) -> Array:
    """Sets of q walls (most, q); none if there are fewer walls."""
    if q > count:
        return np.empty((0, q), dtype=int)
    return np.asarray(rng.random((most, count)).argsort(axis=1)[:, :q])


def _meeting(
    known: KnownLayers, walls: Array, x: Array, steps: int, radius: float | None = None, *, keep: bool = False, tol: float = 1e-9
) -> Array:
    """Points where all walls of a set (n, q, 2) meet, at a radius if one is given, by the shortest Newton steps from x.

    What does not converge is dropped, unless it is to be kept."""
    off = np.full(len(x), np.inf)
    for step in range(steps + 1):
        z, slope = known.unit_values(x, walls[..., 0], walls[..., 1])
        if radius is not None:
            z = np.column_stack([z, ((x * x).sum(axis=1) / radius - radius) / 2.0])
            slope = np.concatenate([slope, x[:, None] / radius], axis=1)
        off = np.abs(z / np.maximum(np.linalg.norm(slope, axis=2), 1e-300)).max(axis=1, initial=0.0)
        if step < steps and len(x):
            x = x - np.einsum("nij,nj->ni", np.linalg.pinv(slope, rcond=1e-12), z)
            x = np.clip(x, -1e6, 1e6)
    return x if keep else x[off <= tol * (1.0 + np.linalg.norm(x, axis=1))]
