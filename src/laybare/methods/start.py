"""What a method is: its assumptions, and a start that says where hidden units may be. The loop around it is `laybare.pipeline`.

    white source, width or None  ->  Start: a network to begin with (or none), claims, and what to check after the fit

A literal form has `search=None`: the loop then ends with the start. RandomStart has an empty start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from numpy.random import Generator

from laybare.activations import Activation, as_activation, relu
from laybare.certificate import Claim
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.numerics.checks import check_fields, show_choices
from laybare.numerics.shapes import Array, Progress
from laybare.search.network_fit import NetworkFit
from laybare.search.settings import Search
from laybare.source import Source


class AssumptionName:
    """Names of what methods claim about their assumptions."""

    MOMENT_UNITS = "units that moments show above their noise"
    POWERS_SINGULAR_VALUE = "least singular value of the weights' powers"
    SECOND_MOMENT = "smallest eigenvalue of the second moment over its noise"
    DESIGN_CURVATURE = "curvature of the designed objective at the start"
    KURTOSIS = "excess kurtosis of the inputs"
    REGRESSION_GAP = "gap of the regression"
    ASYMMETRY = "asymmetry of the inputs"
    OUTPUT_UNITS = "units that the outputs show"
    SEPARATED_PAIRS = "pairs of units that the inputs separate"
    PURE_NEURON_GAP = "gap before the pure neurons"
    POSSIBLE_BIASES = "biases that the units may have"
    NOISE_OF_INPUTS = "noise that depends on the inputs"
    MISSING_SIGN = "readouts of a sign that are missing"
    DESCENT_STEPS = "steps of gradient descent"


ClaimsAfterFit: TypeAlias = Callable[[Source, NetworkFit], tuple[Claim, ...]]
"""Claims that wait for the fit."""


class Start(NamedTuple):
    """Where units may be, on the inputs of the white source, and what was learnt on the way.

    `network` None: nowhere in particular, so units begin in random directions. `signed` says that the signs of its units are
    known, so that the activation itself is fitted and not its sign-free form. `width` is set if the start decides it; `search`
    replaces that of the method.
    """

    network: Network | None = None
    claims: tuple[Claim, ...] = ()
    later: ClaimsAfterFit | None = None
    signed: bool = False
    width: int | None = None
    search: Search | None = None


Chosen = TypeVar("Chosen", bound=Any)


def required_network(start: Start) -> Network:
    """The network of a start that must have one."""
    if start.network is None:
        raise InvalidInput(
            "The method names no units to begin with.", "Without a search nothing else finds them.",
            "Leave the search on, or use a method that reads units out of moments.")
    return start.network


def lift_network(network: Network, basis: Array) -> Network:
    """A network of the coordinates x·basis as a network of x."""
    linear = None if network.linear is None else basis @ network.linear
    layer = Layer(network.layer.weights @ basis.T, network.layer.biases, network.activation)
    return Network(layer, network.readout, network.offset, linear)


def check_activation(method: Chosen, activation: Activation | None) -> Chosen:
    """The method; an activation that contradicts its own is refused."""
    if activation is not None and method.activation is not None and method.activation != activation:
        raise InvalidInput(
            f"activation={activation.name} was given, and a method for {method.activation.name}.",
            "They contradict each other.", "Give the activation once, or the same twice.")
    return method


def check_movable(activation: Activation) -> None:
    """Refuse units that the solver cannot move."""
    if activation.degree == 0:
        raise InvalidInput(
            f"{activation.name} has derivative zero.", "The refinement that follows the moments cannot move such units.",
            "Use HighThreshold(activation=step), which fits the active set instead.", activation=activation.name)


def check_method(method: Any, **least: float) -> None:
    """Check the choices of a method by their annotations (see `check_fields`); an activation's name becomes the activation."""
    object.__setattr__(method, "activation", as_activation(method.activation))
    check_fields(method, **least)


@runtime_checkable
class Route(Protocol):
    """A way from white samples to a start."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start: ...


@runtime_checkable
class CountingRoute(Protocol):
    """A route that also takes width None: as many units as it sees."""

    def __call__(self, source: Source, width: int | None, activation: Activation, *, rng: Generator) -> Start: ...


@runtime_checkable
class Method(Protocol):
    """A choice of parts that says where units may be."""

    @property
    def activation(self) -> Activation | None:
        """The activation of the hidden units; None: the method finds it out."""

    @property
    def biases(self) -> bool:
        """Whether units have biases; if not, the fit leaves them out too."""

    @property
    def search(self) -> Search | None:
        """How hard to look from the start on; None ends with the start."""

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """Where the units of the network behind the white `source` may be; `width` None means: find out."""


@dataclass(frozen=True, kw_only=True)
class RandomStart:
    """Hidden layer by over-wide Gauss-Newton from random directions; no assumption on the inputs beyond whitening.

    ReLU and leaky ReLU are fitted in the sign-free form Σ αᵢ|wᵢ·x + bᵢ| + v·x + c, which has no wrong signs to get stuck in,
    softplus and GELU with a free linear part to the same end; the signs are decoded afterwards. Nothing is proved about it; it
    is what every provable method has to be compared with, and the strongest known method per sample on noiseless data.

    Parameters
    ----------
    activation : Activation
    biases : bool
        Whether the hidden units have biases.
    search : Search
        Spare units, repairs and the effort of each run.
    """

    activation: Activation = relu
    biases: bool = True
    search: Search = Search()

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self)

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """Nowhere in particular: the search draws its units at random."""
        return Start()
