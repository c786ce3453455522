"""The subspace power method: rank-one tensors in a span of symmetric tensors, more of them than dimensions if need be.

Moments of several orders, flattened to order l on one side, share one span S = span{wᵢ^{⊗l}}; weights and signs of the moments
are in the other side and do not matter. With an orthonormal basis S_a of that span,
    F(w) = Σ_a ⟨S_a, w^{⊗l}⟩² ≤ 1 on the unit sphere, with equality exactly where w^{⊗l} lies in the span.
Power steps w ← normalise(∇F/2l + shift·w) ascend, Newton steps on the sphere finish. For l = 1 all vectors of the span are
maxima.

Source: Kileel and Pereira (2019), arXiv:1912.04007. Deviations: the span may come from several orders; after a batch of random
starts, later batches start from elements of the span that are orthogonal to the parts already found (instead of deflation).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import SAME_COSINE, Components, deduplicate, fit_stack_components, powers, unit_rows
from laybare.decomposition.slices import MAX_ASYMMETRY, as_finite
from laybare.errors import InvalidInput, Unidentifiable
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
    values: Array = np.sum((powers(directions, span.ndim - 1) @ span.reshape(len(span), -1).T) ** 2, axis=1)
    return values


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
    slope: Array = (values[:, None] @ slopes)[:, 0]
    return slope


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
