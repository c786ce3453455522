"""What every method returns: a network to start the refinement from, and what was learnt on the way."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.networks import Network
from laybare.refinement.trace import Trace
from laybare.shapes import Progress
from laybare.source import Source


class Start(NamedTuple):
    """A network on the inputs of the source it was found from, claims for the certificate, the solver's trace if it ran."""

    network: Network
    claims: tuple[Claim, ...] = ()
    trace: Trace | None = None


@runtime_checkable
class Method(Protocol):
    """A choice of parts that finds a start. `source` is whitened; `width` None means: detect it."""

    @property
    def activation(self) -> Activation:
        """The activation of the hidden units."""

    @property
    def biases(self) -> bool:
        """Whether units have biases; if not, refinement leaves them out too."""

    def find(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """A network near the one behind the source."""
