"""The function as far as it is known: a sign-free model with error bars, and the network of ReLU-like units that it belongs to.

**Model.** Everything is relative to one point p, at which no known unit is active:

    f(x) = c + v·(x - p) + Σᵢ aᵢ relu(nᵢ·(x - p) - hᵢ),      |nᵢ| = 1,  hᵢ > 0 the distance of unit i from p.

c and v are value and gradient at p. This is the same function whatever the signs of the units are, and unknown units leave it
exact around p. What a further line shows beyond the model belongs to unknown units.

**Signs and activation.** act(t) = odd · t + even · |t|. The model gives α and the rows of Σ αᵢ|uᵢ| + v·x + c. The signs ξᵢ and
the ratio κ = odd/even (ReLU 1, leaky ReLU with slope λ (1 + λ)/(1 - λ), absolute value 0) are in the linear part,
v = κ Σᵢ ξᵢ αᵢ wᵢ. With independent rows (width ≤ dim · outputs) the coefficients of v in the αᵢwᵢ are κξᵢ. A coefficient that
differs from the others is a pair of opposite units on one hyperplane, a relu(u) + b relu(-u), or a linear part; both are the same
function. With more units the signs are decoded (`laybare.assembly.sign_decoding`) for a given activation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, absolute, leaky_relu, relu
from laybare.assembly.sign_decoding import absolute_form, restore_signs
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array

SAME_HYPERPLANE = 1e-6
"""Normals and offsets that differ by less, beside rounding and error bars, are one hyperplane: far above the 1e-9 to which lines
measure them. Checked by `pytest tests/lines`."""

COMMON_SLOPES = (0.01, 0.1, 0.2, 0.3, 0.05)
"""Slopes of leaky ReLU that are tried where it cannot be computed. Convention: those of the common libraries come first."""

TOO_MANY = "too many units to decide their signs: the linear part stands for the undecided ones"


@dataclass(frozen=True, eq=False)
class UnitEstimates:
    """Normals (k, dim) of length 1, distances (k,), readouts (k, outputs), and standard deviations of their entries."""

    normals: Array
    distances: Array
    readouts: Array
    normal_sd: Array
    distance_sd: Array
    readout_sd: Array

    def __len__(self) -> int:
        return len(self.normals)

    def take(self, index: Array) -> UnitEstimates:
        """The units with these indices."""
        return UnitEstimates(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def concatenate(self, more: UnitEstimates) -> UnitEstimates:
        """These units and further ones."""
        return UnitEstimates(
            *(np.concatenate([getattr(part, name) for part in (self, more)]) for name in self.__dataclass_fields__))

    @staticmethod
    def none(dim: int, outputs: int) -> UnitEstimates:
        """No units."""
        empty = np.empty(0)
        return UnitEstimates(np.empty((0, dim)), empty, np.empty((0, outputs)), empty, empty, empty)


@dataclass(frozen=True, eq=False)
class PartialNetwork:
    """Value c (outputs,) and gradient v (dim, outputs) at the point p, with the gradient's standard deviation, and the units."""

    point: Array
    value: Array
    gradient: Array
    gradient_sd: float
    units: UnitEstimates

    def __call__(self, x: Array) -> Array:
        """Predicted answers (n, outputs)."""
        away = x - self.point
        y: Array = away @ self.gradient
        if len(self.units):
            y += np.maximum(away @ self.units.normals.T - self.units.distances, 0.0) @ self.units.readouts
        y += self.value
        return y

    def sd(self, x: Array) -> Array:
        """Standard deviations (n,) of the predictions, with errors of different units taken as independent."""
        away = x - self.point
        square = np.sum(away**2, axis=1)
        variance = square * self.gradient_sd**2
        if len(self.units):
            units = self.units
            active = np.maximum(away @ units.normals.T - units.distances, 0.0)
            size = np.abs(units.readouts).max(axis=1)
            moved = square[:, None] * (size * units.normal_sd) ** 2 + (size * units.distance_sd) ** 2
            variance = variance + np.sum(np.where(active > 0.0, moved + (active * units.readout_sd) ** 2, 0.0), axis=1)
        return np.asarray(np.sqrt(variance))

    def with_units(self, units: UnitEstimates) -> PartialNetwork:
        """With further units; readouts on a known hyperplane are added, and units without readout dropped."""
        together, keep = self.units.concatenate(units), list[int]()
        readouts = together.readouts.copy()
        for i in range(len(together)):
            twin = next((j for j in keep if _on_one_hyperplane(together, i, j)), None)
            if twin is None:
                keep.append(i)
            else:
                readouts[twin] += readouts[i]
        bound = 8.0 * together.readout_sd + 1e-9 * np.abs(together.readouts).max(axis=1)
        left = np.array([i for i in keep if np.abs(readouts[i]).max() > bound[i]], dtype=int)
        return replace(self, units=replace(together, readouts=readouts).take(left))

    def sign_free(self, *, vector: bool) -> Network:
        """The same function with |u| units, whose signs do not matter, and a linear part."""
        units = self.units
        half = units.readouts / 2.0
        biases = -units.distances - units.normals @ self.point
        linear = self.gradient + units.normals.T @ half
        offset = self.value - self.point @ self.gradient + biases @ half
        layer = Layer(units.normals.reshape(len(units), len(self.point)), biases, absolute)
        if vector:
            return Network(layer, half[:, 0], float(offset[0]), linear[:, 0])
        return Network(layer, half, offset, linear)


def _on_one_hyperplane(units: UnitEstimates, i: int, j: int) -> bool:
    level = SAME_HYPERPLANE + 8.0 * float(np.hypot(units.normal_sd[i], units.normal_sd[j]))
    near = SAME_HYPERPLANE * (1.0 + units.distances[i]) + 8.0 * float(np.hypot(units.distance_sd[i], units.distance_sd[j]))
    return bool(np.abs(units.normals[i] - units.normals[j]).max() < level and abs(units.distances[i] - units.distances[j]) < near)


class NetworkWithSigns(NamedTuple):
    """A network in its activation, whether other signs fit too, and notes; `searched`: False if there were too many signs."""

    network: Network
    unique: bool
    notes: tuple[str, ...]
    searched: bool = True


def decide_activation_and_signs(fitted: Network, activation: Activation | None, tol: float) -> NetworkWithSigns:
    """The network behind a sign-free one (|u| units and a linear part); `activation` None: determined."""
    if not fitted.width:
        return NetworkWithSigns(fitted, True, ("no unit bends on the lines that were looked at: a linear function",))
    if activation is not None:
        return _decide_signs(fitted, activation, tol)
    if _is_small(fitted.columns[2], fitted, tol):
        return _decide_signs(fitted, absolute, tol)
    ratios = linear_part_coefficients(fitted, tol)
    found = _try_common_slopes(fitted, tol) if ratios is None else _with_computed_slope(fitted, ratios, tol)
    return found._replace(notes=(*found.notes, f"activation found: {found.network.activation.name}"))


def linear_part_coefficients(fitted: Network, tol: float) -> Array | None:
    """The coefficients (width,) of the linear part in the αᵢwᵢ; None if they are not determined or do not explain it."""
    alpha, _, linear = fitted.columns
    B = (alpha[:, None, :] * fitted.layer.weights[:, :, None]).reshape(fitted.width, -1).T
    scale = np.linalg.norm(B, axis=0)
    solution, _, rank, _ = np.linalg.lstsq(B / scale, linear.ravel(), rcond=max(tol, 1e-10))
    rest = np.linalg.norm(B / scale @ solution - linear.ravel())
    if rank < fitted.width or rest > 10.0 * tol * (np.linalg.norm(linear) + scale.max()):
        return None
    return np.asarray(solution / scale)


def _is_small(linear: Array, fitted: Network, tol: float) -> bool:
    size = np.abs(fitted.columns[0]).max()
    return float(np.abs(linear).max()) <= tol * float(size)


def _decide_signs(fitted: Network, activation: Activation, tol: float) -> NetworkWithSigns:
    if activation == absolute:
        linear = None if _is_small(fitted.columns[2], fitted, tol) else fitted.linear
        return NetworkWithSigns(Network(fitted.layer, fitted.readout, fitted.offset, linear), True, _linear_note(linear))
    found = restore_signs(fitted, activation, tol)
    fits = bool(found.signs.alternatives)
    if fits:
        count = len(found.signs.alternatives)
        note = () if count == 1 else (f"{count} patterns of signs give the same function; that of the smallest offset is taken",)
        return NetworkWithSigns(found.network, count == 1, note)
    if not found.signs.searched:
        return NetworkWithSigns(found.network, False, (TOO_MANY,), searched=False)
    return _with_opposite_units(fitted, activation, found.network, tol)


def _with_opposite_units(fitted: Network, activation: Activation, otherwise: Network, tol: float) -> NetworkWithSigns:
    """Opposite units on one hyperplane, a relu(u) + b relu(-u), if they explain what the signs do not."""
    ratios, fold = linear_part_coefficients(fitted, tol), absolute_form(activation)
    if ratios is None or fold is None or fitted.readout.ndim > 1:
        return NetworkWithSigns(otherwise, True, _linear_note(otherwise.linear))
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
    return NetworkWithSigns(Network(Layer(units[:, :-1], units[:, -1], activation), readout, offset), True, note)


def _with_computed_slope(fitted: Network, ratios: Array, tol: float) -> NetworkWithSigns:
    """The activation from the common size of the coefficients."""
    kappa = float(np.median(np.abs(ratios)))
    slope = (kappa - 1.0) / (kappa + 1.0)
    if abs(slope) < 1e2 * tol or not 0.0 < slope < 1.0:
        return _decide_signs(fitted, relu, tol)
    rounded = float(f"{slope:.6g}")
    return _decide_signs(fitted, leaky_relu(rounded if abs(rounded - slope) < 1e2 * tol else slope), tol)


def _try_common_slopes(fitted: Network, tol: float) -> NetworkWithSigns:
    """ReLU, or leaky ReLU with a common slope: the first whose signs can be decoded."""
    for activation in (relu, *map(leaky_relu, COMMON_SLOPES)):
        found = restore_signs(fitted, activation, tol)
        if found.signs.alternatives:
            return _decide_signs(fitted, activation, tol)
    return _decide_signs(fitted, relu, tol)


def _linear_note(linear: Array | None) -> tuple[str, ...]:
    return () if linear is None else ("a linear part beside the units: a skip connection, or units that never bend here",)
