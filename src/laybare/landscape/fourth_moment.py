"""Fourth moments as operators: in closed form for a known network, in other coordinates, and all components of an orthogonal one.

`moments.quartic` estimates the same. All have four contractions: T[S, ·, ·], T[b, b, b, ·], T[b, b, v, ·] and T[S, b, ·].

Polar iteration, O ← polar(T[o, o, o, ·]): for T = Σ cᵢ oᵢ^⊗4 with orthonormal oᵢ and c > 0, the power method on all rows with
symmetric orthogonalisation in between; cubic convergence. In whitened coordinates (W = U D^{-1/2} of M = U D Uᵀ) the tensor of
the network is of this form: cᵢ = σ/aᵢ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
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
