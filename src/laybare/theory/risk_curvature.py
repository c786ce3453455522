"""Hessian of the risk in the hidden weights, readout fixed: on samples, and in expectation for x ~ N(0, I).

Samples. f = |y - net(x)|²/(2n), with r = y - net(x) and a the readouts:

    block (j, l) = (a_j·a_l) E[act'_j act'_l xxᵀ]  -  δ_jl E[(r·a_j) act''_j xxᵀ]

The first part is that of Gauss-Newton, all there is where the network fits; the second may make the Hessian indefinite away from
there. Between kinks act'' of a piecewise linear unit is zero: samples never see the kinks, as in the paper. Products with
directions are one pass of n·k·d each; eigenvalues come from Lanczos iterations on them. Nothing of the size n·k·d or (k·d)² is
formed.

Expectation. f(W) = ½ E|net(x) - truth(x)|², what infinitely many samples would show, with the kinks. All of it follows from
expectations in the plane of two units (`pair_moments`): with e = net - truth = Σᵢ bᵢ act(wᵢ·x) + c over both networks,

    ∂f/∂w_j       = E[(e·a_j) act'_j x]
    block (j, l)  = (a_j·a_l) E[act'_j act'_l xxᵀ]  +  δ_jl E[(e·a_j) act''_j xxᵀ]

Stein's identity avoids the second derivative and gives what the kinks of ReLU contribute: with s = |w_j|, ŵ = w_j/s, h =
act(wᵢ·x),

    E[h act''_j xxᵀ] = ( E[h (ŵ·x) act'_j xxᵀ] - (wᵢ·ŵ) E[act'ᵢ act'_j xxᵀ] - ŵ mᵀ - m ŵᵀ ) / s,      m = E[h act'_j x].

Every block is a multiple of I plus a matrix on the span Q of all weights: c_jl I + Q T_jl Qᵀ. So the product with a vector costs
k²·(d + r²), and the whole spectrum is that of a k×k and a kr×kr matrix, r ≤ 2k, however large d is.
Source: Zhong et al. (2017), section 4, equation (3) and below; the closed form is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations.hermite_coefficients import Factor, PairMoments, pair_moments
from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source

EIGENVALUE_TOL = 1e-8
"""Relative accuracy of the eigenvalues, the square of that of the vectors. Convention: no test depends on it."""


class Curvature(NamedTuple):
    """Extreme eigenvalues. Gradient descent with step η < 2/largest shrinks the error by about 1 - η·least per step."""

    least: float
    largest: float


@dataclass(frozen=True, eq=False)
class HessianProduct:
    """(x, y) -> the Hessian, not yet over n, times `direction` (k, dim); two products of n·k·d. Biases are fixed, too."""

    network: Network
    direction: Array

    @property
    def row_floats(self) -> int:
        return 8 * self.network.width

    def __call__(self, x: Array, y: Array) -> Sums:
        network, act = self.network, self.network.activation
        A = network.columns[0]
        U, D = network.layer.before(x), x @ self.direction.T
        S = act.derivative(U)
        R = y - network(x).reshape(y.shape)
        back = S * ((S * D) @ A @ A.T) - (R @ A.T) * act.second_derivative(U) * D
        return (back.T @ x,)


def hessian_product(source: Source, network: Network, direction: Array) -> Array:
    """The Hessian of the risk times a direction in the hidden weights, (width, dim) both; one pass."""
    if direction.shape != network.layer.weights.shape or source.dim != network.dim or source.outputs != network.outputs:
        raise InvalidInput(
            f"{network}, a direction of shape {direction.shape}, a source of {source.dim} inputs and {source.outputs} outputs.",
            "A direction has one row per hidden unit, and the source belongs to the network.", "Give arrays of matching shapes.",
            shape=direction.shape)
    (product,) = source.sum(HessianProduct(network, direction), stage="curvature")
    return np.asarray(product / source.size)


def curvature(source: Source, network: Network, *, rng: Generator | int = 0) -> Curvature:
    """Extreme eigenvalues of the Hessian of the risk at `network`; about 30 to 100 passes of `hessian_product`.

    Biases, readout and offset are fixed.
    """
    shape = network.layer.weights.shape

    def apply(flat: Array) -> Array:
        return hessian_product(source, network, flat.reshape(shape)).ravel()

    return extreme_eigenvalues(apply, network.layer.weights.size, rng=np.random.default_rng(rng))


def extreme_eigenvalues(apply: Callable[[Array], Array], size: int, *, rng: Generator) -> Curvature:
    """Both ends of the spectrum of a symmetric operator on vectors of length `size`: by Lanczos, dense up to 8."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    if size <= 8:
        values = np.linalg.eigvalsh(np.stack([apply(axis) for axis in np.eye(size)]))
    else:
        operator = LinearOperator((size, size), matvec=lambda v: apply(np.asarray(v).ravel()), dtype=float)
        values = eigsh(
            operator, k=2, which="BE", ncv=min(size, 40), tol=EIGENVALUE_TOL, v0=rng.standard_normal(size), maxiter=100 * size,
            return_eigenvectors=False)
    return Curvature(float(values.min()), float(values.max()))


def expected_risk(network: Network, truth: Network) -> float:
    """½ E|net(x) - truth(x)|² for x ~ N(0, I); networks as for `expected_hessian`."""
    terms = list(_terms(network, truth))
    total = 0.0
    for i, one in enumerate(terms):
        for other in terms[: i + 1]:
            cosine, twice = float(one.direction @ other.direction), 1.0 if other is one else 2.0
            total += twice * float(one.readout @ other.readout) * pair_moments(one.value, other.value, cosine).mean
    return total / 2


def expected_gradient(network: Network, truth: Network) -> Array:
    """Gradient of the expected risk in the hidden weights, (width, dim)."""
    gradient = np.zeros((network.width, network.dim))
    units, everything = list(_unit_terms(network)), list(_terms(network, truth))
    for j, unit in enumerate(units):
        for term in everything:
            plane = _Plane.of(term.direction, unit.direction)
            first = pair_moments(term.value, unit.slope, plane.cosine).first
            gradient[j] += float(term.readout @ unit.readout) * (first @ plane.axes)
    return gradient


def expected_hessian(network: Network, truth: Network) -> ExpectedHessian:
    """Hessian of the expected risk in the hidden weights at `network`, readout fixed; at W* it is that of (truth, truth).

    Both networks have the same activation, with no kink but 0, no biases, no linear part and no zero row. About 6k² integrals:
    0.1 s at k = 5 for homogeneous activations, seconds for others.
    """
    units, everything = list(_unit_terms(network)), list(_terms(network, truth))
    basis = _span(np.stack([term.direction for term in everything]))
    k, r = len(units), basis.shape[1]
    scalars, cores = np.zeros((k, k)), np.zeros((k, k, r, r))
    for j, unit in enumerate(units):
        for l, other in enumerate(units[: j + 1]):
            block = _moment_block(unit, unit.slope, other, other.slope, basis).times(float(unit.readout @ other.readout))
            scalars[j, l], cores[j, l] = scalars[l, j], cores[l, j] = block
        for term in everything:
            weight = float(term.readout @ unit.readout)
            if weight:
                block = _second_derivative_block(term, unit, basis).times(weight)
                scalars[j, j] += block.scalar
                cores[j, j] += block.core
    return ExpectedHessian(basis, scalars, cores)


@dataclass(frozen=True, eq=False)
class ExpectedHessian:
    """Blocks c_jl I + Q T_jl Qᵀ: `basis` Q (dim, r), `scalars` c (k, k), `cores` T (k, k, r, r). Call it on directions."""

    basis: Array
    scalars: Array
    cores: Array

    def __call__(self, direction: Array) -> Array:
        """The Hessian times a direction (width, dim)."""
        inside = np.einsum("jlab,lb->ja", self.cores, direction @ self.basis)
        return np.asarray(self.scalars @ direction + inside @ self.basis.T)

    def dense(self) -> Array:
        """The whole matrix, (k·dim, k·dim); for small cases."""
        k, dim = len(self.scalars), len(self.basis)
        blocks = np.einsum("jl,ab->jlab", self.scalars, np.eye(dim)) + self.basis @ self.cores @ self.basis.T
        return np.asarray(blocks.transpose(0, 2, 1, 3).reshape(k * dim, k * dim))

    @cached_property
    def extremes(self) -> Curvature:
        """Smallest and largest eigenvalue, from the parts inside and outside the span of the weights."""
        k, r = len(self.scalars), self.basis.shape[1]
        inside = np.einsum("jl,ab->jlab", self.scalars, np.eye(r)) + self.cores
        values = np.linalg.eigvalsh(inside.transpose(0, 2, 1, 3).reshape(k * r, k * r))
        if r < len(self.basis):
            values = np.concatenate([values, np.linalg.eigvalsh(self.scalars)])
        return Curvature(float(values.min()), float(values.max()))


class _Term(NamedTuple):
    """A summand of net - truth: readout (m,), unit vector, norm, and the functions of ŵ·x: act, its slope, (ŵ·x)·slope."""

    readout: Array
    direction: Array
    norm: float
    value: Factor
    slope: Factor
    moved: Factor


class _Plane(NamedTuple):
    """Orthonormal `axes` (2, dim) of the plane of two unit vectors, the first along the first; zero where they are parallel."""

    axes: Array
    cosine: float

    @classmethod
    def of(cls, one: Array, other: Array) -> _Plane:
        cosine = float(np.clip(one @ other, -1.0, 1.0))
        aside = other - cosine * one
        aside = aside - (aside @ one) * one
        length = float(np.linalg.norm(aside))
        return cls(np.stack([one, aside / length if length > 1e-14 else 0.0 * aside]), cosine)


class _Block(NamedTuple):
    """scalar·I + Q core Qᵀ."""

    scalar: float
    core: Array

    def times(self, factor: float) -> _Block:
        return _Block(factor * self.scalar, factor * self.core)


def _moment_block(one: _Term, F: Factor, other: _Term, G: Factor, basis: Array) -> _Block:
    """E[F(ŵ₁·x) G(ŵ₂·x) xxᵀ]."""
    plane = _Plane.of(one.direction, other.direction)
    pair: PairMoments = pair_moments(F, G, plane.cosine)
    axes = plane.axes @ basis
    return _Block(pair.mean, axes.T @ (pair.second - pair.mean * np.eye(2)) @ axes)


def _second_derivative_block(term: _Term, unit: _Term, basis: Array) -> _Block:
    """E[act(wᵢ·x) act''(w_j·x) xxᵀ] by Stein's identity, i = term and j = unit."""
    plane = _Plane.of(term.direction, unit.direction)
    risen = _moment_block(term, term.value, unit, unit.moved, basis)
    slopes = _moment_block(term, term.slope, unit, unit.slope, basis).times(term.norm * plane.cosine)
    m = pair_moments(term.value, unit.slope, plane.cosine).first @ plane.axes @ basis
    mixed = np.outer(unit.direction @ basis, m)
    return _Block(risen.scalar - slopes.scalar, risen.core - slopes.core - mixed - mixed.T).times(1.0 / unit.norm)


def _terms(network: Network, truth: Network) -> Iterator[_Term]:
    """The summands of net - truth, the difference of the offsets last."""
    if network.activation != truth.activation or network.dim != truth.dim or network.outputs != truth.outputs:
        raise InvalidInput(
            f"The networks are {network} and {truth}.", "The expected risk compares two networks of one kind on the same inputs.",
            "Give two networks with the same inputs, outputs and activation.")
    for given in (network, truth):
        _check_network(given)
    yield from _unit_terms(network)
    yield from (term._replace(readout=-term.readout) for term in _unit_terms(truth))
    constant = network.columns[1] - truth.columns[1]
    one, zero = Factor(np.ones_like, 0.0, 1.0), Factor(np.zeros_like, 0.0, 1.0)
    axis = np.eye(network.dim)[0]
    yield _Term(constant, axis, 0.0, one, zero, zero)


def _unit_terms(network: Network) -> Iterator[_Term]:
    act, degree = network.activation, network.activation.degree
    readout = network.columns[0]
    for row, a in zip(network.layer.weights, readout, strict=True):
        s = float(np.linalg.norm(row))

        def value(t: Array, s: float = s) -> Array:
            return act(s * t)

        def slope(t: Array, s: float = s) -> Array:
            return act.derivative(s * t)

        def moved(t: Array, s: float = s) -> Array:
            return np.asarray(t * act.derivative(s * t))

        lower = None if degree is None else degree - 1
        yield _Term(a, row / s, s, Factor(value, degree, s), Factor(slope, lower, s), Factor(moved, degree, s))


def _check_network(network: Network) -> None:
    act = network.activation
    norms = np.linalg.norm(network.layer.weights, axis=1)
    if np.any(network.layer.biases) or network.linear is not None or not norms.all():
        raise InvalidInput(
            f"{network} has biases, a linear part or a zero row.", "The integrals are those of units act(w·x) with w not zero.",
            "Leave these parts out.")
    if act.degree == 0 or any(kink != 0 for kink in act.kinks):
        raise InvalidInput(
            f"{act.name} jumps, or has a kink elsewhere than at 0.", "The integrals are split at 0 and need a slope.",
            "Use the Hessian of samples, `curvature(source, network)`.", activation=act.name)


def _span(rows: Array) -> Array:
    """Orthonormal columns whose span holds all rows: fewer than dim, or all axes."""
    return np.asarray(np.linalg.qr(rows.T)[0] if len(rows) < rows.shape[1] else np.eye(rows.shape[1]))
