"""What every source offers, and what every law of the inputs knows. Algorithms depend on this file and on no kind of source."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from numpy.random import Generator

from laybare.shapes import Array, Progress, Statistic, Sums
from laybare.source.affine import Affine
from laybare.source.sums import Schedule


class Rows(NamedTuple):
    """Some rows of the data: x (rows, dim) and y (rows, outputs), float64."""

    x: Array
    y: Array


class Parts(NamedTuple):
    """Two sources without a common row."""

    first: Source
    second: Source


@runtime_checkable
class Source(Protocol):
    """Inputs and outputs of an unknown function, read row by row or added up. Sources never change what they hold."""

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""

    @property
    def outputs(self) -> int:
        """Number of outputs."""

    @property
    def size(self) -> int:
        """Number of rows."""

    @property
    def law(self) -> Law:
        """What is assumed about the inputs."""

    @property
    def schedule(self) -> Schedule:
        """How passes are carried out."""

    @property
    def exchangeable(self) -> bool:
        """Whether any range of rows is as good as a random choice (rows drawn one by one; not those of a file)."""

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make rows start..stop readable from any thread, and pay for them if they have a price."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop; not to be written to."""

    def sum(self, statistic: Statistic, *, stage: str = "pass") -> Sums:
        """`statistic` added up over all rows; `stage` is what a progress bar shows."""

    def split(self, fraction: float, *, rng: Generator | int) -> Parts:
        """Two parts at random, the first with round(fraction * size) rows."""

    def take(self, rows: int) -> Source:
        """The first rows."""

    def between(self, start: int, stop: int) -> Source:
        """Rows start..stop."""

    def whitened(self, *, centred: bool = True) -> Whitened:
        """The same rows with inputs of mean 0 and covariance I, and the way back."""

    def mapped(self, transform: Affine, law: Law) -> Whitened:
        """The same rows through a map that is known already."""

    def kept(self) -> Source:
        """The same rows, in memory if they fit."""

    def with_schedule(self, schedule: Schedule) -> Source:
        """The same rows, passed over in another way."""

    def with_progress(self, progress: Progress | None) -> Source:
        """The same rows; every block that is done calls `progress`."""


@runtime_checkable
class Whitened(Source, Protocol):
    """A source of mapped inputs: z = transform.apply(x), and transform.pull_back(network on z) is a network on x."""

    @property
    def transform(self) -> Affine:
        """From the inputs that were given to those that are read here."""


@runtime_checkable
class Law(Protocol):
    """What is assumed about the distribution of the inputs."""

    def check(self, dim: int) -> None:
        """Refuse a law that does not belong to inputs of that dimension."""

    def whitening(self, source: Source) -> Affine:
        """The map to inputs with mean 0 and covariance I; takes a pass over `source` for what is not given."""

    def white(self) -> Law:
        """The law after whitening."""

    def complete(self) -> Law:
        """The law that `draw` draws from, with nothing left to estimate."""

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs, (rows, dim)."""
