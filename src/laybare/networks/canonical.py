"""Symmetries of a hidden layer, and one representative of every class of equal networks.

What may change while f(x) = Σᵢ aᵢ act(wᵢ·x + bᵢ) + Lᵀx + c stays the same function:

    order       any permutation of the units
    scale       act homogeneous of degree p:  (w, b, a) ~ (s w, s b, a/s^p) for s > 0   (p = 0, the step: a unchanged)
    shift       act exponential:              (w, b, a) ~ (w, 0, a act(b)/act(0))
    reflection  act(u) = σ act(-u) + s u + c: (w, b, a) ~ (-w, -b, σ a), with a s (w·x + b) + a c added to the affine part
                    sigmoid, step             σ = -1, c = 2 centre: the offset changes (odd: centre 0, nothing is added)
                    ReLU, softplus, GELU      σ = +1, s = mirror: the linear part changes (even: mirror 0, nothing is added)
    merging     units with the same (w, b) add their readouts; zero readouts and zero weights are no units

Sources: Zhong et al. (2017), section 2 (scale, odd, even); Awasthi et al. (2021), Claim 4.8 (reflection of ReLU).

Several hidden layers. Seen from a layer, the pre-activations of the next one are a readout: W_{l+1}ᵀ its columns, b_{l+1} its
offset. So all this holds for each piece (W_l, b_l | W_{l+1}ᵀ, b_{l+1}), with what it changes in the columns and biases above. A
deep network is known up to a permutation of every layer, a positive scale per unit where the activation is homogeneous, a sign
where it is odd, even or symmetric about a centre. The sign of a ReLU unit is not free: its mirror image differs by a linear
function of the layer's input, which no layer above can take up. (With a single layer, the network's own linear part can.) Units
without a kink within reach of the inputs are units here: only the law of the inputs could show that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class CanonicalOptions:
    """Differences that decide neither the order, nor a sign, nor a scale."""

    order_tol: float = 1e-9  # of coordinates, over the largest one. Checked by `pytest tests/networks/test_canonical.py`.
    sign_tol: float = 1e-6  # of a coordinate, over the largest of its row. Checked by `pytest tests/networks/test_canonical.py`.
    norm_tol: float = 1e-13
    """|norm - 1| of rows that are not rescaled, so that a canonical form is its own canonical form to the last bit.
    Checked by `pytest tests/networks/test_canonical.py`."""


OPTIONS = CanonicalOptions()


class Units(NamedTuple):
    """The parts of f: weights (k, d), biases (k,), readout (k, m), offset (m,), linear (d, m).

    `parts[i]` lists the units of the original network that unit i is made of.
    """

    weights: Array
    biases: Array
    readout: Array
    offset: Array
    linear: Array
    parts: tuple[tuple[int, ...], ...]

    def take(self, chosen: Array) -> Units:
        """The chosen units (indices or a mask), with the same affine part."""
        places = np.arange(len(self.weights))[chosen]
        return self._replace(
            weights=self.weights[places], biases=self.biases[places], readout=self.readout[places],
            parts=tuple(self.parts[i] for i in places))


class Reflection(NamedTuple):
    """act(u) = sign · act(-u) + slope · u + constant."""

    sign: float
    slope: float = 0.0
    constant: float = 0.0


def reflection(activation: Activation) -> Reflection | None:
    """How the activation at u follows from that at -u, or None if it does not (powers of ReLU, exponentials).

    The step obeys it except at u = 0.
    """
    if activation.centre is not None:
        return Reflection(-1.0, constant=2 * activation.centre)
    if activation.mirror is not None:
        return Reflection(1.0, slope=activation.mirror)
    return None


def canonical_units(units: Units, activation: Activation, has_linear: bool) -> Units:
    """The representative: normalised, reflected, merged, ordered.

    A reflection that needs a linear part is used only if the network has one: otherwise the sign belongs to the function.
    """
    units = normalise_units(units, activation)
    mirror = reflection(activation)
    may_reflect = mirror is not None and (has_linear or mirror.slope == 0)
    return order_units(merge_units(reflect_to_canonical_signs(units, mirror if may_reflect else None)))


def normalise_units(units: Units, activation: Activation) -> Units:
    """No zero readouts, no constant units; unit rows if the scale is free, no biases if the shift is."""
    units = units.take(_nonzero(units.readout))
    if activation.degree is not None:
        units = _unit_rows(units, activation.degree)
    constant = ~_nonzero(units.weights)
    at_zero = activation(units.biases[constant])
    units = units._replace(offset=units.offset + at_zero @ units.readout[constant]).take(~constant)
    if _is_exponential(activation):
        units = _absorb_biases(units, activation)
    return units.take(_nonzero(units.readout))


def reflect_units(units: Units, chosen: Array, mirror: Reflection) -> Units:
    """Reflect the chosen units (a mask); what that adds goes into the offset and the linear part."""
    w, b, a = units.weights[chosen], units.biases[chosen], units.readout[chosen]
    turn = np.where(chosen, -1.0, 1.0)
    return units._replace(  # + 0.0 turns -0.0 into 0.0
        weights=units.weights * turn[:, None] + 0.0,
        biases=units.biases * turn + 0.0,
        readout=units.readout * np.where(chosen, mirror.sign, 1.0)[:, None],
        offset=units.offset + (mirror.slope * b + mirror.constant) @ a,
        linear=units.linear + mirror.slope * (w.T @ a))


def reflect_to_canonical_signs(units: Units, mirror: Reflection | None) -> Units:
    """Every unit reflected to its canonical sign, whatever that does to the linear part."""
    return units if mirror is None else reflect_units(units, _points_backwards(units.weights), mirror)


def merge_units(units: Units) -> Units:
    """Add the readouts of units with the same (w, b) up to rounding; drop those whose readouts cancel."""
    sets = [rows for group in _close_groups(units) for rows in _split_equal(units, group)]
    readout = np.array([_cancelled_sum(units.readout[rows]) for rows in sets]).reshape(len(sets), units.readout.shape[1])
    parts = tuple(sum((units.parts[i] for i in rows), ()) for rows in sets)
    units = units.take(np.array([rows[0] for rows in sets], dtype=int))
    return units._replace(readout=readout, parts=parts).take(_nonzero(readout))


def order_units(units: Units) -> Units:
    """Sort by the first weight, then the second, ..., then the bias.

    Two values count as equal if a chain of the other units' values leads from one to the other in steps below 1e-9 of the
    largest weight (bias): rounding cannot decide the order unless a gap happens to have exactly that size. Units that are
    equal in this sense everywhere are sorted by their exact values.
    """
    exact = np.lexsort(np.column_stack([units.weights, units.biases]).T[::-1])
    units = units.take(exact)
    return units.take(np.array([i for group in _close_groups(units) for i in group], dtype=int))


def _nonzero(rows: Array) -> Array:
    return np.asarray(rows.any(axis=1))


def _unit_rows(units: Units, degree: float) -> Units:
    """|w| = 1, and |w|^degree in the readout, unless that leaves the range of floats.

    A row so short that b/|w| overflows is a constant.
    """
    exponent = np.frexp(np.abs(units.weights).max(axis=1, initial=0.0))[1]
    shrunk = np.ldexp(units.weights, -exponent[:, None])  # entries below 1: the norm neither overflows nor underflows
    fraction = np.linalg.norm(shrunk, axis=1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        norms = np.ldexp(fraction, exponent)
        biases = np.ldexp(units.biases / fraction, -exponent)
        readout = units.readout * norms[:, None] ** degree
        weights = shrunk / fraction[:, None]
    constant = ~np.isfinite(biases)
    free = ~constant & np.isfinite(readout).all(axis=1) & _nonzero(readout) & (np.abs(norms - 1) > OPTIONS.norm_tol)
    return units._replace(
        weights=np.where(free[:, None], weights, np.where(constant[:, None], 0.0, units.weights)),
        biases=np.where(free, biases, units.biases), readout=np.where(free[:, None], readout, units.readout))


def _is_exponential(activation: Activation) -> bool:
    """act(s) act(t) = act(s + t) act(0) ≠ 0 at a few points: the shift is free. They are small, for the sake of large rates."""
    s, t = np.array([-0.007, 0.003, 0.011, -0.002]), np.array([0.009, 0.004, -0.016, -0.005])
    with np.errstate(all="ignore"):
        left, right = activation(s) * activation(t), activation(s + t) * activation(np.zeros(4))
    return bool(right.all() and np.allclose(left, right, rtol=1e-13, atol=0))


def _absorb_biases(units: Units, activation: Activation) -> Units:
    """The bias of an exponential unit as a factor of its readout, where that factor can be represented."""
    with np.errstate(over="ignore", under="ignore"):
        readout = units.readout * (activation(units.biases) / activation(np.zeros(1)))[:, None]
    fits = np.isfinite(readout).all(axis=1) & _nonzero(np.abs(readout) > np.finfo(float).tiny)
    return units._replace(
        biases=np.where(fits, 0.0, units.biases), readout=np.where(fits[:, None], readout, units.readout))


def _points_backwards(weights: Array) -> Array:
    """Rows whose first coordinate that is not negligible is negative."""
    if not weights.size:
        return np.zeros(len(weights), dtype=bool)
    size = np.abs(weights)
    first = np.argmax(size > OPTIONS.sign_tol * size.max(axis=1, keepdims=True), axis=1)
    return np.asarray(weights[np.arange(len(weights)), first] < 0)


def _close_groups(units: Units) -> list[list[int]]:
    """Units in order, those that are equal within `order_tol` in one list; between them the given order."""
    keys = np.column_stack([units.weights, units.biases])
    largest = [np.abs(units.weights).max(initial=0.0)] * units.weights.shape[1] + [np.abs(units.biases).max(initial=0.0)]
    label, order = np.zeros(len(keys), dtype=int), np.arange(len(keys))
    for values, scale in zip(keys.T, largest, strict=True):
        order = np.lexsort((values, label))
        new = (np.diff(label[order]) != 0) | (np.diff(values[order]) > OPTIONS.order_tol * scale)
        label[order] = np.concatenate([np.zeros(1, dtype=int), np.cumsum(new)])[: len(order)]
        if len(order) == 0 or label[order[-1]] == len(order) - 1:
            break
    order = np.argsort(label, kind="stable")
    return [group.tolist() for group in np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if len(group)]


def _split_equal(units: Units, group: list[int]) -> list[list[int]]:
    """Split a list of close units into lists of equal ones (greedily: the first of each is its representative)."""
    sets: list[list[int]] = []
    for i in group:
        home = next((rows for rows in sets if _equal(units, rows[0], i)), None)
        if home is None:
            sets.append([i])
        else:
            home.append(i)
    return sets


def _equal(units: Units, i: int, j: int) -> bool:
    size = np.abs(units.weights[j]).max(initial=0.0)
    apart = np.abs(units.weights[i] - units.weights[j]).max(initial=0.0)
    gap = abs(units.biases[i] - units.biases[j])
    return bool(apart <= ROUNDING * size and gap <= ROUNDING * max(size, abs(units.biases[j])))


def _cancelled_sum(readouts: Array) -> Array:
    total: Array = readouts.sum(axis=0)
    total[np.abs(total) <= ROUNDING * np.abs(readouts).sum(axis=0)] = 0.0
    return total


@dataclass(frozen=True, eq=False)
class ComposedTop:
    """A black box top(h) as a function of h' with h = h' R + r."""

    matrix: Array
    shift: Array
    top: Callable[[Array], Array]

    def __call__(self, features: Array) -> Array:
        return self.top(features @ self.matrix + self.shift)


class Stack(NamedTuple):
    """Layers from the lowest up: weights (k_l, k_{l-1}), biases (k_l,); readout (k, m) and offset (m,) of the highest.

    `parts[l][i]` lists the units of layer l of the original network that unit i is made of.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[Activation, ...]
    readout: Array
    offset: Array
    parts: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, layers: Iterable[tuple[Array, Array, Activation]], readout: Array, offset: Array) -> Stack:
        """From layers as (weights, biases, activation), every unit made of itself."""
        weights, biases, activations = zip(*layers, strict=True)
        return cls(weights, biases, activations, readout, offset, tuple(tuple((i,) for i in range(len(b))) for b in biases))

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(biases) for biases in self.biases)

    def piece(self, level: int) -> Units:
        """Layer `level` with the layer above it as its readout."""
        last = level == len(self.weights) - 1
        readout, offset = (self.readout, self.offset) if last else (self.weights[level + 1].T, self.biases[level + 1])
        nothing = np.zeros((self.weights[level].shape[1], readout.shape[1]))
        return Units(self.weights[level], self.biases[level], readout, offset, nothing, self.parts[level])

    def with_piece(self, level: int, units: Units) -> Stack:
        """The stack with that layer replaced, and the columns and biases above it."""
        weights, biases = list(self.weights), list(self.biases)
        weights[level], biases[level] = units.weights, units.biases
        readout, offset = self.readout, self.offset
        if level == len(weights) - 1:
            readout, offset = units.readout, units.offset
        else:
            weights[level + 1], biases[level + 1] = units.readout.T, units.offset
        parts = (*self.parts[:level], units.parts, *self.parts[level + 1 :])
        return Stack(tuple(weights), tuple(biases), self.activations, readout, offset, parts)


def canonical_stack(stack: Stack) -> Stack:
    """Every layer in its canonical form, from the lowest up: normalised, turned, merged, ordered.

    A layer that loses a unit may leave units below it that nobody reads, so it is done again until no unit is lost.
    """
    while True:
        before = stack.widths
        for level, activation in enumerate(stack.activations):
            stack = stack.with_piece(level, canonical_units(stack.piece(level), activation, has_linear=False))
        if stack.widths == before:
            return stack
