"""The end of a reading: is the output affine in the highest layer? Then the readout, all layers fitted together, fresh answers.

    f = h_L A + h_{L-1} B + c

B is what wrong orientations of layer L, weights that are open and units that are always on leave (`facts.solve_orientation` with
the outputs as the units above). The joint fit is that of all deep networks (`laybare.lines.deep_fit`).

**Free rows.** The surface of unit m may never meet that of a feature k, so that no point of it tells c_mk: some directions u of
the row are free. Answers tell them where the unit is on: f changes there by u·h A_m. Together with A, B and c the rows are fitted
by least absolute residuals, like the readout, so that answers that a missing unit has changed are left over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lines.deep_fit import DeepParameters
from laybare.lines.folds.fold_options import FoldOptions
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.query import Answers
from laybare.numerics.shapes import Array


class Readout(NamedTuple):
    """A (width, outputs), B (width below, outputs), c (outputs,), the misfit of held-out answers relative to the largest answer,
    and the rows of the inputs that are not fitted."""

    readout: Array
    below: Array
    offset: Array
    misfit: float
    missed: Array

    def __call__(self, known: KnownLayers, x: Array) -> Array:
        """Outputs (n, outputs)."""
        return np.asarray(readout_features(known, x) @ np.vstack([self.readout, self.below, self.offset]))


def readout_features(known: KnownLayers, x: Array) -> Array:
    """[h_L, h_{L-1}, 1] at the rows of x."""
    return np.hstack([known.features(x, known.depth), known.features(x, known.depth - 1), np.ones((len(x), 1))])


def fit_readout(known: KnownLayers, x: Array, y: Array, *, rounds: int = 60, missed: float = 1e-6) -> Readout:
    """The output as an affine function of the two highest layers, by least absolute residuals.

    Reweighted least squares with weights 1 / sqrt(residual + level), the level falling to rounding: the fit goes through the
    answers that some affine function explains exactly, and those that a missing unit has changed are left over. Misfits are
    relative to the largest answer.
    """
    features = readout_features(known, x)
    size = np.abs(features).max(axis=0)
    size[size == 0.0] = 1.0
    scaled, top = features / size, float(np.abs(y).max())
    weight, off = np.ones(len(x)), np.zeros(len(x))
    for level in top * np.geomspace(0.1, 1e-13, rounds):
        solution = np.linalg.lstsq(scaled * weight[:, None], y * weight[:, None], rcond=1e-13)[0]
        off = np.abs(y - scaled @ solution).max(axis=1)
        if off.max() <= 1e-9 * top:
            break
        weight = 1.0 / np.sqrt(off + level)
        weight /= weight.max()
    solution = solution / size[:, None]
    width = known.weights[-1].shape[0]
    return Readout(
        solution[:width], solution[width:-1], solution[-1], float(np.max(off)) / top, np.flatnonzero(off > missed * top))


class FreeRows(NamedTuple):
    """Directions (n, below + 1) in which the rows of the highest layer, with their biases, may change, and the unit of each.

    Along them no located point of the unit's surface is left.
    """

    units: Array
    directions: Array


def fit_free_rows(
    known: KnownLayers, free: FreeRows, answers: Answers, readout: Readout, options: FoldOptions
) -> tuple[KnownLayers, Readout]:
    """Rows moved along their free directions until answers are predicted: Levenberg's method for the loss Σ log(off² + level²).

    It falls with the level most where an answer comes to be predicted, so that those that are stay so. Before, units are moved
    that are on the wrong side at some answers (`_RowFit.switched`), which no derivative shows.
    """
    fit, damping = _RowFit(known, free, answers, readout, options), options.free_damping[0]
    for unit in np.unique(free.units):
        fit = min((fit, fit.switched(int(unit))), key=lambda one: len(one.missed))
    highest = max(options.free_levels[0] * float(fit.off.max()), options.free_levels[1])
    for level in np.geomspace(highest, options.free_levels[1], options.free_steps):
        for _ in range(options.free_steps):
            moved, damping = fit.improved(level, damping)
            gained, fit = fit.loss(level) - moved.loss(level), moved
            if gained <= 1.0:
                break
        if fit.off.max() <= options.free_levels[1]:
            break
    return fit.known, fit.readout._replace(misfit=float(fit.off.max()), missed=fit.missed)


class _RowFit:
    """The function at the answers, and its derivatives along the free directions and in (A, B, c)."""

    def __init__(
        self, known: KnownLayers, free: FreeRows, answers: Answers, readout: Readout, options: FoldOptions
    ) -> None:
        self.known, self.free, self.answers, self.readout, self.options = known, free, answers, readout, options
        self.affine = readout_features(known, answers.x)
        width = len(known.biases[-1])
        along, size = self.affine[:, width:] @ free.directions.T, np.linalg.norm(self.affine[:, width:], axis=1, keepdims=True)
        self.acting = np.where((self.affine[:, free.units] > 0.0) & (np.abs(along) > options.rank * size), along, 0.0)
        self.rest = answers.y - readout(known, answers.x)
        self.size = np.abs(answers.y).max(axis=1) + np.abs(answers.y).max(axis=1).mean()
        self.off = np.abs(self.rest).max(axis=1) / self.size

    @property
    def missed(self) -> Array:
        return np.flatnonzero(self.off > self.options.oriented)

    def switched(self, unit: int) -> _RowFit:
        """With the row of a unit for which missed answers are on the other side of its surface.

        Where the unit is on at all answers that tell of a free direction, or at none, a change along it is the same as one of B.
        At an answer x for which it is on the other side, f is off by |z(x)| A_m: this tells z(x) of the right row, one equation
        for the free directions. More equations than directions must agree.
        """
        a, mine = self.readout.readout[unit], self.free.units == unit
        value, h = self.rest @ a / max(float(a @ a), 1e-300), self.affine[:, len(self.known.biases[-1]) :]
        row = np.append(self.known.weights[-1][unit], self.known.biases[-1][unit])
        aside = np.abs(self.rest - value[:, None] * a).max(axis=1) / self.size
        used = (self.off > self.options.oriented) & (value > 0.0) & (aside <= self.options.oriented)
        side = 1.0 if ((h @ row)[used] > 0.0).sum() * 2 >= used.sum() else -1.0
        used &= side * (h @ row) > 0.0
        if used.sum() <= mine.sum() + self.options.spare:
            return self
        system, right = h[used] @ self.free.directions[mine].T, -side * value[used] - (h @ row)[used]
        y = _least_absolute(system, right, self.options.free_steps)
        agree = np.abs(system @ y - right) <= self.options.oriented * np.abs(right).max()
        if agree.sum() <= mine.sum() + self.options.spare:
            return self
        change, moved = np.zeros(len(mine)), y @ self.free.directions[mine]
        change[mine] = y
        affine = np.zeros((self.affine.shape[1], len(a)))
        affine[len(self.known.biases[-1]) :] = -np.outer(moved, a) * (side > 0.0)
        return self.moved(change, affine)

    def loss(self, level: float) -> float:
        return float(np.log(self.off**2 + level**2).sum())

    def improved(self, level: float, damping: float) -> tuple[_RowFit, float]:
        """After one step that lowers the loss, if there is one, and the damping for the next."""
        weight, (least, most) = 1.0 / np.sqrt(self.off**2 + level**2) / self.size, self.options.free_damping
        while damping <= most:
            moved = self.moved(*self.step(weight, damping))
            if moved.loss(level) < self.loss(level):
                return moved, max(0.1 * damping, least)
            damping *= 10.0
        return self, least

    def moved(self, change: Array, affine: Array) -> _RowFit:
        rows = np.column_stack([self.known.weights[-1], self.known.biases[-1]])
        np.add.at(rows, self.free.units, change[:, None] * self.free.directions)
        old, width = self.readout, len(rows)
        new = old._replace(
            readout=old.readout + affine[:width], below=old.below + affine[width:-1], offset=old.offset + affine[-1])
        return _RowFit(self.known.with_top(rows[:, :-1], rows[:, -1]), self.free, self.answers, new, self.options)

    def step(self, weight: Array, damping: float) -> tuple[Array, Array]:
        """Changes along the free directions, and of (A, B, c), which are eliminated: all outputs have the same features."""
        affine, acting, rest = (weight[:, None] * part for part in (self.affine, self.acting, self.rest))
        size = np.maximum(np.linalg.norm(affine, axis=0), 1e-300)
        u, s, vt = np.linalg.svd(affine / size, full_matrices=False)
        kept = s > 1e-13 * s[0]
        u, inverse = u[:, kept], (vt[kept].T / s[kept]) / size[:, None]
        across, left = acting - u @ (u.T @ acting), rest - u @ (u.T @ rest)
        above = self.readout.readout[self.free.units].T
        lengths = np.sqrt((above**2).sum(axis=0) * (acting**2).sum(axis=0))
        lengths[lengths == 0.0] = np.inf
        system = np.vstack([*(across * a / lengths for a in above), np.sqrt(damping) * np.eye(len(lengths))])
        right = np.concatenate([left.T.ravel(), np.zeros(len(lengths))])
        change = np.linalg.lstsq(system, right, rcond=1e-14)[0] / lengths
        return change, inverse @ (u.T @ (rest - acting @ (change[:, None] * above.T)))


def _least_absolute(system: Array, right: Array, steps: int) -> Array:
    """Least absolute residuals, by reweighted least squares: equations that do not agree with most are left over."""
    solution = np.linalg.lstsq(system, right, rcond=1e-12)[0]
    for level in np.abs(right).max() * np.geomspace(0.1, 1e-10, steps):
        weight = 1.0 / np.hypot(system @ solution - right, level)
        weight = np.sqrt(weight / weight.max())
        solution = np.linalg.lstsq(weight[:, None] * system, weight * right, rcond=1e-12)[0]
    return np.asarray(solution)


def without_unused(network: DeepParameters, level: float = 1e-10) -> tuple[DeepParameters, list[Array]]:
    """The same function without units that nothing above reads: their weights above are zero up to `level` of the largest.

    And which units of every layer are kept, (width,) each.
    """
    layers, above, kept = list(network.layers), network.readout.T, list[Array]()
    for i in range(len(layers) - 1, -1, -1):
        weights, biases = layers[i]
        size = np.abs(above) * np.linalg.norm(weights, axis=1)
        used = (size > level * size.max(axis=1, keepdims=True)).any(axis=0)
        layers[i], kept = (weights[used], biases[used]), [used, *kept]
        if i == len(layers) - 1:
            network = network._replace(readout=network.readout[used])
        else:
            layers[i + 1] = (layers[i + 1][0][:, used], layers[i + 1][1])
        above = layers[i][0]
    return network._replace(layers=tuple(layers)), kept
