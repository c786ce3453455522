"""The last weights of a unit that is never met where the features of these weights are active.

The surface of a unit of the last layer may end before it reaches the wall of some feature: no kink tells that weight. If the unit
is on wherever such a feature is active, every gradient there holds the weight, times the readout; and if it is off there, nothing
does. So the gradients of `laybare.lines.last_layer`, g = Bᵀ (Σⱼ aⱼ [zⱼ > 0] wⱼ + v), are fitted with these weights left at zero,
and the unit on one side, then on the other, wherever they count. Outside of their features v is a sum of aⱼ wⱼ of the units with
the wrong sign; what is left of v at their features are the weights. Whether this is so, the fit of the completed layer tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from laybare.assembly.signs import decode_signs
from laybare.lines.last_layer import gradient_fit
from laybare.lines.parts import MEMBERS, Branches, Part
from laybare.shapes import Array

SIGNS = 1e-5
"""Relative residual up to which signs explain the linear part outside of the features in question."""


def completed(branches: Branches) -> Iterator[Branches]:
    """With the one part that is open made whole, in every way that the gradients allow."""
    open_ = [part for part in branches.open if part.members >= MEMBERS]
    if len(open_) != 1 or len(branches.open) != 1 or not branches.whole:
        return
    part, others = open_[0], tuple(other for other in branches.parts if other is not open_[0])
    for row in _rows(branches, part):
        size = float(np.linalg.norm(row))
        whole = Part(row / size, np.ones_like(part.on), part.bias / size, part.surfaces)
        yield replace(branches, parts=(*others, whole))


def _rows(branches: Branches, part: Part) -> Iterator[Array]:
    units = [*branches.whole, part]
    W, b = np.array([unit.row for unit in units]), np.array([unit.bias for unit in units])
    for side in (True, False):
        fit = gradient_fit(branches, W, b, (~part.on, side))
        if fit is None:
            continue
        a, v = fit.readout, fit.linear
        pulls = (a[:, None, :] * W[:, :, None])[:, part.on] / 2.0  # (m, features, outputs)
        signs = decode_signs(pulls.reshape(len(W), -1), (v[part.on] + pulls.sum(axis=0)).ravel(), SIGNS)
        for pattern in signs.alternatives:
            if (pattern[-1] > 0.0) == side:
                rest = v + np.einsum("j,jo,jk->ko", (1.0 - pattern) / 2.0, a, W)
                row = part.row.copy()
                row[~part.on] = pattern[-1] * (rest[~part.on] @ a[-1]) / float(a[-1] @ a[-1])
                yield row
