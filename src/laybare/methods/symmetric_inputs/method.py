"""SymmetricInputs: the hidden layer from second and fourth moments of several outputs, for inputs of any symmetric law."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.counting import width_to_start
from laybare.methods.start import Start
from laybare.methods.symmetric_inputs.claims import CountedWidth, symmetric_inputs
from laybare.methods.symmetric_inputs.needs import ChoosyRoute, slope_of
from laybare.methods.symmetric_inputs.printed import PracticalRoute, PrintedNeurons
from laybare.methods.symmetric_inputs.routes import AnnihilatorRoute, SpectralRoute
from laybare.refinement.hunt import Search
from laybare.shapes import Progress, tell
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
    route : ChoosyRoute
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
    route: ChoosyRoute = SpectralRoute()
    search: Search | None = Search(hops=4)

    @classmethod
    def literal(cls, *, noise: bool = True, halves: bool = True) -> SymmetricInputs:
        """Algorithms 2 (noise=False, halves=False), 3 and 4 as printed, without the solver."""
        return cls(route=PrintedNeurons(noise=noise, halves=halves), search=None)

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

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """What the route gives, before the solver sees it; `source` is white."""
        needs, slope = self.route.needs, slope_of(self.activation)
        counted = needs.count(source, slope) if width is None else None
        told = width_to_start(source, counted, searched=self.search is not None) if counted is not None else width or 1
        needs.check(source, told)
        tell(progress, "moments")
        start = self.route(source, told, self.activation, rng=rng)._replace(signed=True)
        if self.search is None:
            return start._replace(claims=(symmetric_inputs(source),) if needs.symmetric else (), later=None)
        if counted is None:
            return start
        return start._replace(width=counted.exact, later=CountedWidth(counted, start.later))
