"""From the sign-free book to a network of ReLU-like units: which activation, which signs.

act(t) = odd · t + even · |t|. The book tells α and the rows of Σ αᵢ|uᵢ| + v·x + c; the signs ξᵢ of the units and the ratio κ =
odd/even (ReLU 1, leaky ReLU with slope λ (1 + λ)/(1 - λ), absolute value 0) are in the linear part,

    v = κ Σᵢ ξᵢ αᵢ wᵢ.

With independent rows (width ≤ dim · outputs) the coefficients of v in the αᵢwᵢ are κξᵢ: one equation tells κ, all tell the
signs. A coefficient that differs from the others is a pair of opposite units on one hyperplane, a relu(u) + b relu(-u), or a
linear part; both are the same function. With more units the signs are decoded (`laybare.assembly.signs`) for a given
activation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, absolute, leaky_relu, relu
from laybare.assembly.unfold import folding, unfold
from laybare.networks import Layer, Network
from laybare.shapes import Array

USUAL_SLOPES = (0.01, 0.1, 0.2, 0.3, 0.05)
"""Slopes of leaky ReLU that are tried when there are too many units to compute it: those of the common libraries first."""


TOO_MANY = "too many units to decide their signs: the linear part holds what is open"


class Named(NamedTuple):
    """A network in its own activation, whether its signs are the only ones that fit, and what is to be said about it.

    `searched`: False if the signs were too many to be looked for.
    """

    network: Network
    unique: bool
    notes: tuple[str, ...]
    searched: bool = True


def name_units(fitted: Network, activation: Activation | None, tol: float) -> Named:
    """The network behind a sign-free one (|u| units and a linear part); `activation` None: found out."""
    if not fitted.width:
        return Named(fitted, True, ("no unit bends on the lines that were looked at: a linear function",))
    if activation is not None:
        return _given(fitted, activation, tol)
    if _small(fitted.columns[2], fitted, tol):
        return _given(fitted, absolute, tol)
    ratios = coefficients(fitted, tol)
    found = _usual(fitted, tol) if ratios is None else _computed(fitted, ratios, tol)
    return found._replace(notes=(*found.notes, f"activation found: {found.network.activation.name}"))


def coefficients(fitted: Network, tol: float) -> Array | None:
    """The coefficients (width,) of the linear part in the αᵢwᵢ; None if they are not determined or do not explain it."""
    alpha, _, linear = fitted.columns
    B = (alpha[:, None, :] * fitted.layer.weights[:, :, None]).reshape(fitted.width, -1).T
    scale = np.linalg.norm(B, axis=0)
    solution, _, rank, _ = np.linalg.lstsq(B / scale, linear.ravel(), rcond=max(tol, 1e-10))
    rest = np.linalg.norm(B / scale @ solution - linear.ravel())
    if rank < fitted.width or rest > 10.0 * tol * (np.linalg.norm(linear) + scale.max()):
        return None
    return np.asarray(solution / scale)


def _small(linear: Array, fitted: Network, tol: float) -> bool:
    size = np.abs(fitted.columns[0]).max()
    return float(np.abs(linear).max()) <= tol * float(size)


def _given(fitted: Network, activation: Activation, tol: float) -> Named:
    if activation == absolute:
        linear = None if _small(fitted.columns[2], fitted, tol) else fitted.linear
        return Named(Network(fitted.layer, fitted.readout, fitted.offset, linear), True, _linear_note(linear))
    found = unfold(fitted, activation, tol)
    fits = bool(found.signs.alternatives)
    if fits:
        count = len(found.signs.alternatives)
        note = () if count == 1 else (f"{count} patterns of signs give the same function; that of the smallest offset is taken",)
        return Named(found.network, count == 1, note)
    if not found.signs.searched:
        return Named(found.network, False, (TOO_MANY,), searched=False)
    return _with_pairs(fitted, activation, found.network, tol)


def _with_pairs(fitted: Network, activation: Activation, otherwise: Network, tol: float) -> Named:
    """Opposite units on one hyperplane, a relu(u) + b relu(-u), if that explains what the signs do not."""
    ratios, fold = coefficients(fitted, tol), folding(activation)
    if ratios is None or fold is None or fitted.readout.ndim > 1:
        return Named(otherwise, True, _linear_note(otherwise.linear))
    kappa = fold.odd / fold.even
    single = np.abs(np.abs(ratios) / kappa - 1.0) < 1e3 * tol
    alpha, _, _ = fitted.columns
    forward = alpha[:, 0] * (1.0 + ratios / kappa) / 2.0 / fold.even
    backward = alpha[:, 0] * (1.0 - ratios / kappa) / 2.0 / fold.even
    rows = fitted.layer.rows
    keep_forward, keep_backward = ~single | (ratios > 0.0), ~single | (ratios < 0.0)
    units = np.vstack([rows[keep_forward], -rows[keep_backward]])
    readout = np.concatenate([forward[keep_forward], backward[keep_backward]])
    offset = float(fitted.offset) - fold.odd * float(units[:, -1] @ readout)
    pairs = int(np.sum(~single))
    note = (
        f"{pairs} hyperplanes carry two opposite units each, a act(u) + b act(-u); one unit and a linear part would be the same",)
    return Named(Network(Layer(units[:, :-1], units[:, -1], activation), readout, offset), True, note)


def _computed(fitted: Network, ratios: Array, tol: float) -> Named:
    """The activation from the common size of the coefficients."""
    kappa = float(np.median(np.abs(ratios)))
    slope = (kappa - 1.0) / (kappa + 1.0)
    if abs(slope) < 1e2 * tol or not 0.0 < slope < 1.0:
        return _given(fitted, relu, tol)
    rounded = float(f"{slope:.6g}")
    return _given(fitted, leaky_relu(rounded if abs(rounded - slope) < 1e2 * tol else slope), tol)


def _usual(fitted: Network, tol: float) -> Named:
    """ReLU, or leaky ReLU with one of the usual slopes: the first whose signs can be decoded."""
    for activation in (relu, *map(leaky_relu, USUAL_SLOPES)):
        found = unfold(fitted, activation, tol)
        if found.signs.alternatives:
            return _given(fitted, activation, tol)
    return _given(fitted, relu, tol)


def _linear_note(linear: Array | None) -> tuple[str, ...]:
    return () if linear is None else ("a linear part beside the units: a skip connection, or units that never bend here",)
