"""GeneralReLU: units with biases, more of them than inputs if need be, from Hermite moments, spare units and the solver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.unfold import unfold, with_signs
from laybare.errors import AssumptionViolated, InvalidInput, LaybareError, TooFewSamples
from laybare.methods.general_relu.claims import at_random, powers_apart
from laybare.methods.general_relu.printed import PrintedReLU
from laybare.methods.general_relu.routes import JointSpan
from laybare.methods.start import CountingRoute, Start, network_at
from laybare.moments import Normality, normality
from laybare.networks import Network
from laybare.refinement.hunt import Search
from laybare.shapes import Progress, tell
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class GeneralReLU:
    """Hidden layer with biases, of any width, after Awasthi, Tang and Vijayaraghavan (2021), for Gaussian inputs.

    Directions come from the joint span of moments of orders 2 to 4 (to 6 for very many units), readouts, scales and biases from
    small fits to all orders; random spare units stand beside them, the sign-free model is fitted and pruned, and the signs of
    ReLU-like units are decoded at the end: exactly as many units as the network has, where the paper has two more.

    What is proved concerns `literal`, with far more samples than anybody has. The default is tested; its result is judged by the
    certificate, not by the assumptions. If the inputs are visibly not normal, units start at random instead.

    Parameters
    ----------
    activation : Activation
        ReLU and leaky ReLU; softplus, GELU; tanh, erf, sigmoid and others with free norms (beyond the paper, tested only).
    route : CountingRoute
        JointSpan(), or PrintedReLU(order=l): Algorithms 4 to 6 as printed.
    search : Search or None
        Spare units, repairs (half of them from the moments of what the fit leaves over, unless inputs are not normal or units
        are odd) and pruning; None leaves the start as the moments gave it.

    References
    ----------
    Awasthi, Tang and Vijayaraghavan (2021), Efficient algorithms for learning depth-2 neural networks with general ReLU
    activations.
    """

    activation: Activation = relu
    route: CountingRoute = JointSpan()
    search: Search | None = Search(peel=True)

    @classmethod
    def literal(cls, order: int = 1, *, centred: bool = False) -> GeneralReLU:
        """Algorithm 6 (order 1: at most as many units as inputs) or Algorithms 4 and 5 (order 2, 3: more), as printed.

        Algorithm 5 is truncated least squares in a ball, by projected gradient descent (`PrintedReLU(accuracy=...)` is its ε).
        The number of units is what the moments show, whatever width is told.
        """
        return cls(route=PrintedReLU(order=order, centred=centred), search=None)

    @property
    def biases(self) -> bool:
        """Every hidden unit has a bias."""
        return True

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """What the moments alone give, before the solver sees it; without a network if they are out of reach."""
        check_activation(self.activation)
        check_size(source, width)
        normal = normality(source, rng=rng)
        tell(progress, "moments")
        if self.search is None:
            check_normal(normal)
            start = self.route(source, width, self.activation, rng=rng)
            return start._replace(network=unsolved(network_at(start)))
        search = replace(self.search, peel=self.search.peel and normal.plausible and self.activation.centre is None)
        return self._attempted(source, width, normal, rng)._replace(later=powers_apart, search=search)

    def _attempted(self, source: Source, width: int | None, normal: Normality, rng: Generator) -> Start:
        """The start of the moments, or why there is none: the search can do without."""
        if not normal.plausible:
            return at_random(f"the inputs are not normal ({normal.sigmas:.0f} standard deviations off)")
        try:
            return self.route(source, width, self.activation, rng=rng)
        except LaybareError as refusal:
            return at_random(f"the moments refused ({refusal.seen.rstrip('.')})")


def unsolved(network: Network) -> Network:
    """The start without its linear part if some signs come close to explaining it, else as it is."""
    if network.linear is None:
        return network
    signs = unfold(network, network.activation, tol=0.05).signs
    return with_signs(network, network.activation, signs.signs) if np.isfinite(signs.residual) else network


def check_normal(normal: Normality) -> None:
    """Refuse inputs that are visibly not normal, where nothing can take the place of moments."""
    if not normal.plausible:
        raise AssumptionViolated(
            f"A projection of the white inputs has a third or fourth Hermite moment of {normal.size:.2g} "
            f"({normal.sigmas:.0f} standard deviations).", "The moments read weights out of exactly these orders, for N(0, I).",
            "Use GeneralReLU() with its search, or RandomStart().", size=normal.size, sigmas=normal.sigmas)


def check_activation(activation: Activation) -> None:
    """Refuse what the solver cannot move."""
    if activation.degree == 0:
        raise InvalidInput(
            f"{activation.name} has derivative zero.", "The refinement that follows the moments cannot move such units.",
            "Use HighThreshold(activation=step), which fits the active set instead.", activation=activation.name)


def check_size(source: Source, width: int | None) -> None:
    """Refuse fewer samples than the linear fit that every control variate starts with needs."""
    if source.size <= 2 * (source.dim + 1) or (width is not None and source.size * source.outputs <= width * (source.dim + 1)):
        raise TooFewSamples(
            f"{source.size:,} samples in dimension {source.dim} for width {width}.",
            "Some network fits as many equations as it has unknowns whatever the truth is.",
            f"About {5 * (width or 4) * (source.dim + 2) // source.outputs:,} samples would do.",
            samples=source.size, width=width, dim=source.dim)
