"""A start that the solver has already been over: sign-free where that helps, repaired where it got stuck, signs settled."""

from __future__ import annotations

from numpy.random import Generator

from laybare.activations import Activation
from laybare.methods.signs import settle_signs
from laybare.methods.start import Start
from laybare.refinement.normal import network_of
from laybare.refinement.overwide import Search, over_wide
from laybare.refinement.sign_free import sign_free_model
from laybare.shapes import Array, Progress
from laybare.source import Source


def solved(
    source: Source, activation: Activation, width: int | None, known: Array | None = None, *,
    biases: bool, search: Search, rng: Generator, progress: Progress | None = None,
) -> Start:
    """The best fit that `search` finds from `known` rows (k, dim, or dim + 1 with biases), or from random ones."""
    model = sign_free_model(activation, biases=biases)
    refined = over_wide(source, model, width, known, search=search, rng=rng, progress=progress)
    network = network_of(refined.point, vector=source.outputs == 1)
    if not model.linear:
        return Start(network, (), refined.trace)
    settled = settle_signs(source, network, activation, refined.loss, biases=biases)
    return Start(settled.network, (settled.claim,), refined.trace)
