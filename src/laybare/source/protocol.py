"""The interface of sources and of laws of the inputs, and the affine maps between inputs.

Algorithms depend on this file and on no kind of source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array, Progress, Statistic, Sums
from laybare.numerics.workspace import single_blas_thread
from laybare.source.sums import Schedule


class Rows(NamedTuple):
    """Some rows of the data: x (rows, dim) and y (rows, outputs), float64."""

    x: Array
    y: Array


class SplitSources(NamedTuple):
    """Two disjoint sets of rows."""

    first: Source
    second: Source


def is_source(given: Any) -> bool:
    """By its class alone: to look at the number of outputs of an oracle would cost queries."""
    return all(hasattr(type(given), verb) for verb in ("sum", "split", "read"))


def check_source(given: Any) -> None:
    """Raise InvalidInput for anything but a source."""
    if not is_source(given):
        raise InvalidInput(
            f"The source is {show_value(given)}.", "Samples, files and black boxes are sources; arrays and models become one.",
            'Give Samples(x, y), open_samples("data.npz") or Oracle(model, dim).')


@runtime_checkable
class Source(Protocol):
    """Inputs and outputs of an unknown function, read by row or summed over all rows. Immutable."""

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
        """Whether any range of rows is a random sample (true for rows drawn independently, not for those of a file)."""

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make rows start..stop readable from any thread; a black box is asked for them."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop; not to be written to."""

    def sum(self, statistic: Statistic, *, stage: str = "pass") -> Sums:
        """`statistic` summed over all rows; `stage` is what a progress bar shows."""

    def split(self, fraction: float, *, rng: Generator | int) -> SplitSources:
        """A random split; the first part has round(fraction * size) rows."""

    def take(self, rows: int) -> Source:
        """The first rows."""

    def between(self, start: int, stop: int) -> Source:
        """Rows start..stop."""

    def whitened(self, *, centred: bool = True) -> WhitenedSource:
        """The same rows with inputs of mean 0 and covariance I, and the map back."""

    def mapped(self, transform: Affine, law: Law) -> WhitenedSource:
        """The same rows through a given map."""

    def kept(self) -> Source:
        """The same rows, in memory if they fit."""

    def with_schedule(self, schedule: Schedule) -> Source:
        """The same rows with another schedule."""

    def with_progress(self, progress: Progress | None) -> Source:
        """The same rows; every block that is done calls `progress`."""


@runtime_checkable
class WhitenedSource(Source, Protocol):
    """A source of mapped inputs: z = transform.apply(x), and transform.pull_back(network on z) is a network on x."""

    @property
    def transform(self) -> Affine:
        """From the original inputs to those that are read here."""


@runtime_checkable
class Law(Protocol):
    """What is assumed about the distribution of the inputs."""

    def check(self, dim: int) -> None:
        """Raise InvalidInput if the law does not fit inputs of that dimension."""

    def whitening(self, source: Source) -> Affine:
        """The map to inputs with mean 0 and covariance I; one pass over `source` for each moment that is not given."""

    def white(self) -> Law:
        """The law after whitening."""

    def complete(self) -> Law:
        """The law that `draw` draws from: nothing left to estimate."""

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs, (rows, dim)."""


@dataclass(frozen=True, eq=False)
class Affine:
    """z = (x - mean) @ matrix, row by row; `mean` (dim,), `matrix` (dim, dim) and invertible."""

    mean: Array
    matrix: Array

    @classmethod
    def identity(cls, dim: int) -> Affine:
        """The map that changes nothing."""
        return cls(np.zeros(dim), np.eye(dim))

    @cached_property
    def trivial(self) -> bool:
        """Whether z = x exactly."""
        return not self.mean.any() and np.array_equal(self.matrix, np.eye(len(self.mean)))

    def apply(self, x: Array) -> Array:
        """The mapped rows; x itself if the map is trivial."""
        if self.trivial:
            return x
        # The mean is subtracted first: after the product, digits would cancel where it is large against the spread.
        with single_blas_thread():
            z: Array = (x - self.mean) @ self.matrix
        return z

    def then(self, following: Affine) -> Affine:
        """First this map, then `following`."""
        if self.trivial or following.trivial:
            return following if self.trivial else self
        shift = np.linalg.solve(self.matrix.T, following.mean)
        return Affine(self.mean + shift, self.matrix @ following.matrix)

    def inverse(self) -> Affine:
        """The map from z back to x."""
        return Affine(-self.mean @ self.matrix, np.linalg.inv(self.matrix))

    def pull_back_layer(self, layer: Layer) -> Layer:
        """The layer on x that equals `layer` on z."""
        if self.trivial:
            return layer
        weights = layer.weights @ self.matrix.T
        return Layer(weights, layer.biases - weights @ self.mean, layer.activation)

    def pull_back(self, network: Network) -> Network:
        """The network on x that equals `network` on z: w·z + b = (matrix w)·x + b - (matrix w)·mean; so for the linear part."""
        if self.trivial:
            return network
        layers = (self.pull_back_layer(network.layer), *network.layers[1:])
        if network.linear is None:
            return Network(layers, network.readout, network.offset, top=network.top)
        linear = self.matrix @ network.linear
        return Network(layers, network.readout, network.offset - self.mean @ linear, linear, top=network.top)
