"""The spectral route for symmetric inputs: the product L = AW sharpened by even control variates, pure neurons, a network.

    y on [x, 1]  →  L  →  y on [x, 1, svec(zzᵀ)], z = row-space coordinates  →  L  →  pure neurons  →  Ŵ
                                                  y on [x, 1, |Ŵx|]  →  L  →  pure neurons  →  Ŵ  →  …

Under a symmetric law even features are orthogonal to x: they change no expectation, and take away the even part of y, which is
all of the noise of L if there is no other. For Gaussian x the quadratic ones leave an eighth of its variance. With |Ŵx| what is
left is only the error of Ŵ, so that every round shrinks that error to about n^-½ of itself, and moments alone reach rounding on
noiseless data.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition import Decomposer, JointDiagonalisation
from laybare.methods.symmetric_inputs.pure_neurons import Frame, assembled, find_neurons, frame_of, row_space
from laybare.methods.symmetric_inputs.route import PURE_NEURONS, Located, Needs, slope_of, unit_slope
from laybare.moments import even_absolute, even_quadratic, linear_product
from laybare.networks import Network
from laybare.refinement.levenberg import project
from laybare.refinement.normal import Fit, FitStatistic, point_of
from laybare.shapes import Array
from laybare.source import Source

SAMPLES_A_FEATURE = 1.5
"""Fewest samples a feature of a control variate: with fewer it follows the noise."""

WORTH = 0.25
"""Another round is taken as long as the last one left less than this share of the squared error."""


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

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Located:
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
        return best

    def _located(
        self, source: Source, product: Array, frame: Frame, activation: Activation, rng: Generator
    ) -> tuple[Located, float]:
        slope, scale = slope_of(activation), unit_slope(activation)
        found = find_neurons(source, product, frame, slope=slope, decompose=self.decompose, rng=rng)
        network = assembled(source, product, frame, found.z, activation, slope=slope)
        network = Network(network.layer, network.readout / scale)
        return Located(network, found.gap), _loss(source, network)


def _affordable(source: Source, features: int) -> bool:
    return source.size >= SAMPLES_A_FEATURE * (source.dim + 1 + features)


def _loss(source: Source, network: Network) -> float:
    """Residual sum of squares with the best readout and offset."""
    point = point_of(network, biases=False, offset=True, linear=False)
    return project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))[1]
