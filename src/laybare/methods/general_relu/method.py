"""GeneralReLU: units with biases, more of them than inputs if need be, from Hermite moments, spare units and the solver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.unfold import unfold, with_signs
from laybare.certificate import Claim
from laybare.errors import AssumptionViolated, InvalidInput, LaybareError, TooFewSamples
from laybare.methods.general_relu.printed import PrintedReLU
from laybare.methods.general_relu.routes import JointSpan, Route, SpectralUnits
from laybare.methods.start import Start
from laybare.moments import Normality, khatri_rao_gap, needed_order, normality
from laybare.networks import Network
from laybare.pipeline.search import solved
from laybare.refinement.overwide import Search
from laybare.refinement.pruning import parameter_count
from laybare.refinement.sign_free import sign_free_model
from laybare.shapes import Event, Progress
from laybare.source import Source

SAMPLES_A_NUMBER, FEWEST = 8, 4000
"""Samples that the search sees first: 8 a free number (5 are enough from random directions) and at least 4000."""


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
    route : Route
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
    route: Route = JointSpan()
    search: Search | None = Search(peel=True)

    @classmethod
    def literal(cls, order: int = 1, *, centred: bool = False) -> GeneralReLU:
        """Algorithm 6 (order 1: at most as many units as inputs) or Algorithms 4 and 5 (order 2, 3: more), as printed.

        The number of units is what the moments show, whatever width is told.
        """
        return cls(route=PrintedReLU(order=order, centred=centred), search=None)

    @property
    def biases(self) -> bool:
        """Every hidden unit has a bias."""
        return True

    def find(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """A network near the one behind the source."""
        check_activation(self.activation)
        check_size(source, width)
        normal = normality(source, rng=rng)
        if self.search is None:
            return Start(unsolved(self._required(source, width, normal, rng, progress)))
        units, reason = self._attempted(source, width, normal, rng, progress)
        known = None if units is None else units.network.layer.rows
        search = replace(self.search, peel=self.search.peel and normal.plausible and self.activation.centre is None)
        start = solved(
            source, self.activation, width, known, biases=True, search=search, rng=rng,
            rows=self._rows(source, width or (4 if units is None else 2 * units.network.width)), progress=progress)
        return start._replace(claims=(*start.claims, _shown(units, reason), *_gap(start.network)))

    def start(
        self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None
    ) -> SpectralUnits | None:
        """What the moments alone give, before the solver sees it; None if they are out of reach. `source` is white."""
        if progress is not None:
            progress(Event("moments", 0, 0))
        return self.route(source, width, self.activation, rng=rng)

    def _attempted(
        self, source: Source, width: int | None, normal: Normality, rng: Generator, progress: Progress | None
    ) -> tuple[SpectralUnits | None, str]:
        """The start of the moments, or why there is none: the search can do without."""
        if not normal.plausible:
            return None, f"the inputs are not normal ({normal.sigmas:.0f} standard deviations off)"
        try:
            return self.start(source, width, rng=rng, progress=progress), "the moments that so many units need are out of reach"
        except LaybareError as refusal:
            return None, f"the moments refused ({refusal.seen.rstrip('.')})"

    def _required(
        self, source: Source, width: int | None, normal: Normality, rng: Generator, progress: Progress | None
    ) -> Network:
        """The network of the moments, where nothing else can take their place."""
        if not normal.plausible:
            raise AssumptionViolated(
                f"A projection of the white inputs has a third or fourth Hermite moment of {normal.size:.2g} "
                f"({normal.sigmas:.0f} standard deviations).",
                "The moments read weights out of exactly these orders, for N(0, I).",
                "Use GeneralReLU() with its search, or RandomStart().", size=normal.size, sigmas=normal.sigmas)
        units = self.start(source, width, rng=rng, progress=progress)
        if units is None:
            raise InvalidInput(
                f"Width {width} in dimension {source.dim}.",
                "The moments that so many units need have too high an order, or cost too much.",
                "Leave the search on, which starts at random then.", width=width, dim=source.dim)
        return units.network

    def _rows(self, source: Source, width: int) -> int:
        """Samples for the search."""
        model = sign_free_model(self.activation, biases=True)
        wide = width + (0 if self.search is None else self.search.extra(width))
        numbers = parameter_count(model.start(np.zeros((wide, source.dim + 1)), source.outputs))
        return max(FEWEST, SAMPLES_A_NUMBER * numbers // source.outputs)


def unsolved(network: Network) -> Network:
    """The start without its linear part if some signs come close to explaining it, else as it is."""
    if network.linear is None:
        return network
    signs = unfold(network, network.activation, tol=0.05).signs
    return with_signs(network, network.activation, signs.signs) if np.isfinite(signs.residual) else network


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


def _gap(network: Network) -> tuple[Claim, ...]:
    """For the reader: how well the weights found are told apart by moments. Small means ill-conditioned, not wrong."""
    order = needed_order(network.dim, network.width)
    if order is None or not network.layer.weights.any(axis=1).all():
        return ()
    return (Claim(
        "least singular value of the weights' powers", khatri_rao_gap(network.layer.weights, order), 0.0, True, "proved",
        f"of the Khatri-Rao power of order {order}: 1 for orthogonal weights, 0 for dependent ones; the error of moments grows "
        "with its inverse."),)


def _shown(units: SpectralUnits | None, reason: str) -> Claim:
    """For the reader: how much of the start came from moments. It decides speed, not truth, so it never fails."""
    if units is None:
        text = f"{reason}, so units started at random"
    else:
        text = f"of {units.network.width} directions from orders up to {units.order}; the others are no better than random ones"
    shown = 0 if units is None else units.shown
    return Claim(
        "units that moments show above their noise", float(shown), 0.0, True, "tested",
        f"{text}. The start decides the speed; what was found is judged by the other claims.")
