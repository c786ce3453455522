"""What a certificate should say about the assumptions of SymmetricInputs: each test has a size, and a power that was measured.

Symmetry and constant noise are needed by the start alone; the fit and the other claims stand without them. A claim that fails
here says that the guarantee of the method does not apply, not that the network is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, ndtr

from laybare.certificate import Claim
from laybare.certificate.information import information
from laybare.certificate.spread import LARGEST
from laybare.certificate.structure import SIGMAS
from laybare.decomposition import RankEstimate
from laybare.linear_algebra import solve_spd
from laybare.methods.start import Later, Outcome
from laybare.moments import augmented_matrix, distinguished
from laybare.networks import Network
from laybare.refinement.normal import Step, StepStatistic, point_of
from laybare.shapes import Array, Sums
from laybare.source import Source

TOLD_APART = 1e-4
"""Smallest singular value of the normalised distinguishing matrix below which the detector sees some pair of units as one.

Images, the hardest inputs that were tried, have 100 times as much."""

TAME = 40
"""Samples a dimension from which single far inputs no longer sway the test of constant noise: one false alarm in 960 runs of
eight laws, Laplace inputs with 22 samples a dimension; none with 222."""

CLEAR_GAP = 2.0
"""Gap before the null space of the detector below which it may well be another space: one unit too few gave 1.9."""


def symmetric_inputs(source: Source) -> Claim:
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
    limit = float(fdtri(p, max(n - p, 1), ndtr(SIGMAS)))
    return Claim(
        "asymmetry of the inputs", value, limit, value <= limit, "tested",
        f"F ratio of {p} odd averages of x, about 1 if x and -x are equally likely. If they are not, the method's start has no "
        "guarantee; the other claims stand.")


def width_counted(counted: RankEstimate, width: int) -> Claim:
    """What the outputs say about the width; where they leave it open, the fit has decided."""
    open_text = "" if counted.exact is not None else f" The fit calls for {width}."
    return Claim(
        "units that the outputs show", float(counted.at_least), float(width), counted.at_least <= width, "tested",
        counted.explanation + open_text)


def pairs_told_apart(source: Source, network: Network, exact: bool) -> Claim:
    """The smallest singular value of the augmented distinguishing matrix of these inputs at the units found."""
    rows = np.linalg.svd(network.layer.weights, full_matrices=False)[2]
    value = distinguished(augmented_matrix(source, network.layer.weights, rows)) if network.width > 1 else 1.0
    return Claim(
        "pairs of units told apart by the inputs", value, TOLD_APART, bool(value > TOLD_APART or exact), "proved",
        "smallest singular value of the distinguishing matrix, columns of length 1; at 0 the inputs never separate some pair."
        + " The fit is exact, which settles it." * exact)


def null_space_stands_out(gap: float, exact: bool, agreed: bool) -> Claim:
    """The gap before the null space of the detector; where it is small, the fit must have been found a second time."""
    if exact:
        text = "the fit is exact, which settles it."
    elif agreed:
        text = "and a second run of the solver, with spare units beside those found, ended at the same fit."
    else:
        text = "no second run of the solver ended at this fit; a small gap means noise, a wrong width, or nearly parallel units."
    return Claim(
        "gap before the pure neurons", gap, CLEAR_GAP, bool(gap >= CLEAR_GAP or exact or agreed), "tested",
        f"by how much the space of pure neurons stands out in the detector; {text}")


def no_biases(source: Source, network: Network) -> Claim | None:
    """Score test of biases: what moving them all would gain, to first order, everything else moving along.

    For fits that leave more than rounding. None if there are too many parameters for it.
    """
    point = point_of(network, biases=True, offset=True, linear=False)
    unknowns = point.units.size + point.coefficients.size
    spare = source.size * source.outputs - unknowns
    if unknowns > LARGEST or spare <= 0:
        return None
    step = Step(*source.sum(StepStatistic(point), stage="biases"))
    k, p = point.units.shape
    q, m = point.coefficients.shape
    slope = np.einsum("jpo,jo->jp", step.moment[q:].reshape(k, p, m), point.coefficients[:k])
    gradient = np.concatenate([slope.ravel(), step.moment[:q].ravel()])
    value = float(gradient @ solve_spd(information(step, point), gradient)) / (float(step.loss) / spare)
    limit = float(chdtri(k, ndtr(-SIGMAS)))
    return Claim(
        "biases that the units may have", value, limit, value <= limit, "tested",
        f"gain of {k} biases in units of noise, about {k} if there are none. More means that the units have biases, for which "
        "RandomStart() is made, or are no ReLU units at all.")


def constant_noise(source: Source, network: Network, loss: float) -> Claim | None:
    """Koenker's (1981) test: does the square of the residual depend on the squares of the inputs?

    `loss` is the residual sum of squares, more than rounding. None for fewer than `TAME` samples a dimension.
    """
    if source.size < TAME * source.dim:
        return None
    mean = loss / source.size

    def squares(x: Array, y: Array) -> Sums:
        phi = np.column_stack([np.ones(len(x)), x * x - 1.0])
        q = np.sum((y - network(x).reshape(y.shape)) ** 2, axis=1) / mean - 1.0
        return phi.T @ phi, phi.T @ q, np.asarray(q @ q)

    gram, moment, power = source.sum(squares, stage="noise")
    flat = float(moment[0]) ** 2 / source.size
    value = source.size * (float(moment @ solve_spd(gram, moment)) - flat) / max(float(power) - flat, np.finfo(float).tiny)
    limit = float(chdtri(source.dim, ndtr(-SIGMAS)))
    return Claim(
        "noise that depends on the inputs", value, limit, value <= limit, "tested",
        f"n R² of squared residuals on squared inputs, about {source.dim} if the noise is the same everywhere. If it is not, the "
        "detector is biased and standard errors are off; the fit is still consistent.")


@dataclass(frozen=True)
class PureNeuronChecks:
    """What the fit after a start at pure neurons is asked; `gap` as in `null_space_stands_out`."""

    gap: float

    def __call__(self, source: Source, outcome: Outcome) -> tuple[Claim, ...]:
        network = outcome.network
        claims = [
            symmetric_inputs(source), pairs_told_apart(source, network, outcome.exact),
            null_space_stands_out(self.gap, outcome.exact, outcome.agreed)]
        noisy = () if outcome.exact else (no_biases(source, network), constant_noise(source, network, outcome.loss))
        return (*claims, *(claim for claim in noisy if claim is not None))


@dataclass(frozen=True)
class CountedWidth:
    """The claim about a width that was not told, before the others."""

    counted: RankEstimate
    others: Later | None

    def __call__(self, source: Source, outcome: Outcome) -> tuple[Claim, ...]:
        others = () if self.others is None else self.others(source, outcome)
        return (width_counted(self.counted, outcome.network.width), *others)
