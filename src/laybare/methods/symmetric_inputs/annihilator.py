"""The annihilator as a route: noiseless samples of any inputs, units with or without biases, no more of them than outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition import RankEstimate, annihilator
from laybare.decomposition.relations import ROUNDING
from laybare.errors import InvalidInput
from laybare.methods.symmetric_inputs.route import Located, Needs, slope_of
from laybare.networks import Layer, Network
from laybare.refinement.levenberg import project
from laybare.refinement.normal import Fit, FitStatistic, network_of, point_of
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class AnnihilatorRoute:
    """Quadratic relations that noiseless samples obey (`decomposition.relations`); then the readout by least squares."""

    biases: bool = False

    @property
    def needs(self) -> Needs:
        """As many outputs as units; inputs of any law."""
        return Needs(self.biases, symmetric=False, count=_count, check=_check)

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Located:
        """The network whose relations these are."""
        found = annihilator(source, width, rng=rng, slope=slope_of(activation), biases=self.biases)
        empty = np.zeros((width, source.outputs))
        network = Network(Layer(found.weights, found.biases, activation), empty[:, 0] if source.outputs == 1 else empty)
        point = point_of(network, biases=self.biases, offset=False, linear=False)
        fitted, _ = project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))
        return Located(network_of(fitted, vector=source.outputs == 1), found.gap)


def _count(source: Source, slope: float) -> RankEstimate:
    """Directions in which the outputs vary: noiseless outputs show every unit that has a readout of its own."""
    (power,) = source.sum(lambda x, y: (y.T @ y,), stage="outputs")
    scale = np.sqrt(np.maximum(np.diag(power), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(power / np.outer(scale, scale))
    seen = int(np.sum(values > ROUNDING * values[-1]))
    return RankEstimate(seen, seen, np.inf, f"{seen} of {source.outputs} outputs are independent.")


def _check(source: Source, width: int) -> None:
    if width > source.outputs:
        raise InvalidInput(
            f"Width {width} with {source.outputs} outputs.", "Every unit needs a combination of outputs that shows it alone.",
            "Use RandomStart(), which needs no such combination.", width=width, outputs=source.outputs)
