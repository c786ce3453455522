"""What every objective offers: value, gradient and Hessian products on its domain, which is all of space or rows of length 1.

A point is an array (width, p). On unit rows the gradient is the tangent part of the Euclidean one, and the Hessian along V is
P(∇²f V) - ⟨∇f, b⟩ V row by row, P the projection onto the tangent spaces: what f∘project has at points of length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import unit_rows
from laybare.numerics.shapes import Array


@runtime_checkable
class Domain(Protocol):
    """A set of points, with its tangent spaces."""

    def project(self, point: Array) -> Array:
        """The nearest point of the set."""

    def tangent(self, point: Array, direction: Array) -> Array:
        """The part of a direction along which the set can be followed."""

    def pull_back(self, point: Array, gradient: Array) -> Array:
        """Gradient of f∘project at any `point`, from the Euclidean gradient of f at its projection."""

    def hessian(self, point: Array, gradient: Array, image: Array, direction: Array) -> Array:
        """Hessian on the set times a tangent `direction`, from the Euclidean gradient and Hessian product `image`."""


@dataclass(frozen=True)
class FreeSpace:
    """All arrays; the first `held` columns are fixed."""

    held: int = 0

    def project(self, point: Array) -> Array:
        """The point itself."""
        return point

    def tangent(self, point: Array, direction: Array) -> Array:
        """The direction without the fixed columns."""
        return _zero_columns(direction, self.held)

    def pull_back(self, point: Array, gradient: Array) -> Array:
        """The gradient without the fixed columns."""
        return _zero_columns(gradient, self.held)

    def hessian(self, point: Array, gradient: Array, image: Array, direction: Array) -> Array:
        """The Euclidean Hessian."""
        return _zero_columns(image, self.held)


@dataclass(frozen=True)
class UnitRows:
    """Rows of length 1 after `skip` columns (the readout, if it is part of the point), of which the first `held` are fixed."""

    skip: int = 0
    held: int = 0

    def project(self, point: Array) -> Array:
        """Rows divided by their lengths; zero rows stay."""
        scaled = np.array(point)
        scaled[:, self.skip :] /= self._lengths(point)
        return scaled

    def tangent(self, point: Array, direction: Array) -> Array:
        """The direction without its parts along the rows."""
        rows = point[:, self.skip :]
        found = np.array(direction)
        found[:, : self.held] = 0.0
        found[:, self.skip :] -= _inner(rows, found[:, self.skip :]) * rows
        return found

    def pull_back(self, point: Array, gradient: Array) -> Array:
        """Tangent part, divided by the lengths of the rows."""
        found = self.tangent(self.project(point), gradient)
        found[:, self.skip :] /= self._lengths(point)
        return found

    def hessian(self, point: Array, gradient: Array, image: Array, direction: Array) -> Array:
        """P(∇²f V) - ⟨∇f, b⟩ V."""
        found = np.array(image)
        found[:, self.skip :] -= _inner(point[:, self.skip :], gradient[:, self.skip :]) * direction[:, self.skip :]
        return self.tangent(point, found)

    def _lengths(self, point: Array) -> Array:
        lengths: Array = np.linalg.norm(point[:, self.skip :], axis=1, keepdims=True)
        return np.where(lengths > 0.0, lengths, 1.0)


def _zero_columns(array: Array, held: int) -> Array:
    if not held:
        return array
    kept = np.array(array)
    kept[:, :held] = 0.0
    return kept


def _inner(left: Array, right: Array) -> Array:
    """Row-wise inner products as a column."""
    products: Array = np.einsum("ri,ri->r", left, right)
    return products[:, None]


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

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
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
class LocalDerivatives:
    """Derivatives of an objective at one point of its domain; the gradient is computed once, Hessian products share it."""

    objective: Objective
    point: Array

    @cached_property
    def value_and_gradient(self) -> ValueAndGradient:
        """Value and Euclidean gradient."""
        return self.objective.value_and_gradient(self.point)

    @cached_property
    def gradient(self) -> Array:
        """The gradient on the domain."""
        return self.objective.domain.tangent(self.point, self.value_and_gradient.gradient)

    @property
    def value(self) -> float:
        return self.value_and_gradient.value

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.gradient))

    def times(self, direction: Array) -> Array:
        """The Hessian on the domain times the tangent part of a direction."""
        domain = self.objective.domain
        along = domain.tangent(self.point, direction)
        image = self.objective.hessian_times(self.point, along)
        return domain.hessian(self.point, self.value_and_gradient.gradient, image, along)


def random_rows(width: int, dim: int, rng: Generator) -> Array:
    """Unit rows in random directions."""
    return unit_rows(rng.standard_normal((width, dim)))
