"""Objectives, and the fourth moments that they are made of.

What every objective offers: value, gradient and Hessian products on its domain, which is all of space or rows of length 1.

A point is an array (width, p). On unit rows the gradient is the tangent part of the Euclidean one, and the Hessian along V is
P(∇²f V) - ⟨∇f, b⟩ V row by row, P the projection onto the tangent spaces: what f∘project has at points of length 1.

Fourth moments as operators: in closed form for a known network, in other coordinates, and all components of an orthogonal one.

`moments.quartic` estimates the same. All have four contractions: T[S, ·, ·], T[b, b, b, ·], T[b, b, v, ·] and T[S, b, ·].

Polar iteration, O ← polar(T[o, o, o, ·]): for T = Σ cᵢ oᵢ^⊗4 with orthonormal oᵢ and c > 0, the power method on all rows with
symmetric orthogonalisation in between; cubic convergence. In whitened coordinates (W = U D^{-1/2} of M = U D Uᵀ) the tensor of
the network is of this form: cᵢ = σ/aᵢ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial, sqrt
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.numerics.shapes import Array


@runtime_checkable
class FourthMoment(Protocol):
    """A symmetric tensor of order 4, contracted; results have an axis of outputs in front, of length 1."""

    def contract(self, matrix: Array) -> Array: ...

    def cubes(self, rows: Array) -> Array: ...

    def squares(self, rows: Array, others: Array) -> Array: ...

    def mixed(self, matrix: Array, rows: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class RankOneQuartic:
    """T = Σᵢ weightsᵢ directionsᵢ^⊗4: the fourth moment of a known network, exact. Time r·k·d a contraction."""

    weights: Array
    directions: Array

    def contract(self, matrix: Array) -> Array:
        """T[S, ·, ·], (1, d, d)."""
        U = self.directions
        levels = np.sum((U @ matrix) * U, axis=1)
        return np.asarray((U.T * (self.weights * levels) @ U)[None])

    def cubes(self, rows: Array) -> Array:
        """T[b, b, b, ·], (1, r, d)."""
        return self.squares(rows, rows)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[b, b, v, ·], (1, r, d)."""
        along, across = rows @ self.directions.T, others @ self.directions.T
        return np.asarray((along * along * across * self.weights @ self.directions)[None])

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[S, b, ·], (1, r, d)."""
        return np.asarray(rows @ self.contract(matrix))


@dataclass(frozen=True, eq=False)
class TurnedQuartic:
    """T[W ·, W ·, W ·, W ·] for `columns` W (d, r): the same tensor in whitened coordinates, or in those of a subspace."""

    origin: FourthMoment
    columns: Array

    def contract(self, matrix: Array) -> Array:
        """T[W S Wᵀ, W ·, W ·], (1, r, r)."""
        W = self.columns
        return np.asarray(W.T @ self.origin.contract(W @ matrix @ W.T) @ W)

    def cubes(self, rows: Array) -> Array:
        """T[Wb, Wb, Wb, W ·]."""
        return np.asarray(self.origin.cubes(rows @ self.columns.T) @ self.columns)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[Wb, Wb, Wv, W ·]."""
        W = self.columns
        return np.asarray(self.origin.squares(rows @ W.T, others @ W.T) @ W)

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[W S Wᵀ, Wb, W ·]."""
        W = self.columns
        return np.asarray(self.origin.mixed(W @ matrix @ W.T, rows @ W.T) @ W)


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network Σᵢ aᵢ act(bᵢ·x) with unit rows `directions` and `readout` a: the model of Ge, Lee and Ma (2018)."""

    readout: Array
    directions: Array
    activation: Activation

    @property
    def width(self) -> int:
        return len(self.directions)

    @property
    def dim(self) -> int:
        return int(self.directions.shape[1])

    def quartic(self) -> RankOneQuartic:
        """E[y He₄(x)] = √4! σ₄ Σ aᵢ bᵢ^⊗4."""
        return RankOneQuartic(float(self.activation.hermite(4)) * self.readout, self.directions)

    def gram(self) -> Array:
        """M = Σ aᵢ bᵢbᵢᵀ."""
        return np.asarray(self.directions.T * self.readout @ self.directions)


def coefficient(activation: Activation, order: int) -> float:
    """σ_k = E[act(g) h_k(g)] with the normalised Hermite polynomial h_k = He_k/√k! (footnote 4 lost the sign of ReLU's)."""
    return float(activation.hermite(order)) / sqrt(factorial(order))


def polar_iteration(
    quartic: FourthMoment, sign: float, dim: int, *, rng: Generator, max_steps: int = 300, tol: float = 1e-12
) -> Array:
    """Orthonormal rows (dim, dim) with sign·T[o, o, o, ·] symmetric positive along them, from a random rotation."""
    rows = _polar(rng.standard_normal((dim, dim)))
    for _ in range(max_steps):
        moved = _polar(sign * quartic.cubes(rows)[0])
        change = 1.0 - float(np.abs(np.sum(moved * rows, axis=1)).min())
        rows = moved
        if change <= tol:
            break
    return rows


def whitening(matrix: Array, width: int) -> tuple[Array, Array]:
    """W = U D^{-1/2} (d, width) and its left inverse transposed, U D^{1/2}, from the `width` largest eigenvalues of M.

    WWᵀ = M⁻¹, which in our copy is M in equation (C.4).
    """
    values, vectors = np.linalg.eigh(matrix)
    U, D = vectors[:, -width:], values[-width:]
    return U / np.sqrt(D), U * np.sqrt(D)


def _polar(matrix: Array) -> Array:
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


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
