"""CP decompositions by iteration: tensor power method with whitening, alternating least squares, Gauss-Newton.

Power. For T = Σᵢ cᵢ uᵢ^{⊗p} with orthonormal uᵢ, the map v → T(I, v, …, v) sends the coordinate αᵢ = v·uᵢ to cᵢ αᵢ^{p−1}: the
part with the largest |cᵢ| |αᵢ|^{p−2} wins, with p−1 times as many digits after a step. Coefficients may have either sign. Only
whitening needs a definite second moment, hence one sign.

Alternating least squares on a stack, A_l ≈ Σᵢ λ_lᵢ uᵢ vᵢᵀ, with uᵢ = vᵢ at the end. The three factors are refitted in turn, each
a linear least-squares problem. A symmetric tensor of order 3 is a stack with λᵢ = cᵢuᵢ; a tensor of order 4 is one after
reshaping to (k², k, k). Convergence is linear, slow ("swamps") for ill-conditioned directions, and depends on the start: use it
inside `best_of`, or prefer `GaussNewton`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import (
    Components,
    Decomposer,
    contract,
    deduplicate,
    fit_components,
    fit_tensor_components,
    tensor_coefficients,
    tensor_misfit,
    unit_rows,
)
from laybare.decomposition.direction_fits import polish_tensor
from laybare.decomposition.slices import as_slices, as_tensor, condense, project
from laybare.errors import AssumptionViolated
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """The tensor power method."""

    strong_share: float = 0.5
    """Parts with this share of the largest |c| are taken before deflation. Convention: one half; with 0 and with 1 all tests of
    decompositions pass, too."""
    max_steps: int = 60  # convergence is quadratic or faster. Checked by `pytest tests/decomposition/test_population.py`.


POWER = PowerOptions()


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
            ends = power_iterations(left, unit_rows(rng.standard_normal((self.starts, dense.shape[0]))), POWER.max_steps)
            strength = np.abs(contract(left, ends, 0))
            kept = deduplicate(ends, strength)
            kept = kept[strength[kept] >= POWER.strong_share * strength.max()]
            found = np.concatenate([found, ends[kept]])[:rank]
        return fit_tensor_components(dense, power_iterations(dense, found, POWER.max_steps))


tensor_power = TensorPower()


def power_iterations(tensor: Array, directions: Array, steps: int) -> Array:
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
        return fit_tensor_components(dense, unit_rows(parts.directions @ (basis * np.sqrt(sizes)).T))

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


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares:
    """CP by alternating least squares from `start`, or from random directions if None.

    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    Source: Harshman (1970); Carroll and Chang (1970) for a stack of symmetric slices. Deviations: the stack is compressed to its
    span and to `rank` slices first, which changes no minimum on exact input; the two symmetric factors are averaged at the end.
    `tol`: it ends when no entry of a direction moves by more in one round. Checked by `pytest tests/decomposition`.
    """

    start: Decomposer | None = None
    max_steps: int = 2000
    tol: float = 1e-12

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        small = condense(span.slices, rank)
        if self.start is None:  # two draws: equal ones lose a part half of the time on orthogonal input, different ones a third
            u, v = unit_rows(rng.standard_normal((2, rank, rank)))
        else:
            u = v = self.start(small, rank, rng=rng).directions
        found, converged = alternate(small, u, v, self.max_steps, self.tol)
        return replace(fit_components(slices, unit_rows(found @ span.basis.T)), converged=converged)


alternating_least_squares = AlternatingLeastSquares()


def alternate(slices: Array, u: Array, v: Array, max_steps: int, tol: float) -> tuple[Array, bool]:
    """Unit rows of the fit A_l ≈ Σᵢ λ_lᵢ uᵢ vᵢᵀ by alternating least squares from u and v (r, k): the mean of uᵢ and ±vᵢ.

    And whether they came to rest.
    """
    converged = False
    by_slice = slices.reshape(len(slices), -1)
    by_row = slices.transpose(1, 0, 2).reshape(slices.shape[1], -1)
    for _ in range(max_steps):
        before = u
        weights = _refit_factor(by_slice, u, v)
        u = unit_rows(_refit_factor(by_row, weights, v))
        v = unit_rows(_refit_factor(by_row, weights, u))
        converged = float(np.abs(np.abs(u) - np.abs(before)).max()) < tol
        if converged:
            break
    signs = np.where(np.einsum("ia,ia->i", u, v) < 0, -1.0, 1.0)
    return unit_rows(u + signs[:, None] * v), converged


def _refit_factor(unfolded: Array, first: Array, second: Array) -> Array:
    """Least squares for one factor (r, ·), the other two being `first` and `second` (r, ·); a ridge of rounding size."""
    both = (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)
    gram = (first @ first.T) * (second @ second.T)
    gram[np.diag_indices(len(gram))] *= 1.0 + 1e-14
    factor: Array = np.linalg.solve(gram, both @ unfolded.T)
    return factor


@dataclass(frozen=True, kw_only=True)
class GaussNewton:
    """Symmetric CP by least squares, from the directions of `start`, or from random ones if None (then wrap it in `best_of`).

    The maximum-likelihood answer for Gaussian noise of equal size in all entries, if the start leads there; from random
    directions it also ends in local minima. Orders 3 and 4. `separation` is that of a symmetric tensor.
    """

    start: Decomposer | None = None
    max_steps: int = 200

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        dense = as_tensor(tensor, rank)
        if self.start is None:
            directions = unit_rows(rng.standard_normal((rank, dense.shape[0])))
        else:
            directions = self.start(dense, rank, rng=rng).directions
        return fit_tensor_components(dense, polish_tensor(dense, directions, self.max_steps))
