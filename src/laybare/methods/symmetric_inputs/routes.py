"""The spectral route for symmetric inputs: the product L = AW sharpened by even control variates, pure neurons, a network.

    y on [x, 1]  →  L  →  y on [x, 1, svec(zzᵀ)], z = row-space coordinates  →  L  →  pure neurons  →  Ŵ
                                                  y on [x, 1, |Ŵx|]  →  L  →  pure neurons  →  Ŵ  →  …

Under a symmetric law even features are orthogonal to x: they change no expectation, and take away the even part of y, which is
all of the noise of L if there is no other. For Gaussian x the quadratic ones leave an eighth of its variance. With |Ŵx| what is
left is only the error of Ŵ, so that every round shrinks that error to about n^-½ of itself, and moments alone reach rounding on
noiseless data. The annihilator is the other route: noiseless samples of any inputs, units with or without biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition import Decomposer, JointDiagonalisation, RankEstimate, annihilator
from laybare.errors import InvalidInput
from laybare.levels import GRAM
from laybare.methods.start import Start
from laybare.methods.symmetric_inputs.claims import PureNeuronChecks
from laybare.methods.symmetric_inputs.needs import PURE_NEURONS, Needs, slope_of, unit_slope
from laybare.methods.symmetric_inputs.pure_neurons import Frame, assembled, find_neurons, frame_of, row_space
from laybare.moments import even_absolute, even_quadratic, linear_product
from laybare.networks import Layer, Network
from laybare.refinement.levenberg import project
from laybare.refinement.normal import Fit, FitStatistic, network_of, point_of
from laybare.shapes import Array
from laybare.source import Source

SAMPLES_A_FEATURE = 1.5
"""Fewest samples a feature of a control variate: with fewer it follows the noise."""

WORTH = 0.25
"""Another round is taken as long as the last one left less than this share of the squared error."""


class Pure(NamedTuple):
    """A network of pure neurons, and by how much the space that they were found in stands out."""

    network: Network
    gap: float


@dataclass(frozen=True, kw_only=True)
class SpectralRoute:
    """Moments with control variates, whitened outputs, joint diagonalisation, guarded polish.

    Parameters
    ----------
    rounds : int
        Rounds with |Ŵx| as control variate after the first network; they end early when they no longer help.
    quadratic : bool
        Whether the first L is sharpened by quadratic features, where the samples allow it.
    decompose : Decomposer
        Splits the null space of the detector into pure neurons.
    """

    rounds: int = 4
    quadratic: bool = True
    decompose: Decomposer = JointDiagonalisation(polish=False)

    @property
    def needs(self) -> Needs:
        """Symmetric inputs, no biases, no more units than inputs and outputs."""
        return PURE_NEURONS

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The best of the networks of all rounds, by squared error; `source` is white about zero."""
        slope = slope_of(activation)
        odd = linear_product(source, slope=slope)
        product, frame = odd.product, frame_of(odd.product, odd.residual, width)
        if self.quadratic and _affordable(source, width * (width + 1) // 2):
            product = linear_product(source, slope=slope, even=even_quadratic(row_space(product, frame))).product
        best, loss = self._located(source, product, frame, activation, rng)
        for _ in range(self.rounds if _affordable(source, width) else 0):
            product = linear_product(source, slope=slope, even=even_absolute(best.network.layer.weights)).product
            trial, after = self._located(source, product, frame, activation, rng)
            worth, improved = after < WORTH * loss, after < loss
            best, loss = (trial, after) if improved else (best, loss)
            if not worth:
                break
        return Start(best.network, later=PureNeuronChecks(best.gap))

    def _located(
        self, source: Source, product: Array, frame: Frame, activation: Activation, rng: Generator
    ) -> tuple[Pure, float]:
        slope, scale = slope_of(activation), unit_slope(activation)
        found = find_neurons(source, product, frame, slope=slope, decompose=self.decompose, rng=rng)
        network = assembled(source, product, frame, found.z, activation, slope=slope)
        network = Network(network.layer, network.readout / scale)
        return Pure(network, found.gap), _loss(source, network)


@dataclass(frozen=True, kw_only=True)
class AnnihilatorRoute:
    """Quadratic relations that noiseless samples obey (`decomposition.annihilator`); then the readout by least squares."""

    biases: bool = False

    @property
    def needs(self) -> Needs:
        """As many outputs as units; inputs of any law."""
        return Needs(self.biases, symmetric=False, count=_independent_outputs, check=_check_outputs)

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network whose relations these are."""
        found = annihilator(source, width, rng=rng, slope=slope_of(activation), biases=self.biases)
        empty = np.zeros((width, source.outputs))
        network = Network(Layer(found.weights, found.biases, activation), empty[:, 0] if source.outputs == 1 else empty)
        point = point_of(network, biases=self.biases, offset=False, linear=False)
        fitted, _ = project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))
        return Start(network_of(fitted, vector=source.outputs == 1))


def _affordable(source: Source, features: int) -> bool:
    return source.size >= SAMPLES_A_FEATURE * (source.dim + 1 + features)


def _loss(source: Source, network: Network) -> float:
    """Residual sum of squares with the best readout and offset."""
    point = point_of(network, biases=False, offset=True, linear=False)
    return project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))[1]


def _independent_outputs(source: Source, slope: float) -> RankEstimate:
    """Directions in which the outputs vary: noiseless outputs show every unit that has a readout of its own."""
    (power,) = source.sum(lambda x, y: (y.T @ y,), stage="outputs")
    scale = np.sqrt(np.maximum(np.diag(power), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(power / np.outer(scale, scale))
    seen = int(np.sum(values > GRAM * values[-1]))
    return RankEstimate(seen, seen, np.inf, f"{seen} of {source.outputs} outputs are independent.")


def _check_outputs(source: Source, width: int) -> None:
    if width > source.outputs:
        raise InvalidInput(
            f"Width {width} with {source.outputs} outputs.", "Every unit needs a combination of outputs that shows it alone.",
            "Use RandomStart(), which needs no such combination.", width=width, outputs=source.outputs)
