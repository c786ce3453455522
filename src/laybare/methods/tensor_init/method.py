"""TensorInit: the hidden layer from Hermite moments of orders 1 to 4, for Gaussian inputs and at most as many units as inputs."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.counting import count_units, width_to_start
from laybare.errors import InvalidInput, TooFewSamples
from laybare.methods.start import Route, Start, network_at
from laybare.methods.tensor_init.claims import SignsOfReadouts
from laybare.methods.tensor_init.printed import PrintedDescent, PrintedMoments
from laybare.methods.tensor_init.routes import RefinedMoments, informative_orders
from laybare.moments.parity import check_parity
from laybare.refinement.descent import Descent
from laybare.refinement.hunt import Search
from laybare.shapes import Progress, tell
from laybare.source import Source

ENOUGH = 4
"""Samples a weight at which one start succeeded in 60 of 60 cases (squared ReLU, 5 units in dimensions 20 and 50)."""


@dataclass(frozen=True, kw_only=True)
class TensorInit:
    """Hidden layer from the moments E[y He_k(x)], k = 1, …, 4, after Zhong, Song, Jain, Bartlett and Dhillon (2017).

    Assumes x ~ N(0, Σ), no biases, independent weight vectors (width ≤ dim), and an activation that is no polynomial of degree 2.
    The span of the weights, their directions, signs and magnitudes come from moments; the solver then goes on from there, and
    only if it ends above rounding are the worst units drawn anew. With noise that never is the case, and two runs that agree
    end the search.

    Parameters
    ----------
    activation : Activation
        Homogeneous (ReLU and its powers, leaky ReLU, |t|), odd up to a constant (tanh, erf, sigmoid), or softplus and GELU.
    route : Route
        RefinedMoments() or PrintedMoments().
    search : Search or None
        Spare units and repairs after the first run of the solver; None leaves the start as the moments gave it.

    References
    ----------
    Zhong et al. (2017), Recovery guarantees for one-hidden-layer neural networks, Algorithm 1. Deviations: the span is refined,
    moments are least-squares fits, slices of all orders are decomposed together, and the data are not split.
    """

    activation: Activation = relu
    route: Route = RefinedMoments()
    search: Search | None = Search(spares=0)

    @classmethod
    def literal(
        cls, activation: Activation = relu, *, partition: bool = False, descent: Descent | None = None,
        printed_step: bool = True,
    ) -> TensorInit:
        """Algorithm 1 as printed; `partition` uses a third of the samples for each of its steps, as the proof does.

        With `descent` Algorithm 2: as many steps of gradient descent from there, with the step of the theorem; without
        `printed_step` with that of `descent`, such as the 0.02 of the experiments in section 7.
        """
        first = PrintedMoments(partition=partition)
        route = first if descent is None else PrintedDescent(route=first, descent=descent, printed_step=printed_step)
        return cls(activation=activation, route=route, search=None)

    @property
    def biases(self) -> bool:
        """None of the hidden units has a bias."""
        return False

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """What the moments alone give, before the solver sees it; `source` is white."""
        check_activation(self.activation)
        told = self._counted(source) if width is None else width
        check_size(source, told)
        check_parity(source, self.activation)
        tell(progress, "moments")
        start = self.route(source, told, self.activation, rng=rng)
        return start if self.search is None else start._replace(later=SignsOfReadouts(network_at(start)))

    def _counted(self, source: Source) -> int:
        """The width that the moments show."""
        seen = count_units(source, self.activation, informative_orders(self.activation).second)
        return width_to_start(source, seen, searched=self.search is not None)


def check_activation(activation: Activation) -> None:
    """Refuse activations whose units moments do not show, or the solver cannot move."""
    if activation.degree == 0:
        raise InvalidInput(
            f"{activation.name} has derivative zero.", "The refinement that follows the moments cannot move such units.",
            "Use HighThreshold(activation=step), which fits the active set instead.", activation=activation.name)
    informative_orders(activation)


def check_size(source: Source, width: int) -> None:
    """Refuse more units than dimensions, and no more equations than weights."""
    if width > source.dim:
        raise InvalidInput(
            f"Width {width} in dimension {source.dim}.",
            "Moments are decomposed into independent weight vectors, of which there are at most as many as dimensions.",
            "Use RandomStart(), which has no such limit.", width=width, dim=source.dim)
    weights = source.dim * width
    if source.size * source.outputs <= weights:
        raise TooFewSamples(
            f"{source.size:,} samples for {weights:,} weights ({width} units in dimension {source.dim}).",
            "Some network fits as many equations as it has unknowns whatever the truth is.",
            f"About {ENOUGH * weights // source.outputs:,} samples would do.", samples=source.size, width=width, dim=source.dim)
