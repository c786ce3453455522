"""Planted problems with known parts, and the distance between what was found and what was planted."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

from laybare.decomposition.components import powers, unit_rows


def directions(rank, dim, condition, rng):
    """Unit rows (rank, dim) with singular values in proportion to linspace(1, condition)."""
    rows = np.linalg.qr(rng.standard_normal((rank, rank)))[0] @ np.linalg.qr(rng.standard_normal((dim, rank)))[0].T
    if condition == 1:
        return rows
    for _ in range(300):  # alternate between the two properties; it converges to both
        left, _, right = np.linalg.svd(rows, full_matrices=False)
        rows = unit_rows((left * np.linspace(condition, 1, rank)) @ right)
    return rows


def coefficients(rank, rng):
    """Of both signs, sizes 0.5 to 1.5."""
    signs = np.where(np.arange(rank) % 2, -1.0, 1.0)
    return signs * rng.uniform(0.5, 1.5, rank)


def tensor(c, u, order=3):
    return (c @ powers(u, order)).reshape((u.shape[1],) * order)


def rank_one_sum(parts, order=None):
    """Σᵢ cᵢ uᵢ^{⊗order} of components; None means their own order."""
    return tensor(parts.coefficients, parts.directions, parts.order if order is None else order)


def stack(weights, u):
    """Slices Σᵢ λ_lᵢ uᵢuᵢᵀ for loadings (s, r)."""
    return (weights @ powers(u, 2)).reshape(len(weights), u.shape[1], u.shape[1])


def symmetric_noise(shape, rng, first=0):
    """Gaussian noise, symmetric in the axes from `first` on."""
    noise = rng.standard_normal(shape)
    axes = range(first, noise.ndim)
    turned = [noise.transpose(*range(first), *order) for order in permutations(axes)]
    return sum(turned) / len(turned)


def error(found, truth):
    """Largest |u − ±û| over the parts, in the best pairing; infinite if their numbers differ."""
    if found.shape != truth.shape:
        return np.inf
    apart = np.minimum(np.linalg.norm(found[:, None] - truth, axis=2), np.linalg.norm(found[:, None] + truth, axis=2))
    return apart[linear_sum_assignment(apart)].max()
