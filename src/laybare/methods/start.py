"""What a method is: its assumptions, and a start that says where hidden units may be. The loop around it is `laybare.pipeline`.

    white source, width told or not  ->  Start: a network to begin with (or none), claims, and what to check after the fit

A literal form has `search=None`: the loop then ends with the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.errors import InvalidInput
from laybare.levels import SOLVED_LOSS
from laybare.networks import Network
from laybare.refinement.hunt import Search
from laybare.shapes import Progress
from laybare.source import Source


class Outcome(NamedTuple):
    """How the fit that followed a start ended: the network on white inputs, squared error and its share of the variation of y.

    `agreed` says that a second run, from other units, ended at the same fit.
    """

    network: Network
    loss: float
    share: float
    agreed: bool = False

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.share <= SOLVED_LOSS


Later: TypeAlias = Callable[[Source, Outcome], tuple[Claim, ...]]
"""Claims that wait for the fit."""


class Start(NamedTuple):
    """Where units may be, on the inputs of the white source, and what was learnt on the way.

    `network` None: nowhere in particular, so units begin in random directions. `signed` says that the signs of its units are
    known, so that the activation itself is fitted and not its sign-free form. `width` is set if the start decides it; `search`
    replaces that of the method.
    """

    network: Network | None = None
    claims: tuple[Claim, ...] = ()
    later: Later | None = None
    signed: bool = False
    width: int | None = None
    search: Search | None = None


def network_at(start: Start) -> Network:
    """The network of a start that must have one."""
    if start.network is None:
        raise InvalidInput(
            "The method names no units to begin with.", "Without a search nothing else finds them.",
            "Leave the search on, or use a method that reads units out of moments.")
    return start.network


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
    def activation(self) -> Activation:
        """The activation of the hidden units."""

    @property
    def biases(self) -> bool:
        """Whether units have biases; if not, the fit leaves them out too."""

    @property
    def search(self) -> Search | None:
        """How hard to look from the start on; None ends with the start."""

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """Where the units of the network behind the white `source` may be; `width` None means: find out."""
