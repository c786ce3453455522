"""Decompositions by iteration: power methods, alternating least squares, Gauss-Newton.

CP decompositions by iteration: tensor power method with whitening, alternating least squares, Gauss-Newton.

Power. For T = Σᵢ cᵢ uᵢ^{⊗p} with orthonormal uᵢ, the map v → T(I, v, …, v) sends the coordinate αᵢ = v·uᵢ to cᵢ αᵢ^{p−1}: the
part with the largest |cᵢ| |αᵢ|^{p−2} wins, with p−1 times as many digits after a step. Coefficients may have either sign. Only
whitening needs a definite second moment, hence one sign.

Alternating least squares on a stack, A_l ≈ Σᵢ λ_lᵢ uᵢ vᵢᵀ, with uᵢ = vᵢ at the end. The three factors are refitted in turn, each
a linear least-squares problem. A symmetric tensor of order 3 is a stack with λᵢ = cᵢuᵢ; a tensor of order 4 is one after
reshaping to (k², k, k). Convergence is linear, slow ("swamps") for ill-conditioned directions, and depends on the start: use it
inside `best_of`, or prefer `GaussNewton`.

The subspace power method: rank-one tensors in a span of symmetric tensors, more of them than dimensions if need be.

Moments of several orders, flattened to order l on one side, share one span S = span{wᵢ^{⊗l}}; weights and signs of the moments
are in the other side and do not matter. With an orthonormal basis S_a of that span,
    F(w) = Σ_a ⟨S_a, w^{⊗l}⟩² ≤ 1 on the unit sphere, with equality exactly where w^{⊗l} lies in the span.
Power steps w ← normalise(∇F/2l + shift·w) ascend, Newton steps on the sphere finish. For l = 1 all vectors of the span are
maxima.

Source: Kileel and Pereira (2019), arXiv:1912.04007. Deviations: the span may come from several orders; after a batch of random
starts, later batches start from elements of the span that are orthogonal to the parts already found (instead of deflation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import (
    MAX_ASYMMETRY,
    SAME_COSINE,
    Components,
    Decomposer,
    as_finite,
    as_slices,
    as_tensor,
    condense,
    contract,
    deduplicate,
    fit_components,
    fit_stack_components,
    fit_tensor_components,
    powers,
    project,
    tensor_coefficients,
    tensor_misfit,
    unit_rows,
)
from laybare.decomposition.direction_fits import polish_tensor
from laybare.errors import AssumptionViolated, InvalidInput, Unidentifiable
from laybare.numerics.levels import GRAM, ROUNDING
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class AscentOptions:
    """Overlaps F with the span, cosines of directions, and the step."""

    converged_overlap: float = 1 - GRAM  # Derived: 1 up to the rounding of a Gram matrix.
    exact_overlap: float = 1 - 1e-10  # close parts only above. Checked by `pytest tests/decomposition/test_population.py`.
    part_overlap: float = 0.99  # later starts avoid parts above it. Checked by `pytest tests/decomposition/test_laws.py`.
    same_maximum_cosine: float = 0.999  # exact parts with a larger |cosine| are one. Checked by `pytest tests/decomposition`.
    shift: float = 0.3  # share of the old direction in a step. Checked by `pytest tests/decomposition`.


ASCENT = AscentOptions()


@dataclass(frozen=True, kw_only=True)
class SubspacePower:
    """Parts of a stack (s, d, d) or (s, d, d, d) of symmetric tensors whose span is that of `rank` rank-one tensors.

    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions, or, for
    more parts than dimensions, of the w^{⊗l}. `rank` may be up to C(d+l−1, l) − d. If fewer parts stand out than were asked for,
    the best other maxima fill up; if there are none, fewer parts come back, and the residual shows it.
    """

    starts: int = 300
    steps: int = 100
    batches: int = 6

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        stack = check_span_input(tensor, rank)
        span = joint_span([stack], rank)
        found = np.zeros((0, stack.shape[-1]))
        for _ in range(self.batches):
            ends = power_steps(span, draw_starts(span, self.starts, found, rng), self.steps)
            ends = newton_steps(span, ends[deduplicate(ends, span_overlap(span, ends), ASCENT.same_maximum_cosine)])
            found, before = _distinct_maxima(span, np.concatenate([found, ends]))[:rank], found
            overlaps = span_overlap(span, found)
            unchanged = _unchanged(overlaps, span_overlap(span, before))
            if len(found) == rank and (overlaps[-1] > ASCENT.converged_overlap or unchanged):
                break
        return fit_stack_components(stack, found)


subspace_power = SubspacePower()


def joint_span(stacks: list[Array], rank: int, weights: Array | None = None) -> Array:
    """Orthonormal basis (rank, d, …, d) of the dominant span of several stacks of symmetric tensors of one order.

    A stack is what a moment gives when all but l of its axes are spread out; `weights`, one per stack, balance their noise.
    """
    scale = np.ones(len(stacks)) if weights is None else weights
    flat = np.concatenate([w * stack.reshape(len(stack), -1) for w, stack in zip(scale, stacks, strict=True)])
    _, sizes, right = np.linalg.svd(flat, full_matrices=False)
    held = int(np.sum(sizes > ROUNDING * sizes[0]))
    if held < rank:
        raise Unidentifiable(
            f"{len(flat)} tensors span {held} dimensions and rank {rank} was asked for.",
            "The span cannot hold that many independent parts.", "Add moments of other orders.", rank=rank, span=held)
    return right[:rank].reshape(rank, *stacks[0].shape[1:])


def span_overlap(span: Array, directions: Array) -> Array:
    """F(w) of every row w: (starts,)."""
    return np.asarray(np.sum((powers(directions, span.ndim - 1) @ span.reshape(len(span), -1).T) ** 2, axis=1))


def power_steps(span: Array, directions: Array, steps: int) -> Array:
    """Power steps w ← normalise(Σ_a ⟨S_a, w^l⟩ S_a(I, w^{l−1}) + shift·w), all rows at once."""
    for _ in range(steps):
        slope = gradient(span, directions)
        ahead = unit_rows(slope + ASCENT.shift * directions)
        moved = float(np.abs(ahead - directions).max())
        directions = ahead
        if moved < 1e-9:
            break
    return directions


def gradient(span: Array, directions: Array) -> Array:
    """∇F / 2l = Σ_a ⟨S_a, w^l⟩ S_a(I, w^{l−1}), (starts, d)."""
    slopes = _contract_to_vectors(span, directions)
    values = np.einsum("nad,nd->na", slopes, directions)
    return np.asarray((values[:, None] @ slopes)[:, 0])


def newton_steps(span: Array, directions: Array, steps: int = 10) -> Array:
    """Newton steps on the sphere towards a critical point of F, kept only where F does not fall."""
    order, dim = span.ndim - 1, span.shape[-1]
    for _ in range(steps):
        slopes = _contract_to_vectors(span, directions)
        values = np.einsum("nad,nd->na", slopes, directions)
        slope = np.einsum("nad,na->nd", slopes, values)
        curve = order * np.einsum("nad,nae->nde", slopes, slopes) + (order - 1) * _contract_to_matrices(span, directions, values)
        outward = np.einsum("nd,nd->n", slope, directions)
        tangent = np.eye(dim) - directions[:, :, None] * directions[:, None, :]
        # Riemannian Hessian; −w wᵀ keeps it invertible without touching the tangent space.
        hessian = tangent @ (curve - outward[:, None, None] * np.eye(dim)) @ tangent - (np.eye(dim) - tangent)
        across = np.einsum("nde,ne->nd", tangent, slope)
        step = np.einsum("nde,ne->nd", np.linalg.pinv(hessian, hermitian=True), across)
        trial = unit_rows(directions - step)
        better = span_overlap(span, trial) >= span_overlap(span, directions) - 1e-14
        directions = np.where(better[:, None], trial, directions)
    return directions


def check_span_input(tensor: Array, rank: int) -> Array:
    """A stack of symmetric tensors of order 2 or 3 that can hold `rank` isolated rank-one tensors. Refused: others."""
    stack = as_finite(tensor)
    order, dim = stack.ndim - 1, stack.shape[-1]
    if order == 1:
        raise Unidentifiable(
            f"A stack of shape {stack.shape} spans vectors.", "Every vector of the span is a maximum, so none is singled out.",
            "Flatten the moments to order 2 or 3.", shape=stack.shape)
    if order not in (2, 3) or len(set(stack.shape[1:])) != 1:
        raise InvalidInput(
            f"An array of shape {stack.shape} was given.", "The method needs a stack of symmetric matrices or cubes.",
            "Give shape (s, d, d) or (s, d, d, d).", shape=stack.shape)
    most = max(comb(dim + order - 1, order) - dim, 1)
    if not 1 <= rank <= most:
        raise InvalidInput(
            f"Rank {rank} was asked of symmetric tensors of order {order} in dimension {dim}.",
            f"Beyond {most} parts the span contains rank-one tensors that are not parts.",
            "Ask for fewer, or flatten the moments to a higher order.", rank=rank, most=most)
    for axis in range(1, order):
        gap = float(np.abs(stack - stack.swapaxes(axis, axis + 1)).max())
        if gap > MAX_ASYMMETRY * float(np.abs(stack).max()):
            raise InvalidInput(
                f"The tensors are not symmetric: entries differ by up to {gap:.2g} when axes are exchanged.",
                "The parts are w⊗w, and no sum of them is asymmetric.", "Symmetrise the estimate first.", asymmetry=gap)
    return stack


def _distinct_maxima(span: Array, directions: Array) -> Array:
    """One direction per maximum, largest F first; parts may be close only where the input is exact enough to separate them."""
    overlaps = span_overlap(span, directions)
    kept = deduplicate(directions, overlaps, ASCENT.same_maximum_cosine)
    exact = directions[kept[overlaps[kept] > ASCENT.exact_overlap]]
    others = directions[~np.any(np.abs(directions @ exact.T) > SAME_COSINE, axis=1)]
    return np.concatenate([exact, others[deduplicate(others, span_overlap(span, others))]])


def _unchanged(overlaps: Array, before: Array) -> bool:
    return overlaps.shape == before.shape and bool(np.all(np.abs(overlaps - before) < 1e-12))


def draw_starts(span: Array, count: int, found: Array, rng: Generator) -> Array:
    """Random directions; once parts are known, main directions of random elements of the span orthogonal to them."""
    dim, sure = span.shape[-1], found[span_overlap(span, found) > ASCENT.part_overlap]
    if not 0 < len(sure) < len(span):
        return unit_rows(rng.standard_normal((count, dim)))
    known = np.linalg.qr((powers(sure, span.ndim - 1) @ span.reshape(len(span), -1).T).T)[0]
    mixing = rng.standard_normal((count, len(span)))
    mixing -= mixing @ known @ known.T
    elements = (mixing @ span.reshape(len(span), -1)).reshape(count, dim, -1)
    return np.linalg.svd(elements, full_matrices=False)[0][:, :, 0]


def _contract_to_vectors(span: Array, directions: Array) -> Array:
    """S_a(I, w^{l−1}) for all starts and basis tensors: (starts, a, d)."""
    rows = powers(directions, span.ndim - 2)
    flat = span.reshape(len(span) * span.shape[1], -1)
    return (rows @ flat.T).reshape(len(directions), len(span), span.shape[1])


def _contract_to_matrices(span: Array, directions: Array, values: Array) -> Array:
    """Σ_a value_a S_a(I, I, w^{l−2}): (starts, d, d)."""
    mixed = np.tensordot(values, span, axes=1)
    return np.einsum("ndef,nf->nde", mixed, directions) if span.ndim == 4 else mixed


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
    return np.asarray(np.linalg.solve(gram, both @ unfolded.T))


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
