"""LandscapeDesign: the hidden layer as the minimum of an objective that is designed to have no bad ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.counting import count_units, width_to_start
from laybare.certificate import Claim
from laybare.errors import InvalidInput, Unidentifiable
from laybare.landscape import Minimum, Parameters, Steps, coefficient
from laybare.methods.landscape_design.routes import DesignRoute, Ended, PrintedRoute, TensorRoute
from laybare.methods.start import Start
from laybare.methods.tensor_init.method import check_size
from laybare.networks import Network
from laybare.pipeline.search import solved
from laybare.refinement.overwide import Search
from laybare.shapes import Array, Event, Progress, Sums
from laybare.source import Source

SIGNAL = 1e-3
"""Normalised Hermite coefficient of order 2 or 4 below which no practicable number of samples shows the weights."""

TAILS = 5.0
"""Standard errors that the kurtosis of Gaussian inputs keeps within."""


@dataclass(frozen=True, kw_only=True)
class LandscapeDesign:
    """Hidden layer by descent on a designed objective of the moments of orders 2 and 4, after Ge, Lee and Ma (2018).

    Assumes x ~ N(0, Σ), no biases, independent weight vectors (width ≤ dim), positive readouts, one output, and an activation
    with Hermite coefficients of orders 2 and 4; rows of length 1 if it is not homogeneous. The default decomposes both moments
    together (their f′, for which no theorem is known); G and F, which have theorems, need 4 to 16 times the samples. The solver
    then goes on from there, and only if it ends above rounding are the worst units drawn anew.

    Parameters
    ----------
    activation : Activation
        ReLU, leaky ReLU, |t|, softplus, GELU and the like. Sigmoid, tanh and t² carry no signal and are refused.
    route : DesignRoute
        TensorRoute(), WhitenedRoute(), PolarRoute() or PrintedRoute().
    search : Search or None
        Spare units and repairs after the first run of the solver; None leaves the start as the objective gave it.

    References
    ----------
    Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design. Deviations: control variates, f′ in
    its moments, corrected constants (see `laybare.landscape`).
    """

    activation: Activation = relu
    route: DesignRoute = TensorRoute()
    search: Search | None = Search(spares=0)

    @classmethod
    def literal(
        cls, activation: Activation = relu, *, orthogonal: bool = False, parameters: Parameters | None = None,
        steps: Steps | None = None, batch: int = 8192,
    ) -> LandscapeDesign:
        """F, or G for `orthogonal` weights, as printed: plain averages, parameters of the theorems, Algorithm 2 or 1.

        `steps` makes the descent stochastic, with `batch` fresh samples a step, as in the experiments of the paper.
        """
        route = PrintedRoute(orthogonal=orthogonal, parameters=parameters, steps=steps, batch=batch)
        return cls(activation=activation, route=route, search=None)

    @property
    def biases(self) -> bool:
        """None of the hidden units has a bias."""
        return False

    def find(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """A network near the one behind the source."""
        check_signal(self.activation)
        _check_outputs(source)
        told = self._counted(source) if width is None else width
        check_size(source, told)
        ended = self.ended(source, told, rng=rng, progress=progress)
        claims = (*_stationary(ended.minimum), _positive(ended))
        if self.search is None:
            return Start(ended.network, claims)
        start = solved(
            source, self.activation, width, ended.network.layer.weights, biases=False, search=self.search, rng=rng,
            progress=progress)
        exact = start.trace is not None and start.trace.loss <= 1e-18
        return start._replace(claims=(*start.claims, *claims, _gaussian(source, exact)))

    def start(self, source: Source, width: int, *, rng: Generator, progress: Progress | None = None) -> Network:
        """What the objective alone gives, before the solver sees it; `source` is white."""
        return self.ended(source, width, rng=rng, progress=progress).network

    def ended(self, source: Source, width: int, *, rng: Generator, progress: Progress | None = None) -> Ended:
        """The same with the moments and the minimum behind it."""
        if progress is not None:
            progress(Event("landscape", 0, 0))
        return self.route(source, width, self.activation, rng=rng)

    def _counted(self, source: Source) -> int:
        """The width that the second moment shows."""
        seen = count_units(source, self.activation, 2)
        return width_to_start(source, seen, searched=self.search is not None)


def check_signal(activation: Activation) -> None:
    """Refuse activations without a Hermite coefficient of order 2 or 4: the objectives would be flat."""
    second, fourth = coefficient(activation, 2), coefficient(activation, 4)
    if min(abs(second), abs(fourth)) > SIGNAL:
        return
    missing = " and ".join(f"order {k} ({value:.1e})" for k, value in ((2, second), (4, fourth)) if abs(value) <= SIGNAL)
    raise Unidentifiable(
        f"{activation.name} has no Hermite coefficient of {missing}.",
        "The designed objectives rest on the moments of orders 2 and 4: without both they do not see the weights.",
        "Use TensorInit(), which takes order 3, for odd activations, or RandomStart().",
        activation=activation.name, second=second, fourth=fourth)


def _check_outputs(source: Source) -> None:
    if source.outputs > 1:
        raise InvalidInput(
            f"There are {source.outputs} outputs.", "The objectives are designed for one, with positive readouts.",
            "Use TensorInit(), which takes several, or one output at a time.", outputs=source.outputs)


def _stationary(minimum: Minimum | None) -> tuple[Claim, ...]:
    """Second-order certificate of the start."""
    if minimum is None:
        return ()
    order = minimum.order
    share = order.smallest / max(abs(order.largest), 1e-300)
    return (Claim(
        "curvature of the designed objective at the start", share, 0.0, not order.curved_down, "tested",
        f"smallest Hessian eigenvalue {order.smallest:.2e} of at most {order.largest:.2e}, gradient {order.gradient_norm:.1e}, "
        f"after {minimum.escapes} escapes from saddles; negative means that the descent did not end in a minimum."),)


def _positive(ended: Ended) -> Claim:
    """Whether all readouts are positive, as far as the second moment tells."""
    smallest, edge = float(ended.seen.spectrum.min()), ended.seen.edge
    return Claim(
        "smallest eigenvalue of the second moment over its noise", smallest / max(edge, 1e-300), -1.0, True, "tested",
        f"{smallest:.3g} with noise {edge:.3g}: clearly negative eigenvalues would mean negative readouts, and are refused.")


def _gaussian(source: Source, exact: bool) -> Claim:
    """Excess kurtosis of the inputs: the moments are those of the network only if the inputs are Gaussian."""
    (fourth, second) = (total / source.size for total in source.sum(_powers, stage="kurtosis"))
    value = float(np.mean(fourth / second**2)) - 3.0
    limit = TAILS * float(np.sqrt(24.0 / (source.size * source.dim)))
    text = "moments of orders 2 and 4 are those of the network only for Gaussian inputs"
    return Claim(
        "excess kurtosis of the inputs", value, limit, exact or abs(value) <= limit, "tested",
        f"{text}; the data were fitted exactly, so that it does not matter here." if exact else f"{text}.")


def _powers(x: Array, y: Array) -> Sums:
    squares = x * x
    return (squares * squares).sum(axis=0), squares.sum(axis=0)
