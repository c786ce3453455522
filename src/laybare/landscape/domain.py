"""Where the points of an objective live: all of space, or rows of length 1; and calculus there.

A point is an array (width, p). On unit rows the gradient is the tangent part of the Euclidean one, and the Hessian along V is
P(∇²f V) - ⟨∇f, b⟩ V row by row, P the projection onto the tangent spaces: what f∘project has at points of length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from laybare.shapes import Array


@runtime_checkable
class Domain(Protocol):
    """A set of points, with its tangent spaces."""

    def project(self, point: Array) -> Array:
        """The nearest point of the set."""

    def tangent(self, point: Array, direction: Array) -> Array:
        """The part of a direction along which the set can be followed."""

    def pull(self, point: Array, gradient: Array) -> Array:
        """Gradient of f∘project at any `point`, from the Euclidean gradient of f at its projection."""

    def hessian(self, point: Array, gradient: Array, image: Array, direction: Array) -> Array:
        """Hessian on the set times a tangent `direction`, from the Euclidean gradient and Hessian product `image`."""


@dataclass(frozen=True)
class Free:
    """All arrays; the first `held` columns stay as they are."""

    held: int = 0

    def project(self, point: Array) -> Array:
        """The point itself."""
        return point

    def tangent(self, point: Array, direction: Array) -> Array:
        """The direction without the columns that stay."""
        return _without(direction, self.held)

    def pull(self, point: Array, gradient: Array) -> Array:
        """The gradient without the columns that stay."""
        return _without(gradient, self.held)

    def hessian(self, point: Array, gradient: Array, image: Array, direction: Array) -> Array:
        """The Euclidean Hessian."""
        return _without(image, self.held)


@dataclass(frozen=True)
class UnitRows:
    """Rows of length 1 after `skip` columns (the readout, if it is part of the point), of which the first `held` stay."""

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

    def pull(self, point: Array, gradient: Array) -> Array:
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


def _without(array: Array, held: int) -> Array:
    if not held:
        return array
    kept = np.array(array)
    kept[:, :held] = 0.0
    return kept


def _inner(left: Array, right: Array) -> Array:
    """Row-wise inner products as a column."""
    products: Array = np.einsum("ri,ri->r", left, right)
    return products[:, None]
