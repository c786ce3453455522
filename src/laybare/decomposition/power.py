"""The symmetric tensor power method for orthogonal parts, with deflation, and whitening that makes parts orthogonal.

For T = Σᵢ cᵢ uᵢ^{⊗p} with orthonormal uᵢ, the map v → T(I, v, …, v) sends the coordinate αᵢ = v·uᵢ to cᵢ αᵢ^{p−1}: the part
with the largest |cᵢ| |αᵢ|^{p−2} wins, with p−1 times as many digits after a step. Coefficients of both signs are welcome; a sign
only turns v. Whitening is the step that needs a definite second moment, hence one sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_tensor
from laybare.decomposition.components import Components, Decomposer, deduplicate, unit_rows
from laybare.decomposition.explanation import contract, explain_tensor, tensor_coefficients, tensor_misfit
from laybare.errors import AssumptionViolated
from laybare.shapes import Array

STRONG = 0.5
"""Of one batch of starts only parts with at least this share of the largest |coefficient| are taken before deflation."""

LONGEST_STEP = 60


@dataclass(frozen=True, kw_only=True)
class TensorPower:
    """Batched power iterations, strong parts first, deflation, and a last round on the undeflated tensor. Orders 3 and 4.

    Only right for orthogonal directions; `AfterWhitening` brings others to that form. `separation` is that of a symmetric tensor.
    Source: Anandkumar, Ge, Hsu, Kakade and Telgarsky (2014), JMLR 15, Algorithm 1. Deviation: several parts per deflation.
    """

    starts: int = 30

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        dense = as_tensor(tensor, rank)
        found = np.zeros((0, dense.shape[0]))
        while len(found) < rank:
            left = tensor_misfit(dense, found, tensor_coefficients(dense, found)) if len(found) else dense
            ends = iterate(left, unit_rows(rng.standard_normal((self.starts, dense.shape[0]))), LONGEST_STEP)
            strength = np.abs(contract(left, ends, 0))
            kept = deduplicate(ends, strength)
            kept = kept[strength[kept] >= STRONG * strength.max()]
            found = np.concatenate([found, ends[kept]])[:rank]
        return explain_tensor(dense, iterate(dense, found, LONGEST_STEP))


tensor_power = TensorPower()


def iterate(tensor: Array, directions: Array, steps: int) -> Array:
    """Power iterations v ← T(I, v, …, v) / |·| of all rows at once, until none moves, up to sign."""
    for _ in range(steps):
        ahead = unit_rows(contract(tensor, directions, 1))
        signs = np.where(np.einsum("ia,ia->i", ahead, directions) < 0, -1.0, 1.0)
        moved = float(np.abs(ahead - signs[:, None] * directions).max())
        directions = ahead
        if moved < 1e-15:
            break
    return directions


@dataclass(frozen=True, eq=False)
class AfterWhitening:
    """Decompose T after making its directions orthogonal with a definite second moment M = Σᵢ bᵢ uᵢuᵢᵀ, all bᵢ of one sign.

    With W = Q|Λ|^{-1/2} from the top eigenpairs of M, the vectors |bᵢ|^{1/2} Wᵀuᵢ are orthonormal. Refuses a second moment whose
    `rank` largest eigenvalues differ in sign: hidden units of both signs need JointDiagonalisation.
    """

    second: Array
    decompose: Decomposer = tensor_power

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        dense = as_tensor(tensor, rank)
        basis, sizes = self._definite(rank)
        white = dense
        for _ in range(dense.ndim):
            white = np.tensordot(white, basis / np.sqrt(sizes), axes=(0, 0))
        parts = self.decompose(white, rank, rng=rng)
        return explain_tensor(dense, unit_rows(parts.directions @ (basis * np.sqrt(sizes)).T))

    def _definite(self, rank: int) -> tuple[Array, Array]:
        """Eigenvectors (k, r) and sizes (r,) of the definite dominant part of the second moment."""
        values, vectors = np.linalg.eigh((self.second + self.second.T) / 2)
        top = np.argsort(-np.abs(values))[:rank]
        positive = int(np.sum(values[top] > 0))
        if positive not in (0, rank) or not np.all(values[top]):
            raise AssumptionViolated(
                f"The second moment has {positive} positive and {rank - positive} other eigenvalues among its {rank} largest.",
                "Whitening needs all of one sign.", "Use JointDiagonalisation, which needs no second moment.",
                positive=positive, rank=rank)
        return vectors[:, top], np.abs(values[top])
