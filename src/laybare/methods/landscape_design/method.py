"""LandscapeDesign: the hidden layer as the minimum of an objective that is designed to have no bad ones."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.counting import count_units, width_to_start
from laybare.errors import InvalidInput, Unidentifiable
from laybare.landscape import Parameters, Steps, coefficient
from laybare.methods.landscape_design.claims import gaussian_tails
from laybare.methods.landscape_design.printed import PrintedDesign
from laybare.methods.landscape_design.routes import TensorRoute
from laybare.methods.start import Route, Start
from laybare.methods.tensor_init.method import check_size
from laybare.refinement.hunt import Search
from laybare.shapes import Progress, tell
from laybare.source import Source

SIGNAL = 1e-3
"""Normalised Hermite coefficient of order 2 or 4 below which no practicable number of samples shows the weights."""


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
    route : Route
        TensorRoute(), WhitenedRoute(), PolarRoute() or PrintedDesign().
    search : Search or None
        Spare units and repairs after the first run of the solver; None leaves the start as the objective gave it.

    References
    ----------
    Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design. Deviations: control variates, f′ in
    its moments, corrected constants (see `laybare.landscape`).
    """

    activation: Activation = relu
    route: Route = TensorRoute()
    search: Search | None = Search(spares=0)

    @classmethod
    def literal(
        cls, activation: Activation = relu, *, orthogonal: bool = False, parameters: Parameters | None = None,
        steps: Steps | None = None, batch: int = 8192, span: bool = True,
    ) -> LandscapeDesign:
        """F, or G for `orthogonal` weights, as printed: plain averages, parameters of the theorems, Algorithm 2 or 1.

        With fewer units than inputs F is taken in the span of the units, or with the ridge of Theorem C.5 if not `span`.
        `steps` makes the descent stochastic, with `batch` fresh samples a step, as in the experiments of the paper.
        """
        route = PrintedDesign(orthogonal=orthogonal, parameters=parameters, steps=steps, batch=batch, span=span)
        return cls(activation=activation, route=route, search=None)

    @property
    def biases(self) -> bool:
        """None of the hidden units has a bias."""
        return False

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """What the objective alone gives, before the solver sees it; `source` is white."""
        check_signal(self.activation)
        _check_outputs(source)
        told = self._counted(source) if width is None else width
        check_size(source, told)
        tell(progress, "landscape")
        start = self.route(source, told, self.activation, rng=rng)
        return start if self.search is None else start._replace(later=gaussian_tails)

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
