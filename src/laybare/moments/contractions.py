"""Contracted moments, and the span of the hidden weights that they show.

Moments of order 2, 3 and 4 as matrices and operators, never as d³ or d⁴ numbers.

Slices: E[y He_k(x)] with all but two places filled by vectors. With C = E[y xxᵀ], m = E[y x], y₀ = E[y] for x ~ N(0, I):

    M₂           = C - y₀ I
    M₃(I, I, a)  = E[y (a·x) xxᵀ] - a mᵀ - m aᵀ - (m·a) I
    M₄(I,I,a,a)  = E[y (a·x)² xxᵀ] - |a|² C - 2(Ca aᵀ + a (Ca)ᵀ) - (aᵀCa) I + y₀(|a|² I + 2 aaᵀ)

All equal Σᵢ vᵢ c_k(|wᵢ|) (w̄ᵢ·a)^(k-2) w̄ᵢw̄ᵢᵀ for a one-layer network: their range is the span of the weights. An order whose
Hermite coefficient is zero (3 for bias-free ReLU, 2 and 4 for odd activations) shows nothing.

Operator: T = E[y He₄(x)] for objectives that evaluate it many times. They need T[S, ·, ·] for a symmetric matrix S, and
T[b, b, b, ·], T[S, b, ·], T[b, b, v, ·] for many rows b, v. With q = xᵀSx:

    T[S, ·, ·]    = E[y q xxᵀ] - tr(S) C - ⟨S, C⟩ I - 2(SC + CS) + y₀(tr(S) I + 2S)
    T[b, b, v, ·] = E[y (b·x)²(v·x) x] - |b|² Cv - 2(b·v) Cb - (bᵀCb) v - 2(bᵀCv) b + y₀(|b|² v + 2(b·v) b)

`Quartic` takes a pass over the data per evaluation, time n·r·d for r rows. `PackedQuartic` forms T once, time n·d⁴/24, and then
evaluates in r·d⁴/4; by operation count it pays above about d³/(50 r) evaluations. Both have the same four methods.

Results have one entry per output in front. Error O(n^-½); time n·d² per slice; memory one block.
Source: Zhong et al. (2017), Definition 5.1 and Claim 5.2 (their M₄ counts every pairing of I⊗̃I twice; each is counted once here);
Ge, Lee & Ma (2018), equations (2.8) and (2.9); the latter has a sign wrong, ours is He₄[v,v,w,w]/2.

The span of the hidden weights, estimated and refined: the bottleneck of every moment method with width < dim.

1. Remove the least-squares constant and linear part; V = leading directions of M₂ of the residual.
2. Repeat: fit y by 1, x and Hermite polynomials of degree 2, 3 in xV; let C be the quadratic coefficients. What the fit explains
   is free of noise from y, what it leaves is small, so V C Vᵀ + M₂(residual) estimates M₂ far better than the average does.
   V = its leading directions. Keep the V with the smallest residual.
3. OLS moments of degree ≤ 4 in span V.

Activations that are odd up to a constant (tanh, sigmoid, erf) have no second moment: M₃(I, I, a) takes its place, with a the
least-squares slope and, from the first V on, its columns too, where a unit orthogonal to the slope shows.
Several outputs are taken together: V spans the leading left singular vectors of all matrices side by side.
Source: improvement on Zhong et al. (2017), Algorithm 1, whose V comes from the raw moment; subspace distance at relu², d = 20,
n = 3000: raw .49, step 1 .27, step 2 .03.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.errors import InvalidInput, Unidentifiable
from laybare.moments.hermite_moments import HermiteMoments, check_packed, hermite_features
from laybare.moments.measurement import MEMORY_LIMIT, check_memory, measure
from laybare.moments.packed import PackedMoments, count_monomials_up_to, smat, svec, veronese
from laybare.moments.regression import Regression, Residual, affordable_degree, fit_hermite, least_squares
from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.source.protocol import Source


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """Moment: M₂ of every output, (outputs, d, d)."""

    def __call__(self, x: Array, y: Array) -> Sums:
        return weighted_grams(x, y.T), y.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        gram, total = sums
        return np.asarray((gram - total[:, None, None] * np.eye(gram.shape[1])) / size)


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
        return np.asarray(sums[0] / size - mixed - mixed.swapaxes(2, 3) - level[..., None, None] * eye)


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
        return np.asarray(raw - second + mean[:, None, None, None] * (norms[:, None, None] * eye + 2 * outer))


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
    transformed by R. That equals the pairing formula with G = VᵀV, with less cancellation. Time n·C(r+K, K).
    """
    Q, R = np.linalg.qr(columns)
    check_packed(Q.shape[1], order, source.outputs, memory)
    check_memory(source.outputs * columns.shape[1] ** order, f"A tensor of order {order} in {columns.shape[1]} dimensions",
                 "Project onto fewer directions, or stay with slices (`third_slices`, `fourth_slices`).", memory)
    packed = measure(source, HermiteMoments(order, Q), stage="projected moments")
    return tuple(transform_axes(packed.tensor(k), R, k) for k in range(order + 1))


def transform_axes(tensors: Array, matrix: Array, order: int) -> Array:
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


@dataclass(frozen=True, eq=False)
class Quartic:
    """T by passes over `source`; `mean` (outputs,) is E[y], `second` (outputs, d, d) is E[y xxᵀ]. Made by `quartic`."""

    source: Source
    mean: Array
    second: Array

    def contract(self, matrix: Array) -> Array:
        """T[S, ·, ·], (outputs, d, d)."""
        S, C, eye = matrix, self.second, np.eye(len(matrix))
        trace, level = np.trace(S), np.einsum("ij,oij->o", S, C)[:, None, None]
        low = self.mean[:, None, None] * (trace * eye + 2 * S)
        return np.asarray(self._mean(_QuadraticFormSums(S)) - trace * C - level * eye - 2 * (S @ C + C @ S) + low)

    def cubes(self, rows: Array) -> Array:
        """T[b, b, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        return self.squares(rows, rows)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[b, b, v, ·] for every row b of `rows` and v of `others`, both (r, d): (outputs, r, d)."""
        B, V, C = rows, others, self.second
        norms, inner = (np.einsum("ri,ri->r", B, each)[:, None] for each in (B, V))
        BC, VC = B @ C, V @ C
        own, cross = (np.einsum("ori,ri->or", BC, each)[..., None] for each in (B, V))
        low = self.mean[:, None, None] * (norms * V + 2 * inner * B)
        return np.asarray(self._mean(_SquareSums(B, V)) - norms * VC - 2 * inner * BC - own * V - 2 * cross * B + low)

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[S, b, ·] for every row b of `rows` (r, d), without forming T[S, ·, ·]: (outputs, r, d)."""
        S, B, C = matrix, rows, self.second
        trace, level = np.trace(S), np.einsum("ij,oij->o", S, C)[:, None, None]
        low = self.mean[:, None, None] * (trace * B + 2 * B @ S)
        return np.asarray(self._mean(_MixedSums(S, B)) - trace * B @ C - level * B - 2 * (B @ S @ C + B @ C @ S) + low)

    def _mean(self, statistic: Statistic) -> Array:
        return np.asarray(self.source.sum(statistic, stage="fourth moment")[0] / self.source.size)


def quartic(source: Source) -> Quartic:
    """The fourth moment of `source` as an operator; one pass at once, one more per evaluation."""
    second, total = source.sum(SecondMoment(), stage="second moment")
    return Quartic(source, total / source.size, second / source.size)


@dataclass(frozen=True, eq=False)
class PackedQuartic:
    """T as a matrix on packed quadratics, `matrix` (outputs, D₂, D₂): it maps svec(S) to svec(T[S, ·, ·])."""

    dim: int
    matrix: Array

    @classmethod
    def of(cls, moments: PackedMoments) -> PackedQuartic:
        """From packed moments of order 4 or more, however they were estimated."""
        return cls(moments.dim, sqrt(factorial(4)) * moments.flattened(2, 2))

    def contract(self, matrix: Array) -> Array:
        """T[S, ·, ·], (outputs, d, d)."""
        return smat(self.matrix @ svec(matrix))

    def cubes(self, rows: Array) -> Array:
        """T[b, b, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        return self.squares(rows, rows)

    def squares(self, rows: Array, others: Array) -> Array:
        """T[b, b, v, ·] for every row b of `rows` and v of `others`, both (r, d): (outputs, r, d)."""
        slices = smat(veronese(rows, 2) @ self.matrix)
        return np.asarray(np.einsum("orij,rj->ori", slices, others))

    def mixed(self, matrix: Array, rows: Array) -> Array:
        """T[S, b, ·] for every row b of `rows` (r, d): (outputs, r, d)."""
        return np.asarray(rows @ self.contract(matrix))


@dataclass(frozen=True, eq=False)
class _QuadraticFormSums:
    """Statistic: Σ y (xᵀSx) xxᵀ."""

    matrix: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        q = np.einsum("ni,ni->n", x @ self.matrix, x)
        return (weighted_grams(x, y.T * q),)


@dataclass(frozen=True, eq=False)
class _SquareSums:
    """Statistic: Σ y (b·x)² (v·x) x."""

    rows: Array
    others: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        along = self.rows @ x.T
        across = along if self.others is self.rows else self.others @ x.T
        products = along * along * across
        return (np.stack([(products * weight) @ x for weight in y.T]),)


@dataclass(frozen=True, eq=False)
class _MixedSums:
    """Statistic: Σ y (xᵀSx) (b·x) x."""

    matrix: Array
    rows: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        q = np.einsum("ni,ni->n", x @ self.matrix, x)
        along = self.rows @ x.T
        return (np.stack([(along * (weight * q)) @ x for weight in y.T]),)


@dataclass(frozen=True, kw_only=True)
class SpanOptions:
    """Degree of the fit in the subspace, and when its refinement ends."""

    cubic_features: int = 300  # quadratic above, to save time. Checked by `pytest tests/moments/test_subspace.py`.
    cubic_samples_per_feature: int = 4  # quadratic below. Checked by `pytest tests/moments/test_subspace.py`.
    least_gain: float = 0.01  # relative fall of the residual: progress. Checked by `pytest tests/moments/test_subspace.py`.
    patience: int = 2  # rounds in a row without progress that end it. Checked by `pytest tests/moments/test_subspace.py`.


SPAN = SpanOptions()


class WeightSpan(NamedTuple):
    """`basis` (dim, width), orthonormal; OLS `moments` in the coordinates x·basis; share of E y² unexplained; rounds made."""

    basis: Array
    moments: PackedMoments
    unexplained: float
    rounds: int


def refine_subspace(source: Source, width: int, activation: Activation, *, max_rounds: int = 8, order: int = 4) -> WeightSpan:
    """The span of `width` hidden weight vectors and the OLS Hermite moments in it, for inputs that are N(0, I).

    The moments reach up to `order`, or to the highest degree with two samples per coefficient. Two passes, time n·d² per round.
    The weights must be independent; if they span fewer than `width` dimensions, noise directions fill up.
    """
    if not 1 <= width <= source.dim:
        raise InvalidInput(
            f"A subspace of dimension {width} was asked for in dimension {source.dim}.", "Weights span at most all dimensions.",
            f"Give a width between 1 and {source.dim}.", width=width, dim=source.dim)
    seen, linear = _informative_order(activation), fit_hermite(source, 1)
    slopes = linear.moments.of(1)
    first = leading_directions(_moment(Residual(source, linear), seen, slopes), width)
    best = latest = _refine_basis(source, first, seen, slopes)
    rounds, idle = 1, 0
    while idle < SPAN.patience and rounds < max_rounds:
        latest, rounds = _refine_basis(source, latest.following, seen, slopes), rounds + 1
        idle = 0 if latest.fit.unexplained < (1.0 - SPAN.least_gain) * best.fit.unexplained else idle + 1
        best = latest if latest.fit.unexplained < best.fit.unexplained else best
    degree = affordable_degree(source.size, width, order)
    moments = fit_hermite(source, degree, best.basis).moments
    return WeightSpan(best.basis, moments, best.fit.unexplained, rounds)


def leading_directions(matrices: Array, count: int) -> Array:
    """Orthonormal (d, count): the leading left singular vectors of matrices (m, d, d) side by side; eigenvectors if m = 1."""
    wide = np.concatenate(list(matrices), axis=1)
    left: Array = np.linalg.svd(wide, full_matrices=False)[0]
    return left[:, :count]


@dataclass(frozen=True, eq=False)
class _SpanFeatures:
    """x -> 1, Hermite polynomials of x·basis, and the rest of x: coordinates in the orthogonal `complement`."""

    basis: Array
    complement: Array
    degree: int

    @property
    def size(self) -> int:
        return count_monomials_up_to(self.basis.shape[1], self.degree) + int(self.complement.shape[1])

    def __call__(self, x: Array) -> Array:
        return np.concatenate([hermite_features(x @ self.basis, self.degree).T, x @ self.complement], axis=1)


class _SubspaceFit(NamedTuple):
    """A basis, the fit in it, and the basis that this fit suggests."""

    basis: Array
    fit: Regression
    following: Array


def _informative_order(activation: Activation) -> int:
    """2 if the second moment shows the weights, else 3."""
    for order in (2, 3):
        if abs(float(activation.hermite(order))) > VANISHING_COEFFICIENT:
            return order
    raise Unidentifiable(
        f"{activation.name} has no Hermite coefficient of order 2 or 3.", "Its moments show no weights.",
        "Use another activation, or a method that does not rest on moments.", activation=activation.name)


def _refine_basis(source: Source, basis: Array, seen: int, slopes: Array) -> _SubspaceFit:
    """Fit in the subspace, and find the leading directions of what it explains plus the moment of what it leaves."""
    width = basis.shape[1]
    features = _features(basis, source.size)
    fit = least_squares(source, features)
    explained = PackedMoments(width, features.degree, fit.coefficients[: count_monomials_up_to(width, features.degree)].T)
    along = np.concatenate([slopes, basis.T])
    inside = _explained(explained, seen, along @ basis)
    outside = _moment(Residual(source, fit), seen, along)
    return _SubspaceFit(basis, fit, leading_directions(basis @ inside @ basis.T + outside, width))


def _features(basis: Array, size: int) -> _SpanFeatures:
    """Cubic features if there are few of them, else quadratic."""
    width = basis.shape[1]
    complement = np.linalg.qr(basis, mode="complete")[0][:, width:]
    cubic = _SpanFeatures(basis, complement, 3)
    return cubic if cubic.size <= min(size // SPAN.cubic_samples_per_feature, SPAN.cubic_features) else replace(cubic, degree=2)


def _explained(moments: PackedMoments, seen: int, along: Array) -> Array:
    """M₂, or M₃(I, I, a) for all rows a of `along`, of the fitted polynomial in the subspace: (matrices, width, width)."""
    tensor = moments.up_to(max(seen, moments.order)).tensor(seen)  # zero if the fit stopped below that order
    return tensor if seen == 2 else np.einsum("oijk,ak->oaij", tensor, along).reshape(-1, moments.dim, moments.dim)


def _moment(residual: Source, seen: int, along: Array) -> Array:
    """M₂, or M₃(I, I, a) for all rows a of `along`, of every output: (matrices, d, d)."""
    if seen == 2:
        return measure(residual, SecondMoment(), stage="subspace")
    return measure(residual, ThirdSlices(along), stage="subspace").reshape(-1, residual.dim, residual.dim)
