"""Rows of a layer above known layers, each known for some of its features: what a kink gives, and how such rows are merged.

At every input of the first feature space the features h that the layer reads are known, and their derivative B with respect to
the first features. A kink of unit (w, b) has the normal Bᵀw, and is on w·h + b = 0: it gives w at the features that are active
there, where B has rows, and b. Two partial rows belong to one unit if they are proportional where both are known; merged they are
known for more features.

A unit that reads the features bends the answers wherever w·h + b = 0. A unit further up has a row that changes as soon as another
unit above the known layers does: partial rows merged from its kinks are no unit, and elsewhere on their zero the answers do not
bend. Zeros of a row are found without queries, because everything below is known; three queries per zero decide whether the
answers bend there (as `laybare.lines.surfaces` does for hyperplanes).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.lines.feature_space import SURFACE, FeatureSpace, Layers
from laybare.lines.observations import LAYER
from laybare.lines.query import QueryContext
from laybare.lines.reachable import Reachability
from laybare.lines.surfaces import PieceGradient, Surface, Verdict, bend_at_hyperplane, verdict_of
from laybare.numerics.shapes import Array


class PartialRow(NamedTuple):
    """Weights, valid where `known`, the bias, and the surfaces of the kinks that they were computed from."""

    weights: Array
    known: Array
    bias: float
    surfaces: tuple[Surface, ...]

    @property
    def kinks(self) -> int:
        """The number of kinks."""
        return len(self.surfaces)

    @property
    def key(self) -> bytes:
        """The same for the same knowledge."""
        rounded = np.round(np.abs(np.append(self.weights[self.known], self.bias)), 5)
        return bytes(self.known.tobytes() + rounded.tobytes())


@dataclass(frozen=True, eq=False)
class PartialLayer:
    """What lines in the first feature space have shown of a layer above the known layers `below`."""

    space: FeatureSpace
    below: Layers
    rows: tuple[PartialRow, ...] = ()
    gradients: tuple[PieceGradient, ...] = ()
    lines: int = 0
    quiet: int = 0

    def linearise(self, x: Array) -> tuple[list[Array], Array]:
        """At one input: pre-activations of the known layers, and B, (features, width)."""
        h, B, before = self.space.features(x[None])[0], np.eye(self.space.width), []
        for weights, biases in self.below:
            z = weights @ h + biases
            before.append(z)
            h, B = np.maximum(z, 0.0), np.where(z[:, None] > 0.0, weights @ B, 0.0)
        return before, B

    def features(self, x: Array) -> Array:
        """Features of the highest known layer at one input."""
        return np.maximum(self.linearise(x)[0][-1], 0.0)

    def pre_activations(self, row: PartialRow, x: Array) -> Array:
        """weights·h + bias of a row at inputs (n, dim); NaN where a feature is active for which it is unknown."""
        h = self.space.features(x)
        for weights, biases in self.below:
            h = np.maximum(h @ weights.T + biases, 0.0)
        return np.where((h[:, ~row.known] > 0.0).any(axis=1), np.nan, h @ row.weights + row.bias)

    @property
    def reachability(self) -> Reachability:
        return Reachability(self.below, self.space.spread)

    @property
    def complete(self) -> list[PartialRow]:
        """Rows that are known for all features, from enough kinks."""
        return [row for row in self.rows if row.known.all() and row.kinks >= LAYER.min_kinks_per_row]

    @property
    def incomplete(self) -> list[PartialRow]:
        """Rows that are neither complete nor explained by a complete one."""
        units = self.complete
        return [row for row in self.rows if not any(row is unit or self._is_zero(unit, row.surfaces[0].x) for unit in units)]

    def with_surface(self, surface: Surface) -> PartialLayer:
        """With the row of one more kink, if it is one of this layer."""
        row = _row_from_kink(self, surface)
        return self if row is None else replace(self, rows=tuple(_merge_into(list(self.rows), row)))

    def explains(self, x: Array) -> bool:
        """Whether a unit of a known layer, or a row that is known at x, is zero there."""
        before, _ = self.linearise(x)
        size = 1.0 + float(np.linalg.norm(self.space.features(x[None])))
        if min(float(np.abs(z).min()) for z in before) <= LAYER.zero_distance * size:
            return True
        active = before[-1] > 0.0
        return any(
            row.kinks >= LAYER.min_kinks_per_row and not active[~row.known].any() and self._is_zero(row, x) for row in self.rows)

    def _is_zero(self, row: PartialRow, x: Array) -> bool:
        size = 1.0 + float(np.linalg.norm(self.space.features(x[None])))
        return abs(float(row.weights @ self.features(x)) + row.bias) <= LAYER.zero_distance * size


def _row_from_kink(layer: PartialLayer, surface: Surface) -> PartialRow | None:
    """The row of a kink; None if it is no kink of this layer."""
    before, B = layer.linearise(surface.x)
    on = before[-1] > 0.0
    if not on.any() or np.linalg.matrix_rank(B[on], tol=1e-6) < on.sum():
        return None
    row = np.zeros(len(on))
    row[on] = np.linalg.lstsq(B[on].T, surface.normal, rcond=None)[0]
    if np.abs(B.T @ row - surface.normal).max() > LAYER.proportional_tol[-1]:
        return None
    size = float(np.linalg.norm(row))
    return PartialRow(row / size, on, -float(row @ np.maximum(before[-1], 0.0)) / size, (surface,))


def _merge_into(rows: list[PartialRow], row: PartialRow) -> list[PartialRow]:
    """The rows with one more, which may merge others."""
    for i, other in enumerate(rows):
        merged = _merge_pair(other, row)
        if merged is not None:
            return _merge_into(rows[:i] + rows[i + 1 :], merged)
    return [*rows, row]


def _merge_pair(one: PartialRow, other: PartialRow) -> PartialRow | None:
    both = one.known & other.known
    a, b = np.append(one.weights[both], one.bias), np.append(other.weights[both], other.bias)
    if len(a) < 2:
        return None
    factor = float(a @ b) / float(b @ b)
    if np.abs(a - factor * b).max() > LAYER.proportional_tol[min(len(a), 3) - 2] * np.abs(a).max():
        return None
    row = np.where(one.known, one.weights, factor * other.weights)
    size = float(np.linalg.norm(row))
    return PartialRow(row / size, one.known | other.known, one.bias / size, one.surfaces + other.surfaces)


def classify_row(context: QueryContext, layer: PartialLayer, row: PartialRow) -> Verdict:
    """Far checks until they decide, 3 queries each; "undecided" if random segments hardly ever cross the zero of the row."""
    score, everywhere, space = 0, True, layer.space
    for _ in range(SURFACE.max_checks):
        x = _zero_on_segment(context, layer, row)
        everywhere = everywhere and x is not None
        x = _zero_on_segment(context, layer, row, beside=True) if x is None else x
        if x is None:
            return "undecided"
        slope = row.weights @ layer.linearise(x)[1]
        normal = slope / np.linalg.norm(slope)
        surface = Surface(normal, -float(normal @ space.features(x[None])[0]), row.surfaces[0].sd, x, (x, x))
        score += bend_at_hyperplane(context, space, surface, x, space.inverse @ normal)
        if score >= SURFACE.accept_score or score <= SURFACE.reject_score:
            break
    return verdict_of(score, everywhere=everywhere)


def _zero_on_segment(context: QueryContext, layer: PartialLayer, row: PartialRow, *, beside: bool = False) -> Array | None:
    """An input at which the row is zero, between two random ones; or between one and a line that has met the row."""
    rng = context.rng
    for _ in range(LAYER.max_segments):
        start, end = layer.space.random_point(rng), layer.space.random_point(rng)
        if beside:
            met = row.surfaces[rng.integers(row.kinks)]
            end = met.x + rng.uniform(0.3, 1.0) * (met.beyond[rng.integers(2)] - met.x)
        places = start + np.linspace(0.0, 1.0, LAYER.segment_points)[:, None] * (end - start)
        z = layer.pre_activations(row, places)
        turns = np.flatnonzero(z[1:] * z[:-1] < 0.0)
        if len(turns):
            i = int(rng.choice(turns))
            return _bisect_zero(layer, row, *((places[i], places[i + 1]) if z[i] < 0.0 else (places[i + 1], places[i])))
    return None


def _bisect_zero(layer: PartialLayer, row: PartialRow, low: Array, high: Array) -> Array:
    """Where the row is zero, between an input at which it is negative and one at which it is not."""
    for _ in range(LAYER.halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if layer.pre_activations(row, middle[None])[0] < 0.0 else (low, middle)
    return np.asarray((low + high) / 2.0)
