"""The expected risk f(W) = ½ E|net(x) - truth(x)|² for x ~ N(0, I) in the hidden weights W: value, gradient and Hessian.

What infinitely many samples would show. All of it follows from expectations in the plane of two units (`activations.pairs`):
with a the readouts and e = net - truth = Σᵢ bᵢ act(wᵢ·x) + c over the units of both networks,

    ∂f/∂w_j       = E[(e·a_j) act'_j x]
    block (j, l)  = (a_j·a_l) E[act'_j act'_l xxᵀ]  +  δ_jl E[(e·a_j) act''_j xxᵀ]

The second derivative is avoided by Stein's identity, which also gives what the kinks of ReLU contribute: with s = |w_j|,
ŵ = w_j/s and h = act(wᵢ·x),

    E[h act''_j xxᵀ] = ( E[h (ŵ·x) act'_j xxᵀ] - (wᵢ·ŵ) E[act'ᵢ act'_j xxᵀ] - ŵ mᵀ - m ŵᵀ ) / s,      m = E[h act'_j x].

Every block is a multiple of I plus a matrix on the span Q of all weights: c_jl I + Q T_jl Qᵀ. So the product with a vector costs
k²·(d + r²), and the whole spectrum is that of a k×k and a kr×kr matrix, r ≤ 2k, however large d is.
Source: Zhong et al. (2017), section 4, equation (3) and below; the closed form is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from laybare.activations.pairs import Factor, PairMoments, pair_moments
from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.shapes import Array
from laybare.theory.hessian import Curvature


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
    units, everything = list(_own(network)), list(_terms(network, truth))
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
    units, everything = list(_own(network)), list(_terms(network, truth))
    basis = _span(np.stack([term.direction for term in everything]))
    k, r = len(units), basis.shape[1]
    scalars, cores = np.zeros((k, k)), np.zeros((k, k, r, r))
    for j, unit in enumerate(units):
        for l, other in enumerate(units[: j + 1]):
            block = _quadratic(unit, unit.slope, other, other.slope, basis).times(float(unit.readout @ other.readout))
            scalars[j, l], cores[j, l] = scalars[l, j], cores[l, j] = block
        for term in everything:
            weight = float(term.readout @ unit.readout)
            if weight:
                block = _bent(term, unit, basis).times(weight)
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


def _quadratic(one: _Term, F: Factor, other: _Term, G: Factor, basis: Array) -> _Block:
    """E[F(ŵ₁·x) G(ŵ₂·x) xxᵀ]."""
    plane = _Plane.of(one.direction, other.direction)
    pair: PairMoments = pair_moments(F, G, plane.cosine)
    axes = plane.axes @ basis
    return _Block(pair.mean, axes.T @ (pair.second - pair.mean * np.eye(2)) @ axes)


def _bent(term: _Term, unit: _Term, basis: Array) -> _Block:
    """E[act(wᵢ·x) act''(w_j·x) xxᵀ] by Stein's identity, i = term and j = unit."""
    plane = _Plane.of(term.direction, unit.direction)
    risen = _quadratic(term, term.value, unit, unit.moved, basis)
    slopes = _quadratic(term, term.slope, unit, unit.slope, basis).times(term.norm * plane.cosine)
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
        _check(given)
    yield from _own(network)
    yield from (term._replace(readout=-term.readout) for term in _own(truth))
    constant = network.columns[1] - truth.columns[1]
    one, zero = Factor(np.ones_like, 0.0, 1.0), Factor(np.zeros_like, 0.0, 1.0)
    axis = np.eye(network.dim)[0]
    yield _Term(constant, axis, 0.0, one, zero, zero)


def _own(network: Network) -> Iterator[_Term]:
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


def _check(network: Network) -> None:
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
