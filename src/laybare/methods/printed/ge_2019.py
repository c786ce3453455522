"""The algorithms of Ge, Kuditipudi, Li and Wang (2019) as they are printed, and the variant that their experiments used.

Letters: B = E[yxᵀ] E[xxᵀ]⁻¹, T the detector in coordinates vec* (the upper triangle, not scaled), S its k last right singular
vectors, z the eigenvectors of XY⁻¹ for two random elements X, Y of their span.

    Algorithm 1  one unit, one output: w = 2 E[xxᵀ]⁻¹ E[yx]
    Algorithm 2  no noise, as many outputs as units: f(u) = 2E[(u·y)(u·Bx) xxᵀ] - E[(u·y)² xxᵀ]
    Algorithm 3  noise: f(u) + (E[(u·y)²] - 2uᵀB E[xxᵀ] Bᵀu) E[xxᵀ]; one half of the samples for T, the other for the rest
    Algorithm 4  more outputs than units: Algorithm 3 on Pᵀy, P the k left singular vectors of E[yxᵀ]; one half of the samples
                 for P, the other for Algorithm 3
    practical    10k random elements of the span, CP by alternating least squares, best of 10; then gradient descent on W

That exact moments give the network is stated by Theorems 4, 5 and 6 for Algorithms 2, 3 and 4, informally by Theorems 1 and 2;
the pencil by Lemmas 5 and 8; what samples do, by Theorem 7 (`theory.symmetric_recovery`) and Theorem 8.
On the same samples the term that Algorithm 3 adds is what makes f a covariance (with a bracket that our copy of (11) lost).
The printed algorithms are for ReLU. Deviations: least squares where the text inverts, so that a singular Y costs accuracy, not a
crash; real and imaginary parts of complex eigenvectors, which the text does not expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.certificate import Claim
from laybare.decomposition import AlternatingLeastSquares, BestOf, Decomposer
from laybare.decomposition.joint import real_eigenvectors
from laybare.errors import InvalidInput
from laybare.landscape.first_order import Descent, gradient_descent, largest_curvature
from laybare.methods.start import AssumptionName, Start
from laybare.methods.symmetric_inputs import PURE_NEURONS, RouteNeeds
from laybare.methods.symmetric_neurons import PureNeuronChecks, null_space
from laybare.moments import PureNeuronDetector, least_squares, measure, smat
from laybare.moments.packed import triangle
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.solver import Trace
from laybare.solver.point import network_of, point_of
from laybare.source import MixedOutputs, Source
from laybare.source.problem import total_variation

ELEMENTS_PER_UNIT = 10
"""Random elements of the span per unit. Paper: Ge et al. (2019), section 4, experiments."""

ALS_RESTARTS = 10
"""Restarts of alternating least squares. Paper: Ge et al. (2019), section 4, experiments."""


@dataclass(frozen=True, kw_only=True)
class PrintedNeurons:
    """Algorithms 2, 3 and 4: `noise` adds the term of Algorithm 3, `halves` splits the samples as it does."""

    noise: bool = True
    halves: bool = True

    needs: ClassVar[RouteNeeds] = PURE_NEURONS

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """V and Z⁻¹ of Algorithm 2 or 3, or of Algorithm 4 if there are more outputs than units."""
        _check_relu(activation)
        first, second = _split_in_halves(source) if self.halves else (source, source)
        P = leading_outputs(first, width)
        if self.halves and source.outputs > width:  # the second half of Algorithm 4 is all that its Algorithm 3 has
            first, second = _split_in_halves(second)
        T = printed_detector(MixedOutputs(first, P), noise=self.noise)
        span, gap = null_span(T)
        X, Y = (np.tensordot(rng.standard_normal(width), span, axes=1) for _ in range(2))
        z = real_eigenvectors(*np.linalg.eig(X @ np.linalg.pinv(Y)), None)
        return Start(solve_single_units(second, P, z), later=PureNeuronChecks(gap))


@dataclass(frozen=True, kw_only=True)
class PracticalRoute:
    """The paper's experiments: CP of many elements of the span instead of one pencil, gradient descent on W with A held fixed.

    When alternating least squares and gradient descent end is not in the paper. Here one of the ten restarts must come to rest
    (else all of them get 20,000 rounds), and descent ends when the loss falls by less than the share `flat` within 500 steps, as
    a claim says. Steps have the length 1/λ, λ the largest curvature at the start, with Nesterov's momentum: where A comes
    out ill-conditioned, plain steps need hundreds of thousands.
    """

    decompose: Decomposer = BestOf(
        ALS_RESTARTS, AlternatingLeastSquares(tol=1e-8), AlternatingLeastSquares(tol=1e-8, max_steps=20_000))
    max_steps: int = 20_000
    flat: float = 0.01

    needs: ClassVar[RouteNeeds] = PURE_NEURONS

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """All samples for every step, the noise term of Algorithm 3."""
        _check_relu(activation)
        P = leading_outputs(source, width)
        span, gap = null_span(printed_detector(MixedOutputs(source, P), noise=True))
        elements = np.tensordot(rng.standard_normal((ELEMENTS_PER_UNIT * width, width)), span, axes=1)
        z = self.decompose(elements, width, rng=rng).directions
        start = solve_single_units(source, P, z)
        point = point_of(start, biases=False, offset=False, linear=False)
        step = 1.0 / largest_curvature(source, point, rng=rng)
        descent = Descent(step=step, max_steps=self.max_steps, momentum=True, flat=self.flat, tol=1e-12)
        found = gradient_descent(source, point, total_variation(source), descent)
        return Start(network_of(found.point, vector=source.outputs == 1), (self._end(found.trace),), PureNeuronChecks(gap))

    def _end(self, trace: Trace) -> Claim:
        """How many steps it took until the loss was flat."""
        steps = len(trace.rows) - 1
        why = {"steps": "all that it has", "flat": "the loss falls no more"}.get(trace.reason, trace.reason)
        return Claim(AssumptionName.DESCENT_STEPS, steps, self.max_steps, steps < self.max_steps, "tested", f"{why}.")


@dataclass(frozen=True)
class SingleUnits:
    """Algorithm 1 on all samples: every output is one unit, with readout 1 (inside Algorithm 3 it has half of the samples)."""

    needs: ClassVar[RouteNeeds] = PURE_NEURONS

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """As many units as outputs."""
        _check_relu(activation)
        if width != source.outputs:
            raise InvalidInput(
                f"Width {width} for {source.outputs} outputs.", "Algorithm 1 finds the one unit behind an output.",
                f"Give the width {source.outputs}, or use Algorithm 2 or 3.", width=width, outputs=source.outputs)
        readout = np.ones(1) if width == 1 else np.eye(width)
        return Start(Network(Layer(single_unit(source), None, relu), readout))


def single_unit(source: Source) -> Array:
    """Algorithm 1 for every output: rows w = 2 E[xxᵀ]⁻¹ E[yx], (outputs, d)."""
    fit = least_squares(source, lambda x: x)
    return np.asarray(2.0 * fit.coefficients.T)


def leading_outputs(source: Source, width: int) -> Array:
    """P of Algorithm 4, (m, k): left singular vectors of E[yxᵀ]; the identity if there are as many outputs as units."""
    if source.outputs == width:
        return np.eye(width)
    (cross,) = source.sum(lambda x, y: (y.T @ x,), stage="outputs")
    return np.asarray(np.linalg.svd(cross)[0][:, :width])


def printed_detector(source: Source, *, noise: bool) -> Array:
    """T with T vec*(uuᵀ) = f(u), of Algorithm 3 if `noise`, else of Algorithm 2: (d(d+1)/2, k(k+1)/2), rows in svec."""
    T = measure(source, PureNeuronDetector(single_unit(source), centred=noise), stage="detector")
    return np.asarray(T * triangle(source.outputs).scale)


def null_span(T: Array) -> tuple[Array, float]:
    """The last k right singular vectors as matrices (k, k, k), mat* of each, and the gap before them."""
    vectors, spectrum = null_space(T)
    k = len(vectors)
    rest = len(spectrum) - k
    gap = float(spectrum[rest - 1] / max(spectrum[rest], np.finfo(float).tiny)) if rest else np.inf
    return smat(vectors * triangle(k).scale), gap


def solve_single_units(source: Source, P: Array, z: Array) -> Network:
    """The last steps: signs by E[z·y] > 0, V by Algorithm 1 on every z·y, A = P Z⁻¹."""
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),), stage="signs")
    z = np.where(z @ (P.T @ total) < 0.0, -1.0, 1.0)[:, None] * z
    V = single_unit(MixedOutputs(source, P @ z.T))
    readout = (P @ np.linalg.pinv(z)).T
    return Network(Layer(V, None, relu), readout[:, 0] if source.outputs == 1 else readout)


def _split_in_halves(source: Source) -> tuple[Source, Source]:
    middle = source.size // 2
    return source.between(0, middle), source.between(middle, source.size)


def _check_relu(activation: Activation) -> None:
    if activation != relu:
        raise InvalidInput(
            f"The activation is {activation.name}.", "The printed algorithms are for ReLU.",
            "Use SymmetricInputs(activation=...), which takes every slope.", activation=activation.name)
