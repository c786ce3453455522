"""A last layer that is wider than its input: its active sides follow from the linear part of what it gives.

Rows that are not independent leave the coefficients of a gradient open, and with them the active sides. But if nothing lies above
the layer, it is a network of one layer on the features of its floor, and its sign-free form is linear in what is not known:

    f = Σ αⱼ |zⱼ| + v·h + c,      ∂f/∂h = Σ αⱼ sign(zⱼ) wⱼ + v,      v = Σ ξⱼ αⱼ wⱼ  with ξⱼ = ±1.

Least squares on all gradients tells α and v, and whether nothing lies above; v decides the signs (`laybare.assembly.signs`),
which are unique in general because they are binary. A unit that never bends on the floor adds to v, and no signs fit.
"""

from __future__ import annotations

import numpy as np

from laybare.assembly.signs import decode_signs
from laybare.lines.following import Seen, exact_slopes
from laybare.lines.last_layer import FITS
from laybare.lines.layers import LayerRead, sides, unsigned
from laybare.lines.surfaces import Surface

SIGNS = 1e-6
"""Relative residual of the linear part up to which signs explain it: rows are known to 1e-9 or better."""


def wide_last_layer(seen: Seen) -> LayerRead | None:
    """The layer with signs and readout; None if it does not explain all gradients, or if its signs are not the only ones."""
    tried = (seen.known, seen.surfaces) if seen.suspects else (seen.surfaces,)
    return next((read for read in (_read(seen, surfaces) for surfaces in tried) if read is not None), None)


def _read(seen: Seen, surfaces: tuple[Surface, ...]) -> LayerRead | None:
    read, slopes = unsigned(seen, surfaces), exact_slopes(seen.slopes)
    W, b, (m, width) = read.weights, read.biases, read.weights.shape
    side = sides(read, slopes)
    slopes, side = [slope for slope, z in zip(slopes, side, strict=True) if z.all()], side[side.all(axis=1)]
    if len(slopes) * width < m + width:
        return None
    weight = 1.0 / np.array([slope.sd for slope in slopes])
    A = np.vstack([w * np.hstack([z * W.T, np.eye(width)]) for z, w in zip(side, weight, strict=True)])
    y = np.vstack([w * slope.values for slope, w in zip(slopes, weight, strict=True)])
    solved, _, rank, _ = np.linalg.lstsq(A, y, rcond=1e-13)
    off = np.abs(A @ solved - y) / np.repeat(weight, width)[:, None]
    alpha, v = solved[:m], solved[m:]
    if rank < m + width or off.max() > FITS * np.abs(alpha).max():
        return None
    signs = decode_signs((alpha[:, None, :] * W[:, :, None]).reshape(m, -1), v.ravel(), SIGNS)
    if not signs.unique:
        return None
    W, b = signs.signs[:, None] * W, signs.signs * b
    best = slopes[int(np.argmax(weight))]
    h = seen.floor.features(best.x[None])[0]
    readout = 2.0 * alpha
    return LayerRead(seen, W, b, read.sd, "", readout, best.answer - np.maximum(W @ h + b, 0.0) @ readout)
