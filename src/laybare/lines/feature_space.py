"""Feature spaces of a deep ReLU network: where the layers below are known, what lies above is a black box of their features.

Where every unit of the known layers is active, their features are affine in the input, h = M x + s. This region is a convex
polyhedron, bounded by the units themselves. Inside it the answers are a function of h alone,

    g(h) = f(x),      x = x₀ + M⁺(h - h₀),

so lines, gradients and checks are asked at inputs, and expressed in features. The input space is the feature space of no layers,
without boundaries. A feature space exists if the rows of every layer below are independent (no layer wider than its input), and
if all units below can be active together; for one layer the second is always true. What bends only where some unit below is
inactive is not seen in a space above two or more layers; fresh answers of the whole network show that something is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.optimize import linprog

from laybare.errors import NotSeparated
from laybare.lines.line import Line
from laybare.lines.query import QueryCounter
from laybare.numerics.shapes import Array

Layers = tuple[tuple[Array, Array], ...]
"""Weights and biases from the lowest layer up."""


@dataclass(frozen=True, kw_only=True)
class SurfaceOptions:
    """Lines in a feature space, and surfaces measured there. Lengths are in units of the inputs' scale unless stated."""

    line_reach: float = 1e3  # in units of the line's scale. Derived: one unit in 1,000 bends farther out.
    log_spread: float = 1.3  # sd of log h of random points. Checked by `laybare reproduce deep-cases`.
    boundary_margin: float = 1e-6  # share of the way to a boundary that is left. Checked by `pytest tests/lines/test_deep.py`.
    corner: float = 1e-3  # distance from h = 0 of lines along a feature. Checked by `laybare reproduce deep-cases`.
    max_margin_cuts: int = 8  # of wanted margins, by 4 each. Checked by `laybare reproduce deep-cases`.
    boundary_sds: float = 5.0  # by which boundaries are moved inwards. Checked by `pytest tests/lines/test_middle_layers.py`.
    clearance: float = 4.0  # points begin this many such distances inside. Checked by `pytest tests/lines/test_middle_layers.py`.
    step: float = 1e-3  # of a gradient, share of half a piece. Checked by `laybare reproduce deep`.
    coarse_step: float = 0.05
    """The same for coarse answers or unsure surfaces. Checked by `pytest tests/lines/test_middle_layers.py`."""
    first_coarse_step: float = 0.4
    """The same of the first try with coarse answers, whose digits it keeps; shorter ones follow. Checked by `python
    benchmarks/zoo_drawn.py` and `python benchmarks/zoo.py`."""
    max_tries: int = 4  # per piece, with an eighth of the step each time. Checked by `laybare reproduce deep`.
    check_step: float = 1e-4  # across a hyperplane in a far check. Checked by `laybare reproduce deep-cases`.
    far_places: float = 2.0
    """Distance of the places of far checks, in median distances of kinks. Derived: most hyperplanes are nearer, so that places
    lie in different cells."""
    max_pairs: int = 20  # random points tried for one on the other side. Checked by `laybare reproduce deep-cases`.
    beyond: float = 3.0  # how far a surface's line is kept beside it. Checked by `laybare reproduce deep-cases`.
    max_normal_sd: float = 1e-7  # of a surface, with float64 answers. Checked by `laybare reproduce deep`.
    rough_normal_sd: float = 0.1
    """The same with coarse answers. Derived: places are then located over ten windows, which makes it exact."""
    blind_slope: float = 1e-7  # share of the steepest slope that is zero. Checked by `laybare reproduce deep`.
    accept_score: int = 5  # hits minus misses. Derived: a unit misses 1 time in 10, others hardly ever hit; errors are 1e-6.
    reject_score: int = -3  # the same. Derived: as accept_score.
    max_checks: int = 30  # per surface. Checked by `laybare reproduce deep-cases`.


SURFACE = SurfaceOptions()


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Features h = matrix x + offset, (k, dim) and (k,), where boundaries x + boundary_offsets > 0; `spread`: scale of inputs.

    `layers` are the layers below. A boundary is known up to `boundary_errors` (1 + |x|): beyond the true one a unit below is
    inactive, and its kink would be taken for one of this space.
    """

    matrix: Array
    offset: Array
    inverse: Array
    boundaries: Array
    boundary_offsets: Array
    boundary_errors: Array
    spread: float
    layers: Layers = ()

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.offset)

    def features(self, x: Array) -> Array:
        """h at inputs (n, dim), (n, width)."""
        return np.asarray(x @ self.matrix.T + self.offset)

    def interval(self, x: Array, direction: Array) -> tuple[float, float]:
        """The t for which x + t · direction is within the boundaries."""
        slack, rate, error = self.slack(x), self.boundaries @ direction, self.boundary_errors * np.linalg.norm(direction)
        with np.errstate(divide="ignore", invalid="ignore"):
            down, up = -slack / (rate + error), -slack / (rate - error)
        return float(down[rate > -error].max(initial=-np.inf)), float(up[rate < error].min(initial=np.inf))

    def slack(self, x: Array) -> Array:
        """How far an input is surely within each boundary."""
        return np.asarray(self.boundaries @ x + self.boundary_offsets - self.boundary_errors * (1.0 + np.linalg.norm(x)))

    def random_point(self, rng: Generator) -> Array:
        """A random input within the boundaries, (dim,): some features are near zero, and one is often far ahead."""
        dim = self.matrix.shape[1]
        if not self.layers:
            return np.asarray(self.spread * rng.standard_normal(dim))
        size = self.spread * np.exp(0.7 * rng.standard_normal())
        return self.input_with_margins(size * np.exp(SURFACE.log_spread * rng.standard_normal(len(self.boundaries))), rng)

    @cached_property
    def _lowest_inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.layers[0][0]))

    def input_with_margins(self, margins: Array, rng: Generator) -> Array:
        """An input at which every unit below is at least at its margin; above one layer, exactly."""
        lowest, biases = self._lowest_inverse, self.layers[0][1]
        margins = np.maximum(margins, SURFACE.clearance * self.boundary_errors * (1.0 + self.spread))
        if len(self.layers) == 1:
            return np.asarray(lowest @ (margins - biases))
        matrix, offset = self._upper_layers_in_first_features()
        cost = rng.uniform(0.5, 1.5, len(biases))
        for _ in range(SURFACE.max_margin_cuts):
            below, above = margins[: len(biases)], margins[len(biases) :]
            found = linprog(cost, A_ub=-matrix, b_ub=offset - above, bounds=np.column_stack([below, np.full(len(below), np.inf)]))
            if found.status == 0:
                return np.asarray(lowest @ (found.x - biases))
            margins = margins / 4.0
        raise NotSeparated(
            f"No input was found at which all units of the {len(self.layers)} known layers are active.",
            "What lies above is read there.", "The layers that are known are the result.", layers=len(self.layers))

    def _upper_layers_in_first_features(self) -> tuple[Array, Array]:
        """The pre-activations of the second and higher layers as affine functions of the first layer's features."""
        matrix, offset = np.eye(len(self.layers[0][1])), np.zeros(len(self.layers[0][1]))
        rows, offsets = [], []
        for weights, biases in self.layers[1:]:
            matrix, offset = weights @ matrix, weights @ offset + biases
            rows.append(matrix)
            offsets.append(offset)
        return np.vstack(rows), np.concatenate(offsets)

    def line(self, number: int, rng: Generator) -> Line:
        """Line `number` of this space. Above one layer the first ones start near h = 0, one along every feature.

        A unit that bends for some h > 0 has a bias and a weight of different signs, or a bias of zero, so it bends on one of
        these. Other lines are random: above a layer through two random points, from boundary to boundary.
        """
        dim = self.matrix.shape[1]
        if not self.layers:
            return self.line_through(self.random_point(rng), rng.standard_normal(dim), self.spread * np.sqrt(dim))
        if len(self.layers) == 1 and number < self.width:
            corner = SURFACE.corner * self.spread * rng.uniform(0.5, 1.5, self.width)
            return self.line_through(self.input_with_margins(corner, rng), self.inverse[:, number], self.spread)
        point = self.random_point(rng)
        away = self.random_point(rng) - point
        return self.line_through(point, away, float(np.linalg.norm(away)))

    def line_through(self, point: Array, direction: Array, scale: float) -> Line:
        """A line through a point within the boundaries, up to the boundaries."""
        u = direction / np.linalg.norm(direction)
        (low, high), share, reach = self.interval(point, u), 1.0 - SURFACE.boundary_margin, SURFACE.line_reach * scale
        low, high = max(low * share, -reach), min(high * share, reach)
        return Line(point, u, low, high, min(scale, (high - low) / 6.0))

    def with_layer(self, weights: Array, biases: Array, sd: Array | None = None) -> FeatureSpace:
        """The feature space above one more layer; `sd` (units,) of its parameters, if they are not exact."""
        matrix, offset = weights @ self.matrix, weights @ self.offset + biases
        errors = np.zeros(len(biases)) if sd is None else SURFACE.boundary_sds * sd
        return FeatureSpace(
            matrix, offset, np.linalg.pinv(matrix), np.vstack([self.boundaries, matrix]),
            np.concatenate([self.boundary_offsets, offset]), np.concatenate([self.boundary_errors, errors]), self.spread,
            (*self.layers, (weights, biases)))


def input_space(dim: int, spread: float) -> FeatureSpace:
    """The feature space of no layers."""
    return FeatureSpace(np.eye(dim), np.zeros(dim), np.eye(dim), np.empty((0, dim)), np.empty(0), np.empty(0), spread)


@dataclass(frozen=True, eq=False)
class RemainingBlackBox:
    """What lies above known layers: the black box as a function of the features (n, width) of the highest one.

    Features are taken back to an input that has them, layer by layer: those of the lowest layer by its pseudo-inverse, others by
    a linear program. NotSeparated if no input was found, which does not happen for features of one or two layers.
    """

    layers: Layers
    queries: QueryCounter

    def __call__(self, features: Array) -> Array:
        """Answers (n, outputs); one query per row."""
        x = np.array([self._input(h) for h in features]).reshape(len(features), self.layers[0][0].shape[1])
        return self.queries.ask(x, "checks")

    def _input(self, h: Array) -> Array:
        for weights, biases in self.layers[:0:-1]:
            h = _features_below(weights, biases, h)
        weights, biases = self.layers[0]
        return np.asarray(np.linalg.pinv(weights) @ (np.where(h > 0.0, h, -1.0) - biases))


def _features_below(weights: Array, biases: Array, h: Array) -> Array:
    """Nonnegative features below from which a layer computes h."""
    on = h > 0.0
    off = ~on
    found = linprog(
        np.ones(weights.shape[1]), A_ub=weights[off] if off.any() else None, b_ub=-biases[off] if off.any() else None,
        A_eq=weights[on] if on.any() else None, b_eq=(h - biases)[on] if on.any() else None)
    if found.status != 0:
        raise NotSeparated(
            "No input was found with these features.", "The layers that are known cannot compute them, up to rounding.",
            "Evaluate the network at inputs instead.")
    return np.asarray(found.x)
