"""Fourth moments as operators: what `moments.quartic` estimates, in closed form for a known network, and in other coordinates.

All have four contractions, of the outputs of which there is one: T[S, ·, ·], T[b, b, b, ·], T[b, b, v, ·] and T[S, b, ·].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt
from typing import Protocol, runtime_checkable

import numpy as np

from laybare.activations import Activation
from laybare.shapes import Array


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
    """T[W ·, W ·, W ·, W ·] for `columns` W (d, r): the same tensor in other coordinates, whitened or of a subspace."""

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
