"""`lb.simplify(network)`: fewer units, the same function on a box, and a proof of it.

Of units act(u) with act homogeneous of degree 1 (ReLU, leaky ReLU, absolute value), u = w·x + b, in any layer:

    dead, always on   u ≤ 0 or u ≥ 0 wherever the box leads: act(u) is 0, or a multiple of u, an affine function
    parallel          (w', b') = c (w, b), c > 0: act(u') = c act(u)
    opposite          c < 0: act(u') = |c| (act(u) - 2α u), α = (act(1) - act(-1)) / 2: one unit, and an affine function
    unread            all weights that read it are 0

Affine functions are carried over to the layer above: by the linear part of a network of one layer, else by as many units as their
matrix has rank, shifted so that they are always on; a layer that is nothing but affine goes altogether (Serra et al. 2020).

Proof. Where a unit never changes sides is shown by interval arithmetic. A step at one layer leaves the layers below it alone and
changes what the next one receives by at most e, entry by entry: the roundings of the new coefficients, and whatever makes (w',
b') differ from c (w, b). Above it act is Lipschitz, so the outputs change by at most |A| |W_l| ··· |W| e times Lipschitz
constants. `bound` adds that over all steps, rounded up.

Interval arithmetic for layers, rounded outwards: bounds that hold for the real numbers that the floats stand for.

A sum of n products is computed with an error of at most γ Σ|wᵢxᵢ|, γ = n u / (1 - n u), in any order (Higham 2002, section 3.1).
Every bound below is moved outwards by that, so that what follows from it is proved, and not only computed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.networks.canonical import Stack, Units
from laybare.networks.network import Layer, Network
from laybare.numerics.checks import as_reals, check_instance
from laybare.numerics.levels import EPS, ROUNDING
from laybare.numerics.shapes import Array


class Interval(NamedTuple):
    """Numbers between low and high, entry by entry."""

    low: Array
    high: Array

    @property
    def size(self) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def rounding_of_sum(terms: int) -> float:
    """γ for a sum of that many products, with a few more for what is done to it afterwards."""
    n = (terms + 4) * EPS
    return n / (1.0 - n)


def affine_bounds(weights: Array, biases: Array, inputs: Interval) -> Interval:
    """Bounds of W x + b, (k,), for inputs between bounds."""
    positive, negative = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    slack = rounding_of_sum(weights.shape[1] + 1) * (np.abs(weights) @ inputs.size + np.abs(biases))
    low = positive @ inputs.low + negative @ inputs.high + biases - slack
    high = positive @ inputs.high + negative @ inputs.low + biases + slack
    return Interval(low, high)


def activation_bounds(activation: Activation, inputs: Interval) -> Interval:
    """Bounds of a homogeneous activation of degree 1: its extremes lie at the ends, or at 0."""
    right, left = (float(activation(np.array([end]))[0]) for end in (1.0, -1.0))

    def value(t: Array) -> Array:
        return np.where(t >= 0.0, right * t, -left * t)

    ends = np.stack([value(inputs.low), value(inputs.high)])
    crosses = (inputs.low < 0.0) & (inputs.high > 0.0)
    low, high = ends.min(axis=0), ends.max(axis=0)
    low, high = np.where(crosses, np.minimum(low, 0.0), low), np.where(crosses, np.maximum(high, 0.0), high)
    slack = 2.0 * EPS * np.maximum(np.abs(low), np.abs(high))
    exact = right in (0.0, 1.0) and left in (0.0, 1.0)  # products with 0 and 1 are not rounded
    return Interval(low, high) if exact else Interval(low - slack, high + slack)


def absolute_sum(matrix: Array, sizes: Array) -> Array:
    """An upper bound of |A| s for sizes s ≥ 0."""
    return np.asarray((np.abs(matrix) @ sizes) * (1.0 + rounding_of_sum(matrix.shape[-1])))


@dataclass(frozen=True, eq=False)
class Simplification:
    """A smaller network that is the same function on a box.

    Attributes
    ----------
    network : Network
    box : Interval
        Lowest and highest value of every input.
    bound : float
        The outputs differ by at most this anywhere in the box: proved, in real numbers.
    before, after : tuple of int
        Widths of the hidden layers.
    removed : dict
        How many units went because they were "dead", "always on", "parallel", "opposite" or "unread".
    """

    network: Network
    box: Interval
    bound: float
    before: tuple[int, ...]
    after: tuple[int, ...]
    removed: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = ", ".join(f"{count} {kind}" for kind, count in self.removed.items() if count)
        before, after = ("-".join(map(str, widths)) for widths in (self.before, self.after))
        became = f"became {sum(self.after)} ({after}): {parts}" if parts else "stay as they are: none can go"
        return (
            f"{sum(self.before)} units ({before}) {became}.\n"
            f"On the box the outputs differ by at most {self.bound:.1e} (interval arithmetic, rounded outwards).")

    __repr__ = __str__


def simplify(network: Network, box: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0)) -> Simplification:
    """A network with fewer units that is the same function on a box, with a proof.

    Parameters
    ----------
    network : Network of ReLU, leaky ReLU or absolute values, of any depth
    box : (low, high), numbers or one for each input; the smaller it is, the more units never change sides in it
    """
    check_instance("network", network, Network, "Give a network, such as found.network.")
    inputs = _as_box(box, network.dim)
    _check_homogeneous(network)
    state = _State(network.stack, network.linear, 0.0, Counter())
    while True:
        before = state.stack.widths
        level = 0
        while level < len(state.stack.weights):
            state, gone = _simplify_level(state, level, inputs)
            level += not gone
        if state.stack.widths == before:
            break
    result = _as_network(network, state)
    bound = state.bound * (1.0 + ROUNDING)  # what rounding did to the bounds themselves
    return Simplification(result, inputs, bound, network.widths, result.widths, dict(state.removed))


class _State(NamedTuple):
    """The layers so far, the linear part beside them, by how much the outputs may have changed, units that went."""

    stack: Stack
    linear: Array | None
    bound: float
    removed: Counter[str]


class _Side(NamedTuple):
    """What units of a layer are on the box: slope[i] of unit i where it is a multiple of u, NaN where it bends."""

    slope: Array
    reach: Interval


def _simplify_level(state: _State, level: int, box: Interval) -> tuple[_State, bool]:
    """One step; and whether the layer is gone, so that its place is the next one's."""
    stack, activation = state.stack, state.stack.activations[level]
    single = len(stack.weights) == 1
    reach = _reach(stack, level, box)
    units = stack.piece(level)
    side = _Side(_slopes(units, activation, reach), reach)
    best = min(
        (_plan(units, activation, side, fold=fold, turn=turn, free=single) for fold, turn in product((False, True), repeat=2)),
        key=lambda plan: plan.width)
    removed = state.removed + best.counts
    if best.width == 0 and not single:
        stack = _without_level(stack, level, best)
        bound = state.bound + _at_outputs(stack, level, best.error)
        return _State(stack, state.linear, bound, removed), True
    new, error = _carried(best, activation, reach) if not single else (best.units, best.error)
    stack = stack.with_piece(level, new)
    linear = state.linear
    if single and best.affine.any():
        linear = best.affine.T if linear is None else linear.reshape(best.affine.T.shape) + best.affine.T
        error = error + EPS * absolute_sum(linear.T, reach.size)
    return _State(stack, linear, state.bound + _at_outputs(stack, level + 1, error), removed), False


class _Plan(NamedTuple):
    """Units that stay, the affine function beside them (m, d) whose constant is in their offset, its rank; how many units are
    needed; the error of what the next layer receives (m,); what went."""

    units: Units
    affine: Array
    rank: int
    width: int
    error: Array
    counts: Counter[str]


def _plan(units: Units, activation: Activation, side: _Side, *, fold: bool, turn: bool, free: bool) -> _Plan:
    """Dead and unread units go, parallel ones merge; with `fold` always-on units, with `turn` opposite ones become affine."""
    read = np.any(units.readout != 0.0, axis=1)
    dead = read & (side.slope == 0.0)
    affine_units = read & ~dead & (np.isfinite(side.slope) if fold else np.zeros(len(read), dtype=bool))
    counts = Counter({"unread": int(np.sum(~read)), "dead": int(dead.sum())})
    affine, offset, error = _affine_part(units, affine_units, side)
    kept, merge_error, turned = _merge(units.take(read & ~dead & ~affine_units), activation, side.reach, turn, counts)
    affine, offset = affine + turned[:, :-1], offset + turned[:, -1]
    error = error + merge_error + EPS * (absolute_sum(affine, side.reach.size) + np.abs(offset))
    carried = not free and len(kept.weights) > 0 and bool(affine.any())  # a layer without kinks goes altogether
    rank = int(np.linalg.matrix_rank(affine * np.maximum(side.reach.size, EPS))) if carried else 0
    folded = int(affine_units.sum())
    counts["always on"] += max(0, folded - rank)
    counts["opposite"] -= max(0, rank - folded)  # these come back as units that carry what turned ones leave
    result = kept._replace(offset=kept.offset + offset)
    return _Plan(result, affine, rank, len(kept.weights) + rank, error + EPS * np.abs(result.offset), counts)


def _affine_part(units: Units, chosen: Array, side: _Side) -> tuple[Array, Array, Array]:
    """Σ aᵢ sᵢ (wᵢ·x + bᵢ) over the chosen units: matrix (m, d), constant (m,), and a bound of their rounding."""
    scaled = units.readout[chosen] * side.slope[chosen, None]
    matrix, constant = scaled.T @ units.weights[chosen], scaled.T @ units.biases[chosen]
    sizes = np.abs(scaled).T @ (np.abs(units.weights[chosen]) @ side.reach.size + np.abs(units.biases[chosen]))
    return matrix, constant, rounding_of_sum(int(chosen.sum()) + 2 + len(side.reach.low)) * sizes


def _merge(
    units: Units, activation: Activation, reach: Interval, turn: bool, counts: Counter[str]
) -> tuple[Units, Array, Array]:
    """Units on one hyperplane become one: (units, error (m,), affine function (m, d + 1) that turned ones leave)."""
    right, left = (float(activation(np.array([end]))[0]) for end in (1.0, -1.0))
    odd, steepest = (right - left) / 2.0, max(abs(right), abs(left))
    m, d = units.readout.shape[1], units.weights.shape[1]
    readout, error, affine = units.readout.copy(), np.zeros(m), np.zeros((m, d + 1))
    rows, extended = np.column_stack([units.weights, units.biases]), np.append(reach.size, 1.0)
    stay: list[int] = []
    for i in range(len(rows)):
        home = next((j for j in stay if _ratio(rows[i], rows[j], extended, both=turn or odd == 0.0)), None)
        if home is None:
            stay.append(i)
            continue
        c = _ratio(rows[i], rows[home], extended, both=True)
        apart = steepest * absolute_sum(rows[i] - c * rows[home], extended) + 2.0 * EPS * abs(c) * absolute_sum(
            rows[home], extended) * steepest
        size = steepest * absolute_sum(rows[home], extended) * abs(c)
        error += np.abs(readout[i]) * (apart + 4.0 * EPS * size) + EPS * np.abs(readout[home]) * size / max(abs(c), EPS)
        readout[home] += abs(c) * readout[i]
        if c < 0.0:
            affine -= 2.0 * odd * abs(c) * readout[i][:, None] * rows[home][None]
            error += 8.0 * EPS * np.abs(readout[i]) * size
        counts["opposite" if c < 0.0 else "parallel"] += 1
    return units._replace(readout=readout).take(np.array(stay, dtype=int)), error, affine


def _ratio(row: Array, other: Array, extended: Array, *, both: bool) -> float:
    """c with row = c · other within rounding; 0 if there is none (c < 0 counts only with `both`)."""
    place = int(np.argmax(np.abs(other) * extended))
    if other[place] == 0.0:
        return 0.0
    c = float(row[place] / other[place])
    apart = np.max(np.abs(row - c * other) * extended, initial=0.0)
    same = apart <= ROUNDING * np.max(np.abs(row) * extended, initial=0.0)
    return c if same and (c > 0.0 or (both and c < 0.0)) else 0.0


def _carried(plan: _Plan, activation: Activation, reach: Interval) -> tuple[Units, Array]:
    """The plan's units with as many more, always on, as its affine function has rank; and the error with theirs."""
    if plan.rank == 0:
        return plan.units, plan.error
    units, slope = plan.units, float(activation(np.ones(1))[0])
    scale = np.maximum(reach.size, EPS)
    rows = _basis(plan.affine * scale, plan.rank) / scale
    readers = np.linalg.lstsq(rows.T * scale[:, None], (plan.affine * scale).T, rcond=None)[0]  # (rank, m)
    shift = np.maximum(-affine_bounds(rows, np.zeros(len(rows)), reach).low, 0.0) + ROUNDING * (np.abs(rows) @ reach.size)
    left = plan.affine - readers.T @ rows
    rounding = rounding_of_sum(plan.rank + 1) * (np.abs(readers.T) @ (np.abs(rows) @ reach.size + shift))
    error = plan.error + absolute_sum(left, reach.size) + 2.0 * rounding
    parts = (*units.parts, *(() for _ in range(plan.rank)))
    return Units(
        np.vstack([units.weights, rows]), np.append(units.biases, shift), np.vstack([units.readout, readers / slope]),
        units.offset - shift @ readers, units.linear, parts), error


def _basis(matrix: Array, rank: int) -> Array:
    """A basis of the row space: the axes if the rank is full, else rows of the matrix itself, so that bounds stay tight."""
    if rank == matrix.shape[1]:
        return np.eye(rank)
    _, _, order = scipy.linalg.qr(matrix.T, mode="economic", pivoting=True)
    return np.asarray(matrix[np.sort(order[:rank])])


def _without_level(stack: Stack, level: int, plan: _Plan) -> Stack:
    """The stack with the next layer, or the readout, on top of what was below this layer."""
    weights, biases, activations, parts = (
        [*every[:level], *every[level + 1 :]] for every in (stack.weights, stack.biases, stack.activations, stack.parts))
    readout, offset = stack.readout, stack.offset
    if level < len(weights):
        weights[level], biases[level] = plan.affine, plan.units.offset
    else:
        readout, offset = plan.affine.T, plan.units.offset
    return Stack(tuple(weights), tuple(biases), tuple(activations), readout, offset, tuple(parts))


def _reach(stack: Stack, level: int, box: Interval) -> Interval:
    """Bounds of the inputs of a layer."""
    for below in range(level):
        box = activation_bounds(stack.activations[below], affine_bounds(stack.weights[below], stack.biases[below], box))
    return box


def _slopes(units: Units, activation: Activation, reach: Interval) -> Array:
    bounds = affine_bounds(units.weights, units.biases, reach)
    right, left = (float(activation(np.array([end]))[0]) for end in (1.0, -1.0))
    constant = ~np.any(units.weights != 0.0, axis=1)
    on, off = (bounds.low >= 0.0) | (constant & (units.biases >= 0.0)), (bounds.high <= 0.0) | (constant & (units.biases <= 0.0))
    return np.where(on, right, np.where(off, -left, np.nan))


def _at_outputs(stack: Stack, level: int, error: Array) -> float:
    """How far the outputs can move if what layer `level` receives (its sums u) moves by `error`."""
    for above in range(level, len(stack.weights)):
        right, left = (abs(float(stack.activations[above](np.array([end]))[0])) for end in (1.0, -1.0))
        error = max(right, left) * error * (1.0 + EPS)
        last = above == len(stack.weights) - 1
        error = absolute_sum(stack.readout.T if last else stack.weights[above + 1], error)
    return float(np.max(error, initial=0.0))


def _as_network(network: Network, state: _State) -> Network:
    stack, tail = state.stack, network.readout.shape[1:]
    layers = [Layer(*level) for level in zip(stack.weights, stack.biases, stack.activations, strict=True)]
    linear = None if state.linear is None else np.reshape(state.linear, (network.dim, *tail))
    return Network(layers, stack.readout.reshape(len(stack.readout), *tail), stack.offset.reshape(tail), linear)


def _as_box(box: tuple[ArrayLike, ArrayLike], dim: int) -> Interval:
    try:
        low, high = (np.broadcast_to(as_reals("box", end), (dim,)).astype(float) for end in box)
    except Exception as error:  # whatever an object does when it is taken apart
        raise InvalidInput(
            "box is no pair of numbers or of rows.", f"The network has {dim} inputs, each between a lowest and a highest value.",
            "Give (low, high), numbers or arrays with one entry per input.") from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise InvalidInput(
            "The box is not finite, or a lowest value exceeds its highest.", "Equality is proved on a box of finite size.",
            "Give the range of every input.")
    return Interval(low, high)


def _check_homogeneous(network: Network) -> None:
    if network.top is not None:
        raise InvalidInput(
            f"The network {network.architecture} has a black box on top.", "What it does with a unit is not known.",
            "Simplify a network that is known up to its outputs.")
    odd = [layer.activation.name for layer in network.layers if layer.activation.degree != 1]
    if odd:
        raise InvalidInput(
            f"The network has {odd[0]} units.", "Only units that are linear on both sides of 0 can be moved to other layers.",
            "Simplify networks of ReLU, leaky ReLU or absolute values; canonical() merges equal units of any kind.")
