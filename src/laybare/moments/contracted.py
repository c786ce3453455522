"""Moments of order 2, 3 and 4 as matrices, never as d³ or d⁴ numbers: E[y He_k(x)] with all but two places filled by vectors.

With C = E[y xxᵀ], m = E[y x], y₀ = E[y] for x ~ N(0, I):

    M₂           = C - y₀ I
    M₃(I, I, a)  = E[y (a·x) xxᵀ] - a mᵀ - m aᵀ - (m·a) I
    M₄(I,I,a,a)  = E[y (a·x)² xxᵀ] - |a|² C - 2(Ca aᵀ + a (Ca)ᵀ) - (aᵀCa) I + y₀(|a|² I + 2 aaᵀ)

All equal Σᵢ vᵢ c_k(|wᵢ|) (w̄ᵢ·a)^(k-2) w̄ᵢw̄ᵢᵀ for a one-layer network: their range is the span of the weights. An order whose
Hermite coefficient is zero (3 for bias-free ReLU, 2 and 4 for odd activations) shows nothing.
Results have one entry an output in front. Error O(n^-½); time n·d² a slice; memory one block.
Source: Zhong et al. (2017), Definition 5.1 and Claim 5.2. Their M₄ counts every pairing of I⊗̃I twice; each is counted once here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.moments.hermite import HermiteMoments, check_packed
from laybare.moments.measurement import measure
from laybare.moments.memory import MEMORY_LIMIT, check_memory
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """Moment: M₂ of every output, (outputs, d, d)."""

    def __call__(self, x: Array, y: Array) -> Sums:
        return weighted_grams(x, y.T), y.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        gram, total = sums
        moment: Array = (gram - total[:, None, None] * np.eye(gram.shape[1])) / size
        return moment


@dataclass(frozen=True, eq=False)
class ThirdSlices:
    """Moment: M₃(I, I, a) for every row a of `directions` (s, d): (outputs, s, d, d)."""

    directions: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        along = (x @ self.directions.T).T
        return np.stack([weighted_grams(x, weight * along) for weight in y.T]), y.T @ x

    def read(self, sums: Sums, size: int) -> Array:
        a, m, eye = self.directions, sums[1] / size, np.eye(self.directions.shape[1])
        mixed = np.einsum("si,oj->osij", a, m)
        level = np.einsum("si,oi->os", a, m)
        moment: Array = sums[0] / size - mixed - mixed.swapaxes(2, 3) - level[..., None, None] * eye
        return moment


@dataclass(frozen=True, eq=False)
class FourthSlices:
    """Moment: M₄(I, I, a, a) for every row a of `directions` (s, d): (outputs, s, d, d)."""

    directions: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        squares = np.square(x @ self.directions.T).T
        return np.stack([weighted_grams(x, weight * squares) for weight in y.T]), weighted_grams(x, y.T), y.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        a, eye = self.directions, np.eye(self.directions.shape[1])
        raw, C, mean = (part / size for part in sums)
        norms = np.square(a).sum(axis=1)
        Ca = np.einsum("oij,sj->osi", C, a)
        mixed = np.einsum("osi,sj->osij", Ca, a)
        outer = np.einsum("si,sj->sij", a, a)
        level = np.einsum("osi,si->os", Ca, a)
        second = norms[:, None, None] * C[:, None] + 2 * (mixed + mixed.swapaxes(2, 3)) + level[..., None, None] * eye
        moment: Array = raw - second + mean[:, None, None, None] * (norms[:, None, None] * eye + 2 * outer)
        return moment


def second_moment(source: Source, *, memory: int = MEMORY_LIMIT) -> Array:
    """M₂ of every output, (outputs, d, d), in one pass."""
    check_memory(
        4 * source.outputs * source.dim**2, f"Second moments in dimension {source.dim}, with the sums under way,",
        "Give fewer inputs, or grant more memory.", memory)
    return measure(source, SecondMoment(), stage="second moment")


def third_slices(source: Source, directions: Array, *, memory: int = MEMORY_LIMIT) -> Array:
    """M₃(I, I, a) for the rows a of `directions`, (outputs, s, d, d), in one pass."""
    _check_slices(source, directions, memory)
    return measure(source, ThirdSlices(directions), stage="third moment")


def fourth_slices(source: Source, directions: Array, *, memory: int = MEMORY_LIMIT) -> Array:
    """M₄(I, I, a, a) for the rows a of `directions`, (outputs, s, d, d), in one pass."""
    _check_slices(source, directions, memory)
    return measure(source, FourthSlices(directions), stage="fourth moment")


def projected_tensors(source: Source, columns: Array, order: int = 4, *, memory: int = MEMORY_LIMIT) -> tuple[Array, ...]:
    """E[y He_k(x)][V, …, V] for k = 0, …, order and V = `columns` (d, r), of any rank, not necessarily orthonormal.

    Entry k is (outputs, r, …, r). V = QR: moments are taken in the orthonormal coordinates xQ, where He_k is a product, and then
    turned by R. That equals the pairing formula with G = VᵀV (which is not the identity if V whitens M₂), with less cancellation.
    Time n·C(r+K, K).
    """
    Q, R = np.linalg.qr(columns)
    check_packed(Q.shape[1], order, source.outputs, memory)
    check_memory(source.outputs * columns.shape[1] ** order, f"A tensor of order {order} in {columns.shape[1]} dimensions",
                 "Project onto fewer directions, or stay with slices (`third_slices`, `fourth_slices`).", memory)
    packed = measure(source, HermiteMoments(order, Q), stage="projected moments")
    return tuple(transform(packed.tensor(k), R, k) for k in range(order + 1))


def transform(tensors: Array, matrix: Array, order: int) -> Array:
    """T[R, …, R]: the last `order` axes of `tensors` (..., q, …, q) multiplied by `matrix` (q, r)."""
    for _ in range(order):
        tensors = np.tensordot(tensors, matrix, axes=(tensors.ndim - order, 0))  # the new axis comes last
    return tensors


def weighted_grams(x: Array, weights: Array) -> Array:
    """Xᵀ diag(w) X for every row w of `weights`: (s, d, d)."""
    return np.stack([x.T @ (x * weight[:, None]) for weight in weights])


def _check_slices(source: Source, directions: Array, memory: int) -> None:
    check_memory(
        source.outputs * len(directions) * source.dim**2, f"{len(directions)} slices of {source.dim} x {source.dim} numbers",
        "Use fewer directions, or project onto a subspace first (`projected_tensors`).", memory)
