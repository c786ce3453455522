"""What every objective offers, and how it looks from one point: value, gradient and Hessian products on its domain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.landscape.domain import Domain
from laybare.shapes import Array


class ValueAndGradient(NamedTuple):
    """Value and Euclidean gradient at a point: computed together, since they share their passes."""

    value: float
    gradient: Array


@runtime_checkable
class SmoothObjective(Protocol):
    """A function with a gradient, on a domain."""

    @property
    def domain(self) -> Domain:
        """Where its points live."""

    def slope(self, point: Array) -> ValueAndGradient:
        """Value and Euclidean gradient."""


@runtime_checkable
class Objective(SmoothObjective, Protocol):
    """A function of points (width, p) whose minima show the weights: rows, or rows after a column with the readout."""

    @property
    def truth(self) -> Array | None:
        """The true directions, if it is the objective of a known network."""

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Euclidean Hessian times a direction."""

    def start(self, rng: Generator) -> Array:
        """A random point."""

    def directions(self, point: Array) -> Array:
        """The unit directions that a minimum stands for, up to signs, (width, dim)."""


@dataclass(frozen=True, eq=False)
class Local:
    """An objective seen from one point of its domain; the gradient is computed once, Hessian products share it."""

    objective: Objective
    point: Array

    @cached_property
    def slope(self) -> ValueAndGradient:
        """Value and Euclidean gradient."""
        return self.objective.slope(self.point)

    @cached_property
    def gradient(self) -> Array:
        """The gradient on the domain."""
        return self.objective.domain.tangent(self.point, self.slope.gradient)

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.gradient))

    def times(self, direction: Array) -> Array:
        """The Hessian on the domain times a direction, of which the tangent part counts."""
        domain = self.objective.domain
        along = domain.tangent(self.point, direction)
        return domain.hessian(self.point, self.slope.gradient, self.objective.hessian_times(self.point, along), along)


def unit_rows(rows: Array) -> Array:
    """Rows of length 1; zero rows stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))


def random_rows(width: int, dim: int, rng: Generator) -> Array:
    """Unit rows in random directions."""
    return unit_rows(rng.standard_normal((width, dim)))
