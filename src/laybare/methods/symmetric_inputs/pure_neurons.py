"""Pure neurons: from the detector T to rows z with z·y = act(w·x), and from these to a network.

T maps a symmetric matrix U to f(U), and its null space is the span of zᵢzᵢᵀ, zᵢ the rows of A⁻¹ (`moments.pure_neurons`). The
last k right singular vectors of T are k symmetric matrices of that span; diagonalised together they give the zᵢ, up to sign and
scale.

Outputs are whitened first, by the covariance of their even part: that is A Cov|Wx| Aᵀ plus noise, so A becomes nearly orthogonal
whatever it was, and with more outputs than units the k directions that carry most of the odd part are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition import Decomposer
from laybare.decomposition.least_squares import Normal, descend
from laybare.errors import Unidentifiable
from laybare.levels import GRAM, ROUNDING
from laybare.moments import detector, smat, svec_products
from laybare.networks import Layer, Network
from laybare.shapes import Array, Sums
from laybare.source import Mixed, Source

MOVED, MERGED = 0.9, 0.98
"""A polished neuron is kept if its cosine to where it started is above the first and to no other neuron above the second."""

POLISH_STEPS = 20


class Frame(NamedTuple):
    """Coordinates of the outputs: y @ `reduce` (m, k) is white in its even part, and `lift` (m, k) leads back."""

    reduce: Array
    lift: Array


class Neurons(NamedTuple):
    """Unit rows `z` (k, k) in the coordinates of a frame, signs still open, and the singular values of T, falling."""

    z: Array
    spectrum: Array

    @property
    def gap(self) -> float:
        """Smallest singular value that should not vanish over the largest that should: the null space stands out by it."""
        k = len(self.z)
        rest = len(self.spectrum) - k
        return float(self.spectrum[rest - 1] / max(self.spectrum[rest], np.finfo(float).tiny)) if rest else np.inf


def frame_of(product: Array, even: Array, width: int) -> Frame:
    """The frame for L = `product` (m, d) on white inputs and the covariance `even` (m, m) of what is not linear in x."""
    variances = np.diag(even)
    if np.all(variances <= GRAM * (variances + np.sum(product**2, axis=1))):
        raise Unidentifiable(
            "The outputs are linear functions of the inputs, up to rounding.", "Nothing in them bends, so nothing shows a unit.",
            "Give outputs of a network with ReLU units.", width=width)
    spread = np.sqrt(np.maximum(variances, 0.0))
    spread[spread == 0.0] = 1.0
    values, vectors = np.linalg.eigh(even / np.outer(spread, spread))
    kept = values > ROUNDING * values[-1]
    if int(kept.sum()) < width:
        raise Unidentifiable(
            f"The even part of the outputs varies in {int(kept.sum())} directions and {width} units were asked for.",
            "Units whose readouts depend on each other, or whose weights are parallel or opposite, are no pure neurons: no "
            "combination of outputs shows one of them alone.",
            f"Ask for width {int(kept.sum())}, or use RandomStart(), which needs no independent readouts.",
            width=width, directions=int(kept.sum()))
    root = (vectors[:, kept] / np.sqrt(values[kept])).T / spread
    back = spread[:, None] * (vectors[:, kept] * np.sqrt(values[kept]))
    left = np.linalg.svd(root @ product, full_matrices=False)[0][:, :width]
    return Frame(root.T @ left, back @ left)


def row_space(product: Array, frame: Frame) -> Array:
    """Orthonormal rows (k, d) that span the rows of L in the frame: where all weights lie."""
    return np.asarray(np.linalg.svd(frame.reduce.T @ product, full_matrices=False)[2])


def find_neurons(
    source: Source, product: Array, frame: Frame, *, slope: float, decompose: Decomposer, rng: Generator
) -> Neurons:
    """Pure neurons of white samples, given L = `product`. One pass."""
    T = detector(Mixed(source, frame.reduce), frame.reduce.T @ product, slope=slope, rows=row_space(product, frame))
    return neurons_of(T, decompose, rng=rng)


def neurons_of(T: Array, decompose: Decomposer, *, rng: Generator) -> Neurons:
    """Pure neurons from the detector of as many outputs as units, in svec coordinates."""
    span = null_space(T)
    z = decompose(smat(span.vectors), len(span.vectors), rng=rng).directions
    return Neurons(polished(T, z), span.spectrum)


class NullSpace(NamedTuple):
    """The last k right singular vectors of T (k, k(k+1)/2), and all singular values, falling."""

    vectors: Array
    spectrum: Array


def null_space(T: Array) -> NullSpace:
    """Where T nearly vanishes: k dimensions, for k(k+1)/2 columns."""
    columns = T.shape[1]
    width = smat(np.zeros(columns)).shape[0]
    _, values, right = np.linalg.svd(T, full_matrices=len(T) < columns)
    spectrum = np.zeros(columns)
    spectrum[: len(values)] = values
    return NullSpace(right[-width:], spectrum)


def polished(T: Array, z: Array) -> Array:
    """Each z moved to the nearest minimum of |T svec(zzᵀ)|² on the sphere, unless it runs away or into another one."""
    moved = np.vstack([descend(_NullFit(T), row[None], POLISH_STEPS) for row in z])
    stayed = np.abs(np.sum(moved * z, axis=1)) > MOVED
    alike = np.abs(moved @ moved.T) - np.eye(len(z)) > np.maximum(MERGED, np.abs(z @ z.T))
    return np.where((stayed & ~alike.any(axis=1))[:, None], moved, z)


@dataclass(frozen=True, eq=False)
class _NullFit:
    """|T svec(zzᵀ)|² of one unit row z (1, k): what a pure neuron brings to zero."""

    T: Array

    @property
    def energy(self) -> float:
        return float(np.sum(self.T**2))

    def misfit(self, directions: Array) -> float:
        return float(np.sum((self.T @ svec_products(directions, directions)[0]) ** 2))

    def normal(self, directions: Array) -> Normal:
        z, unit = directions[0], np.eye(directions.shape[1])
        jacobian = 2.0 * self.T @ svec_products(np.broadcast_to(z, unit.shape), unit).T
        tangent = jacobian - np.outer(jacobian @ z, z)
        matrix = tangent.T @ tangent
        gauge = np.trace(matrix) / len(z) * np.outer(z, z)
        return Normal(matrix + gauge, -(self.T @ svec_products(directions, directions)[0] @ tangent)[None])


def assembled(source: Source, product: Array, frame: Frame, z: Array, activation: Activation, *, slope: float) -> Network:
    """The network behind pure neurons: W = Z·reduceᵀ·L, A = lift·Z⁻¹, every sign such that the neuron bends the right way.

    The sign is that of Cov(z·e, |w·x|), e the even part of the outputs: (1-a)/2 Var|w·x| if it is right. One pass. The printed
    rule, E[z·y] > 0, says the same for outputs without an offset.
    """
    pick = z @ frame.reduce.T
    W = pick @ product

    def bends(x: Array, y: Array) -> Sums:
        t = x @ W.T
        e, bent = y @ pick.T - 0.5 * (1 + slope) * t, np.abs(t)
        return (e * bent).sum(axis=0), e.sum(axis=0), bent.sum(axis=0)

    both, e, bent = (part / source.size for part in source.sum(bends, stage="signs"))
    sign = np.where((1 - slope) * (both - e * bent) < 0.0, -1.0, 1.0)
    readout = (frame.lift @ np.linalg.pinv(z) * sign).T
    layer = Layer(sign[:, None] * W, None, activation)
    return Network(layer, readout[:, 0] if source.outputs == 1 else readout)
