"""What lies in a landscape: distinct minima and saddles, with values, curvatures, counts, and distances from the truth.

Minima are the ends of descents. Saddles are zeros of the gradient, found by minimising |∇f|², whose own gradient is a Hessian
product, ∇²f ∇f; ends with |∇f| > 0 are left out. Critical points that differ by the order and signs of rows, or by a symmetry of
the truth, have the same value and the same smallest eigenvalue, and count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.landscape.minimisers import OPTIONS, SecondOrder, descend, lbfgs, second_order
from laybare.landscape.objective import Domain, LocalDerivatives, Objective, ValueAndGradient
from laybare.networks import unsigned_error
from laybare.numerics.shapes import Array, Event, Progress


@dataclass(frozen=True, kw_only=True)
class ExplorerOptions:
    """When a point is critical, and when two are one."""

    critical_gradient: float = 1e-5  # over that of a random point. Checked by `pytest tests/landscape/test_explorer.py`.
    same_value: float = 1e-6  # difference over the fall from the starts. Checked by `pytest tests/landscape/test_explorer.py`.
    same_curvature: float = 1e-2  # relative, of smallest eigenvalues. Checked by `pytest tests/landscape/test_explorer.py`.


EXPLORER = ExplorerOptions()


class CriticalPoint(NamedTuple):
    """One critical point up to symmetry; `kind` is "minimum", "flat minimum" (some curvature zero) or "saddle".

    `runs` ended there; `distance` is the largest row error to the truth modulo order and signs, NaN if the truth is unknown.
    """

    kind: str
    value: float
    gradient_norm: float
    smallest: float
    runs: int
    distance: float
    point: Array


@dataclass(frozen=True, eq=False)
class CriticalPoints:
    """All that was found, by rising value, and the number of runs."""

    found: tuple[CriticalPoint, ...]
    starts: int

    @property
    def minima(self) -> tuple[CriticalPoint, ...]:
        return tuple(point for point in self.found if point.kind != "saddle")

    @property
    def saddles(self) -> tuple[CriticalPoint, ...]:
        return tuple(point for point in self.found if point.kind == "saddle")

    def __str__(self) -> str:
        lines = [f"{len(self.minima)} minima and {len(self.saddles)} saddles from {self.starts} starts",
                 "kind                 value   gradient  smallest eigenvalue  runs  distance"]
        lines += [
            f"{p.kind:<13}{p.value:13.6g} {p.gradient_norm:10.1e} {p.smallest:20.3g} {p.runs:5d} {p.distance:9.2g}"
            for p in self.found]
        return "\n".join(lines)


def critical_points(
    objective: Objective, starts: int | Sequence[Array] = 20, *, saddles: bool = True, truth: Array | None = None,
    rng: Generator | int = 0, progress: Progress | None = None,
) -> CriticalPoints:
    """Distinct minima and saddles of an objective.

    Parameters
    ----------
    objective : Objective
        A population objective (`population_g`, `ReLURisk`, ...) or an empirical one.
    starts : int or sequence of arrays
        How many random starts, or the starts themselves.
    saddles : bool
        Whether to look for saddles too, from the same starts.
    truth : array (width, dim), optional
        True unit directions; those of the objective by default.
    rng : Generator or int
    progress : callable, optional
    """
    rng = np.random.default_rng(rng)
    points = _starts(objective, starts, rng)
    scale = float(np.median([LocalDerivatives(objective, objective.domain.project(point)).gradient_norm for point in points]))
    ends: list[tuple[Array, SecondOrder]] = []
    for done, point in enumerate(points):
        minimum = descend(objective, point, rng=rng)
        ends.append((minimum.point, minimum.order))
        if saddles:
            still = _find_stationary_point(objective, point)
            order = second_order(objective, still, rng=rng)
            ends += [(still, order)] if order.gradient_norm <= EXPLORER.critical_gradient * scale else []
        if progress is not None:
            progress(Event("starts", done + 1, len(points)))
    known = objective.truth if truth is None else truth
    heights = [objective.value_and_gradient(objective.domain.project(point)).value for point in points]
    fall = max(heights) - min(objective.value_and_gradient(end).value for end, _ in ends)
    return CriticalPoints(_distinct_points(objective, ends, known, fall), len(points))


@dataclass(frozen=True, eq=False)
class _SquaredGradient:
    """½|∇f|² on the domain of f; its gradient is the Hessian of f times ∇f."""

    objective: Objective

    @property
    def domain(self) -> Domain:
        return self.objective.domain

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
        local = LocalDerivatives(self.objective, point)
        return ValueAndGradient(0.5 * local.gradient_norm**2, local.times(local.gradient))


def _find_stationary_point(objective: Objective, start: Array) -> Array:
    """A minimum of |∇f|² near `start`."""
    return lbfgs(_SquaredGradient(objective), start, max_steps=1000, tol=1e-12).point


def _starts(objective: Objective, starts: int | Sequence[Array], rng: Generator) -> list[Array]:
    points = [objective.start(rng) for _ in range(starts)] if isinstance(starts, int) else [np.asarray(point) for point in starts]
    if not points:
        raise InvalidInput(
            f"starts={starts!r}.", "A landscape is explored from somewhere.", "Give a positive number, or a list of points.")
    return points


def _distinct_points(
    objective: Objective, ends: list[tuple[Array, SecondOrder]], truth: Array | None, fall: float
) -> tuple[CriticalPoint, ...]:
    found: list[CriticalPoint] = []
    for point, order in ends:
        value = objective.value_and_gradient(point).value
        same = [i for i, other in enumerate(found) if _same_point(value, order, other, fall)]
        if same:
            found[same[0]] = found[same[0]]._replace(runs=found[same[0]].runs + 1)
            continue
        distance = np.nan if truth is None else unsigned_error(objective.directions(point), truth)
        found.append(CriticalPoint(_kind(order), value, order.gradient_norm, order.smallest, 1, distance, point))
    return tuple(sorted(found, key=lambda each: each.value))


def _same_point(value: float, order: SecondOrder, other: CriticalPoint, fall: float) -> bool:
    close = abs(value - other.value) <= EXPLORER.same_value * fall
    gap = EXPLORER.same_curvature * max(abs(order.smallest), abs(other.smallest), OPTIONS.flat_curvature * order.largest)
    alike = _kind(order) == "flat minimum" or abs(order.smallest - other.smallest) <= gap
    return _kind(order) == other.kind and close and alike


def _kind(order: SecondOrder) -> str:
    if order.curved_down:
        return "saddle"
    return "minimum" if order.smallest > OPTIONS.flat_curvature * order.largest else "flat minimum"
