"""A start that the solver has already been over: sign-free where that helps, repaired where it got stuck, signs settled."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from laybare.activations import Activation
from laybare.methods.start import Start
from laybare.pipeline.signs import settle_signs
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import SOLVED, Search, over_wide, total_variation
from laybare.refinement.pruning import ROUNDING
from laybare.refinement.sign_free import sign_free_model
from laybare.shapes import Array, Progress
from laybare.source import Source

GROWTH, AGAIN = 4, 2
"""A search that fails on some of the samples is repeated on so many times as many, with no more than two repairs: what is
left then is most often noise."""


def solved(
    source: Source, activation: Activation, width: int | None, known: Array | None = None, *,
    biases: bool, search: Search, rng: Generator, rows: int | None = None, progress: Progress | None = None,
) -> Start:
    """The best fit that `search` finds from `known` rows (k, dim, or dim + 1 with biases), or from random ones.

    With `rows` the search sees only so many samples, and more only if it does not fit those to rounding; whatever it finds is
    refined on all of them.
    """
    model = sign_free_model(activation, biases=biases)
    refined = _searched(source, model, width, known, search, rows or source.size, rng, progress)
    network = network_of(refined.point, vector=source.outputs == 1)
    if not model.linear:
        return Start(network, (), refined.trace)
    settled = settle_signs(source, network, activation, refined.loss, biases=biases)
    return Start(settled.network, (settled.claim,), refined.trace)


def _searched(
    source: Source, model: Model, width: int | None, known: Array | None, search: Search, rows: int, rng: Generator,
    progress: Progress | None,
) -> Refined:
    if rows >= source.size:
        return over_wide(source, model, width, known, search=search, rng=rng, progress=progress)
    part = source.split(rows / source.size, rng=rng).first
    short = replace(search, effort=replace(search.effort, floor=max(search.effort.floor, ROUNDING)))  # last digits come below
    found = over_wide(part, model, width, known, search=short, rng=rng, progress=progress)
    if found.trace.reason == "interrupted":
        return found
    if found.loss > SOLVED * total_variation(part):
        again = replace(search, hops=min(search.hops, AGAIN))
        return _searched(source, model, width, found.point.units, again, GROWTH * rows, rng, progress)
    whole = minimise(source, found.point, total_variation(source), effort=search.effort, progress=progress)
    return whole._replace(trace=found.trace.then(whole.trace))
