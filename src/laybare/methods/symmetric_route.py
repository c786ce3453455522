"""What the routes of SymmetricInputs have in common: what they return, which shapes they take, which activations."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.unfold import folding
from laybare.decomposition import RankEstimate
from laybare.errors import InvalidInput, TooFewSamples, Unidentifiable
from laybare.network import Network
from laybare.source import Source


class Located(NamedTuple):
    """A first network, and `gap`: by how much the space that its pure neurons were found in stands out."""

    network: Network
    gap: float


@runtime_checkable
class Route(Protocol):
    """A way from white samples to a first network."""

    @property
    def biases(self) -> bool:
        """Whether the units it finds have biases."""

    @property
    def symmetric(self) -> bool:
        """Whether it needs inputs with x and -x equally likely."""

    def count(self, source: Source, activation: Activation) -> RankEstimate:
        """How many units the samples show."""

    def check(self, source: Source, width: int) -> None:
        """Refuse shapes that it cannot work on."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Located: ...


def slope_of(activation: Activation) -> float:
    """a of act(t) = c·t above zero, c·a·t below; refuses every other activation, and |t|, whose outputs have no odd part."""
    fold = folding(activation)
    if fold is None or fold.odd + fold.even == 0.0:
        raise Unidentifiable(
            f"{activation.name} is no ReLU with a slope on both sides of a kink at zero.",
            "Symmetric inputs show AW in the odd part of the outputs, which is linear for ReLU and leaky ReLU alone.",
            "Use relu or leaky_relu(slope), or RandomStart() for other activations.", activation=activation.name)
    return (fold.odd - fold.even) / (fold.odd + fold.even)


def unit_slope(activation: Activation) -> float:
    """c of act(t) = c·t above zero: 1 but for users' own activations."""
    return float(activation(np.array([1.0]))[0])


def check_shape(source: Source, width: int) -> None:
    """Refuse more units than outputs or inputs, and too few samples for the regression that gives AW."""
    if width > min(source.outputs, source.dim):
        raise InvalidInput(
            f"Width {width} with {source.outputs} outputs in dimension {source.dim}.",
            "Pure neurons are combinations of outputs, and their weights are independent: there are at most as many as outputs, "
            "and as inputs.",
            "Use RandomStart(), which has no such limit, or for noiseless data SymmetricInputs.annihilator(), which needs "
            "outputs alone.", width=width, outputs=source.outputs, dim=source.dim)
    if source.size < 1.5 * (source.dim + 1):
        raise TooFewSamples(
            f"{source.size:,} samples in dimension {source.dim}.", "The outputs are first regressed on the inputs.",
            f"Give at least {3 * (source.dim + 1):,} samples.", samples=source.size, dim=source.dim)
