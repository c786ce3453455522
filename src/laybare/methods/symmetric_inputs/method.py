"""SymmetricInputs: the hidden layer from second and fourth moments of several outputs, for inputs of any symmetric law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.counting import width_to_start
from laybare.certificate import Claim
from laybare.decomposition import RankEstimate
from laybare.methods.start import Start
from laybare.methods.symmetric_inputs.annihilator import AnnihilatorRoute
from laybare.methods.symmetric_inputs.claims import (
    constant_noise,
    no_biases,
    null_space_stands_out,
    pairs_told_apart,
    symmetric_inputs,
    width_counted,
)
from laybare.methods.symmetric_inputs.printed import PracticalRoute, PrintedRoute
from laybare.methods.symmetric_inputs.route import Located, Route, slope_of
from laybare.methods.symmetric_inputs.spectral import SpectralRoute
from laybare.networks import Network
from laybare.refinement.levenberg import Refined
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import AGREE, SOLVED, Search, over_wide, total_variation
from laybare.shapes import Event, Progress
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class SymmetricInputs:
    """Hidden layer of y = A act(Wx) + noise from moments, after Ge, Kuditipudi, Li and Wang (2019).

    Assumes x and -x equally likely and nothing more about the inputs; ReLU or leaky ReLU units without biases, no more of them
    than inputs and than outputs; independent rows of W and columns of A; noise that is independent of x. The odd part of y shows
    AW, the detector of `laybare.moments` shows which combinations of outputs are one unit alone, and the solver goes on from
    there. Only the start needs the assumptions: what the solver ends at is checked by the certificate.

    Parameters
    ----------
    activation : Activation
        relu, or leaky_relu of any slope but 1 and -1.
    route : Route
        SpectralRoute() by default; the printed algorithms and the annihilator have class methods below.
    search : Search or None
        Where the first run of the solver ends above rounding: a second one with spare units beside those found, and repairs.
        None leaves the start as the route gave it.

    References
    ----------
    Ge et al. (2019), Learning two-layer neural networks with symmetric inputs. Deviations of the default: control variates for
    AW, the noise term as a covariance, whitened outputs, joint diagonalisation, no splitting of samples, refinement.
    """

    activation: Activation = relu
    route: Route = SpectralRoute()
    search: Search | None = Search(hops=4)

    @classmethod
    def literal(cls, *, noise: bool = True, halves: bool = True) -> SymmetricInputs:
        """Algorithms 2 (noise=False, halves=False), 3 and 4 as printed, without the solver."""
        return cls(route=PrintedRoute(noise=noise, halves=halves), search=None)

    @classmethod
    def practical(cls) -> SymmetricInputs:
        """What the paper's experiments used: CP by alternating least squares, gradient descent on W; without the solver."""
        return cls(route=PracticalRoute(), search=None)

    @classmethod
    def annihilator(cls, activation: Activation = relu, *, biases: bool = False) -> SymmetricInputs:
        """Noiseless outputs, at least as many as units, and inputs of any law; with or without biases, width ≤ dim or not."""
        return cls(activation=activation, route=AnnihilatorRoute(biases=biases))

    @property
    def biases(self) -> bool:
        """Whether units have biases: only the annihilator can find them."""
        return self.route.needs.biases

    def find(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """A network near the one behind the source."""
        slope, needs = slope_of(self.activation), self.route.needs
        counted = needs.count(source, slope) if width is None else RankEstimate(width, width, np.inf, "Given.")
        told = width_to_start(source, counted, searched=self.search is not None)
        needs.check(source, told)
        if progress is not None:
            progress(Event("moments", 0, 0))
        located = self.route(source, told, self.activation, rng=rng)
        if self.search is None:
            return Start(located.network, (symmetric_inputs(source),) if needs.symmetric else ())
        refined = self._solved(source, None if counted.exact is None else told, located, self.search, rng, progress)
        network = network_of(refined.point, vector=source.outputs == 1)
        if refined.trace.reason == "interrupted":
            return Start(network, (), refined.trace)
        claims = () if width is not None else (width_counted(counted, network.width),)
        return Start(network, (*claims, *self._claims(source, network, located, refined)), refined.trace)

    def _claims(self, source: Source, network: Network, located: Located, refined: Refined) -> tuple[Claim, ...]:
        if not self.route.needs.symmetric:
            return ()
        exact = refined.loss <= SOLVED * total_variation(source)
        claims = [
            symmetric_inputs(source), pairs_told_apart(source, network, exact),
            null_space_stands_out(located.gap, exact, refined.agreed)]
        noisy = () if exact else (no_biases(source, network), constant_noise(source, network, refined.loss))
        return (*claims, *(claim for claim in noisy if claim is not None))

    def _solved(
        self, source: Source, width: int | None, located: Located, search: Search, rng: Generator, progress: Progress | None
    ) -> Refined:
        model = Model(self.activation, biases=self.biases, offset=True)
        rows = located.network.layer.rows if self.biases else np.array(located.network.layer.weights)
        lengths = np.linalg.norm(rows[:, : source.dim], axis=1)[:, None]
        rows = rows / np.where(lengths > 0.0, lengths, 1.0)
        if width is None:
            return over_wide(source, model, None, rows, search=search, rng=rng, progress=progress)
        once = replace(search, spares=0, hops=0)
        first = over_wide(source, model, width, rows, search=once, rng=rng, progress=progress)
        if first.loss <= SOLVED * total_variation(source) or first.trace.reason == "interrupted":
            return first
        second = over_wide(source, model, width, first.point.units, search=search, rng=rng, progress=progress)
        best = min(first, second, key=lambda refined: refined.loss)
        return best._replace(
            trace=first.trace.then(second.trace), agreed=abs(first.loss - second.loss) <= AGREE * best.loss)
