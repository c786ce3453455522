"""Units that never bend where inputs can reach, and are always on: an affine map of the features, which joins what lies above.

If the lines have met every unit of a layer that bends, and still something is left of the gradients, it lies along the rows of
units that are always on: g = C W + D U. Which rows these are cannot be told, only the space that they span together with W; so
the layer gets rows U in their place, orthogonal to W at first, and biases that keep them on. Their part along W is told by the
units that bend: where unit j is off, nothing of it may be left, so that its coefficient there is D times a vector, and this
vector joins U. On its active side the coefficient is something else: that tells the sign, as without such units, unless D is
everywhere the same: relu(z) = relu(-z) + z, so that beside an affine map the active sides of a last layer make no difference.
What comes out is the same function; how many units were folded, and their biases, no answer tells.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from laybare.lines.layers import LEVELS, RELATIVE, LayerRead, Seen, choices, exact_slopes, unsigned, with_readout
from laybare.shapes import Array

MOST = 4
"""Directions at most: more of them are a layer that was not read."""

CHOICES = 12
"""Choices of suspects that are tried."""

ON = 4.0
"""How far a unit that is always on is from bending, in units of the largest value that was seen of it."""


def folded_layer(seen: Seen) -> LayerRead | None:
    """The layer with rows that are always on, if these and its own explain all gradients."""
    tried = islice(choices(seen.suspects), CHOICES)
    reads = (_folded(unsigned(seen, (*seen.surfaces, *chosen))) for chosen in ((), *tried))
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
    count = int(np.sum(sizes > LEVELS * np.sqrt(len(g)) * noise.max() + RELATIVE * np.abs(C).max()))
    if not 0 < count <= min(MOST, g.shape[2] - len(read.weights)):
        return None
    U = rows[:count]
    D = rest @ U.T
    h = read.seen.floor.features(np.array([slope.x for slope in slopes]))
    z = h @ read.weights.T + read.biases
    level = LEVELS * noise[:, None] * np.linalg.norm(inverse, axis=0) + RELATIVE * np.abs(C).max(axis=(0, 1))
    sign, share, untold = np.zeros(len(read.biases)), np.zeros((count, len(read.biases))), 0
    for j in range(len(sign)):
        fits = {s: _share(C[..., j], D, s * z[:, j] < 0.0, level[:, j]) for s in (1.0, -1.0)}
        told = [s for s, fit in fits.items() if fit is not None]
        if not told:
            return None
        untold += len(told) == 2
        sign[j], share[:, j] = told[0], fits[told[0]]
    U = U + share @ read.weights
    C = C - D @ share
    sizes = np.linalg.norm(U, axis=1)
    U, D = U / sizes[:, None], D * sizes
    lift = 1.0 + ON * np.abs(h @ U.T).max(axis=0)
    whole = replace(
        read, weights=np.vstack([sign[:, None] * read.weights, U]), biases=np.append(sign * read.biases, lift),
        sd=np.append(read.sd, np.full(count, float(np.median(read.sd)))), trouble="", folded=count, untold=untold)
    coefficients = np.concatenate([sign * C, D], axis=2)
    return with_readout(whole, slopes, coefficients, np.hstack([level, np.repeat(level.max(axis=1)[:, None], count, axis=1)]))


def _share(coefficients: Array, D: Array, off: Array, level: Array) -> Array | None:
    """The vector c with coefficients = D c wherever the unit is off; None if there is none, or it would fit anything."""
    if off.sum() * D.shape[1] <= D.shape[2]:
        return None
    A, y = D[off].reshape(-1, D.shape[2]), coefficients[off].ravel()
    c = np.linalg.lstsq(A, y, rcond=1e-9)[0]
    left = np.abs(A @ c - y).reshape(int(off.sum()), -1).max(axis=1)
    return None if (left > level[off]).any() else c
