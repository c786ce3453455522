"""Joint diagonalisation through a positive definite combination of the slices.

If some combination X₀ = Σ xᵢ uᵢuᵢᵀ of the slices has all xᵢ > 0, then R = X₀^{-1/2} makes the directions R uᵢ orthogonal, and
Jacobi rotations diagonalise the slices R A_l R from any start. The signs of the parts do not matter: the combination nearest to
the identity is tried, which is positive definite unless the directions are badly conditioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_slices
from laybare.decomposition.components import Components, unit_rows
from laybare.decomposition.explanation import explain
from laybare.decomposition.rotations import jacobi
from laybare.decomposition.slices import condense, project
from laybare.errors import AssumptionViolated
from laybare.shapes import Array

FLAT = 1e-6
"""Smallest eigenvalue of X₀, as a share of the largest, that can still be inverted without drowning the slices."""


@dataclass(frozen=True)
class DefiniteJacobi:
    """Whitening by the combination of slices nearest to the identity, then orthogonal Jacobi. Deterministic: `rng` is not used.

    Refuses (AssumptionViolated) if that combination is not positive definite.
    """

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        root = inverse_root(nearest_to_identity(condense(span.slices, rank)))
        rows = jacobi(condense(root @ span.slices @ root, rank), np.eye(rank)).rows
        return explain(slices, unit_rows(rows @ np.linalg.inv(root) @ span.basis.T))


definite_jacobi = DefiniteJacobi()


def nearest_to_identity(slices: Array) -> Array:
    """The orthogonal projection of the identity on the span of the slices."""
    flat = slices.reshape(len(slices), -1)
    weights = np.linalg.lstsq(flat.T, np.eye(slices.shape[1]).ravel(), rcond=None)[0]
    return np.tensordot(weights, slices, axes=1)


def inverse_root(matrix: Array) -> Array:
    """X^{-1/2} of a positive definite matrix; refuses others."""
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > FLAT * values[-1] > 0:
        raise AssumptionViolated(
            f"The combination of slices nearest to the identity has eigenvalues from {values[0]:.2g} to {values[-1]:.2g}.",
            "It must be positive definite to make the directions orthogonal.",
            "Use JointDiagonalisation, which also starts from matrix pencils.",
            smallest=float(values[0]), largest=float(values[-1]))
    root: Array = (vectors / np.sqrt(values)) @ vectors.T
    return root
