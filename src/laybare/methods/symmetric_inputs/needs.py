"""What the routes of SymmetricInputs ask for: shapes, activations, symmetry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from laybare.activations import Activation
from laybare.assembly.unfold import folding
from laybare.decomposition import RankEstimate
from laybare.errors import InvalidInput, TooFewSamples, Unidentifiable
from laybare.methods.start import Route
from laybare.methods.symmetric_inputs.counting import count_outputs
from laybare.source import Source


@dataclass(frozen=True)
class Needs:
    """What a route asks for: whether units have biases, whether x and -x must be equally likely, and what it can tell itself.

    `count` says how many units the samples of a given slope show, `check` refuses shapes that the route cannot work on.
    """

    biases: bool
    symmetric: bool
    count: Callable[[Source, float], RankEstimate]
    check: Callable[[Source, int], None]


@runtime_checkable
class ChoosyRoute(Route, Protocol):
    """A route that says what it needs."""

    @property
    def needs(self) -> Needs:
        """What it asks for."""


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


PURE_NEURONS = Needs(biases=False, symmetric=True, count=count_outputs, check=check_shape)
"""What all routes through the detector ask for."""
