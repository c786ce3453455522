"""Pure neurons: from the detector T to rows z with z·y = act(w·x), from these to a network, and claims about their assumptions.

T maps a symmetric matrix U to f(U), and its null space is the span of zᵢzᵢᵀ, zᵢ the rows of A⁻¹ (`laybare.moments`). The last k
right singular vectors of T are k symmetric matrices of that span; diagonalised together they give the zᵢ, up to sign and scale.
Outputs are whitened first, by the covariance of their even part: that is A Cov|Wx| Aᵀ plus noise, so A becomes nearly orthogonal
whatever it was, and with more outputs than units the k directions that carry most of the odd part are kept.

Symmetry and constant noise are needed by the start alone. A claim about them that fails says that the guarantee does not apply,
not that the network is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import chdtri, fdtri, ndtr

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.certificate.certificate import RULES
from laybare.certificate.error_propagation import ERRORS, information_matrix
from laybare.decomposition import Decomposer, RankEstimate
from laybare.decomposition.direction_fits import NormalEquations, minimise_misfit
from laybare.errors import Unidentifiable
from laybare.methods.start import AssumptionName, ClaimsAfterFit
from laybare.moments import augmented_matrix, detector, distinguishability, smat, svec_products
from laybare.networks import Layer, Network
from laybare.numerics.levels import GRAM, ROUNDING
from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.search.network_fit import NetworkFit
from laybare.solver.normal import Step, StepStatistic
from laybare.solver.point import point_of
from laybare.source import MixedOutputs, Source


@dataclass(frozen=True, kw_only=True)
class SymmetricOptions:
    """Limits of the start, of the count of units and of the claims."""

    min_cosine: float = 0.9  # of a polished neuron to its start. Checked by `pytest tests/methods/symmetric_inputs`.
    max_cosine: float = 0.98  # of a polished neuron to another one. Checked by `pytest tests/methods/symmetric_inputs`.
    polish_steps: int = 20  # Checked by `pytest tests/methods/symmetric_inputs`.
    signal: float = 1.6  # singular values over √m + √d; noise: 0.72 to 0.97. Checked by `pytest tests/methods/symmetric_inputs`.
    rows_per_feature: float = 1.5  # fewest rows of a control variate. Checked by `pytest tests/methods/symmetric_inputs`.
    max_error_ratio: float = 0.25  # of squared errors, for another round. Checked by `pytest tests/methods/symmetric_inputs`.
    min_separation: float = 1e-4
    """Smallest singular value of the distinguishing matrix at which the inputs separate all pairs of units; images have
    100 times as much. Checked by `pytest tests/methods/symmetric_inputs`."""

    min_rows_per_input: int = 40  # false alarm seen at 22. Checked by `pytest tests/methods/symmetric_inputs`.
    min_gap: float = 2.0  # before the null space; one unit too few gave 1.9. Checked by `pytest tests/methods/symmetric_inputs`.


SYMMETRIC = SymmetricOptions()


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


def output_frame(product: Array, even: Array, width: int) -> Frame:
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


def find_neurons(source: Source, product: Array, frame: Frame, *, slope: float, decompose: Decomposer, rng: Generator) -> Neurons:
    """Pure neurons of white samples, given L = `product`. One pass."""
    T = detector(MixedOutputs(source, frame.reduce), frame.reduce.T @ product, slope=slope, rows=row_space(product, frame))
    return neurons_from_detector(T, decompose, rng=rng)


def neurons_from_detector(T: Array, decompose: Decomposer, *, rng: Generator) -> Neurons:
    """Pure neurons from the detector of as many outputs as units, in svec coordinates."""
    span = null_space(T)
    z = decompose(smat(span.vectors), len(span.vectors), rng=rng).directions
    return Neurons(polish_neurons(T, z), span.spectrum)


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


def polish_neurons(T: Array, z: Array) -> Array:
    """Each z moved to the nearest minimum of |T svec(zzᵀ)|² on the sphere, unless it runs away or into another one."""
    moved = np.vstack([minimise_misfit(_NullFit(T), row[None], SYMMETRIC.polish_steps) for row in z])
    stayed = np.abs(np.sum(moved * z, axis=1)) > SYMMETRIC.min_cosine
    alike = np.abs(moved @ moved.T) - np.eye(len(z)) > np.maximum(SYMMETRIC.max_cosine, np.abs(z @ z.T))
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

    def normal(self, directions: Array) -> NormalEquations:
        z, unit = directions[0], np.eye(directions.shape[1])
        jacobian = 2.0 * self.T @ svec_products(np.broadcast_to(z, unit.shape), unit).T
        tangent = jacobian - np.outer(jacobian @ z, z)
        matrix = tangent.T @ tangent
        gauge = np.trace(matrix) / len(z) * np.outer(z, z)
        return NormalEquations(matrix + gauge, -(self.T @ svec_products(directions, directions)[0] @ tangent)[None])


def assemble_network(source: Source, product: Array, frame: Frame, z: Array, activation: Activation, *, slope: float) -> Network:
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


def symmetry_claim(source: Source) -> Claim:
    """Hotelling's test that x and x|x|² have mean zero, as under every law with x ~ -x; `source` is white about zero."""
    dim, n = source.dim, source.size
    cubic = n > 8 * dim

    def odd(x: Array, y: Array) -> Sums:
        phi = np.hstack([x, x * np.sum(x * x, axis=1, keepdims=True) / dim]) if cubic else x
        return phi.sum(axis=0), phi.T @ phi

    total, gram = source.sum(odd, stage="symmetry")
    p = len(total)
    square = float(total @ solve_spd(gram, total))  # n mean² / second moment, at most 1 of n
    value = square * (n - p) / (p * max(n - square, float(np.finfo(float).tiny))) if n > p else 0.0
    limit = float(fdtri(p, max(n - p, 1), ndtr(RULES.sigmas)))
    return Claim(
        AssumptionName.ASYMMETRY, value, limit, value <= limit, "tested",
        f"F ratio of {p} odd averages of x, about 1 if x and -x are equally likely. If they are not, the method's start has no "
        "guarantee; the other claims stand.")


def width_claim(counted: RankEstimate, width: int) -> Claim:
    """What the outputs say about the width; where they leave it open, the fit has decided."""
    open_text = "" if counted.exact is not None else f" The fit calls for {width}."
    return Claim(
        AssumptionName.OUTPUT_UNITS, float(counted.at_least), float(width), counted.at_least <= width, "tested",
        counted.explanation + open_text)


def distinguished_pairs_claim(source: Source, network: Network, exact: bool) -> Claim:
    """The smallest singular value of the augmented distinguishing matrix of these inputs at the units found."""
    rows = np.linalg.svd(network.layer.weights, full_matrices=False)[2]
    value = distinguishability(augmented_matrix(source, network.layer.weights, rows)) if network.width > 1 else 1.0
    limit = SYMMETRIC.min_separation
    return Claim(
        AssumptionName.SEPARATED_PAIRS, value, limit, bool(value > limit or exact), "proved",
        "smallest singular value of the distinguishing matrix, columns of length 1; at 0 the inputs never separate some pair."
        + " The fit is exact, which settles it." * exact)


def null_space_claim(gap: float, exact: bool, agreed: bool) -> Claim:
    """The gap before the null space of the detector; where it is small, the fit must have been found a second time."""
    if exact:
        text = "the fit is exact, which settles it."
    elif agreed:
        text = "and a second run of the solver, with spare units beside those found, ended at the same fit."
    else:
        text = "no second run of the solver ended at this fit; a small gap means noise, a wrong width, or nearly parallel units."
    return Claim(
        AssumptionName.PURE_NEURON_GAP, gap, SYMMETRIC.min_gap, bool(gap >= SYMMETRIC.min_gap or exact or agreed), "tested",
        f"by how much the space of pure neurons stands out in the detector; {text}")


def bias_claim(source: Source, network: Network) -> Claim | None:
    """Score test of biases: what moving them all would gain, to first order, everything else moving along.

    For fits that leave more than rounding. None if there are too many parameters for it.
    """
    point = point_of(network, biases=True, offset=True, linear=False)
    unknowns = point.units.size + point.coefficients.size
    spare = source.size * source.outputs - unknowns
    if unknowns > ERRORS.max_parameters or spare <= 0:
        return None
    step = Step(*source.sum(StepStatistic(point), stage="biases"))
    k, p = point.units.shape
    q, m = point.coefficients.shape
    slope = np.einsum("jpo,jo->jp", step.moment[q:].reshape(k, p, m), point.coefficients[:k])
    gradient = np.concatenate([slope.ravel(), step.moment[:q].ravel()])
    value = float(gradient @ solve_spd(information_matrix(step, point), gradient)) / (float(step.loss) / spare)
    limit = float(chdtri(k, ndtr(-RULES.sigmas)))
    return Claim(
        AssumptionName.POSSIBLE_BIASES, value, limit, value <= limit, "tested",
        f"gain of {k} biases in units of noise, about {k} if there are none. More means that the units have biases, for which "
        "RandomStart() is made, or are no ReLU units at all.")


def constant_noise_claim(source: Source, network: Network, loss: float) -> Claim | None:
    """Koenker's (1981) test: does the square of the residual depend on the squares of the inputs?

    `loss` is the residual sum of squares, more than rounding. None for fewer than 40 samples per dimension.
    """
    if source.size < SYMMETRIC.min_rows_per_input * source.dim:
        return None
    mean = loss / source.size

    def squares(x: Array, y: Array) -> Sums:
        phi = np.column_stack([np.ones(len(x)), x * x - 1.0])
        q = np.sum((y - network(x).reshape(y.shape)) ** 2, axis=1) / mean - 1.0
        return phi.T @ phi, phi.T @ q, np.asarray(q @ q)

    gram, moment, power = source.sum(squares, stage="noise")
    flat = float(moment[0]) ** 2 / source.size
    value = source.size * (float(moment @ solve_spd(gram, moment)) - flat) / max(float(power) - flat, np.finfo(float).tiny)
    limit = float(chdtri(source.dim, ndtr(-RULES.sigmas)))
    return Claim(
        AssumptionName.NOISE_OF_INPUTS, value, limit, value <= limit, "tested",
        f"n R² of squared residuals on squared inputs, about {source.dim} if the noise is the same everywhere. If it is not, the "
        "detector is biased and standard errors are off; the fit is still consistent.")


@dataclass(frozen=True)
class PureNeuronChecks:
    """What the fit after a start at pure neurons is asked; `gap` as in `null_space_claim`."""

    gap: float

    def __call__(self, source: Source, outcome: NetworkFit) -> tuple[Claim, ...]:
        network = outcome.network
        claims = [
            symmetry_claim(source), distinguished_pairs_claim(source, network, outcome.exact),
            null_space_claim(self.gap, outcome.exact, outcome.agreed)]
        noisy = () if outcome.exact else (bias_claim(source, network), constant_noise_claim(source, network, outcome.loss))
        return (*claims, *(claim for claim in noisy if claim is not None))


@dataclass(frozen=True)
class WidthCheck:
    """The claim about a width that was counted, before the others."""

    counted: RankEstimate
    others: ClaimsAfterFit | None

    def __call__(self, source: Source, outcome: NetworkFit) -> tuple[Claim, ...]:
        others = () if self.others is None else self.others(source, outcome)
        return (width_claim(self.counted, outcome.network.width), *others)
