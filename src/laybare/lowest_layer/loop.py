"""The lowest layer alone: source -> layer -> certificate -> what lies above it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.bars import shown
from laybare.certificate import Certificate, StandardErrors
from laybare.errors import AssumptionViolated, InvalidInput, NotSeparated
from laybare.lowest_layer.acceptance import top_explains
from laybare.lowest_layer.by_lines import layer_by_lines
from laybare.lowest_layer.by_queries import layer_by_queries
from laybare.lowest_layer.finding import LayerFinding
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.recovery import LayerRecovery
from laybare.lowest_layer.tops import Top, held_out_r2
from laybare.methods import Lines
from laybare.networks import Layer
from laybare.pipeline.provenance import provenance_of
from laybare.refinement.problem import Problem, pose
from laybare.shapes import Array, Progress
from laybare.source import Oracle, Source
from laybare.source.checkpoint import with_checkpoint
from laybare.source.protocol import Parts


def recover_layer(
    source: Source, method: HighThreshold | Lines | None = None, width: int | None = None, *,
    rng: Generator | int = 0, progress: Any = None, checkpoint: str | PathLike[str] | None = None,
) -> LayerRecovery:
    """Recover the lowest layer of the network behind a source, whatever lies above it.

    Parameters
    ----------
    source : Source
        Samples, files or an oracle. An oracle that answers without noise is asked at chosen points.
    method : HighThreshold or Lines, optional
        By default HighThreshold(), for ReLU units that are rarely active; Lines(depth=None) reads the lowest layer of any ReLU
        network that an oracle answers for without noise, and is what an oracle falls back to if no method is given.
    width : int, optional
        Number of units; counted if not given.
    rng : Generator or int
        Same seed, same bits.
    progress : callable or True, optional
        Called with an Event at every step; True: a bar in the terminal or the notebook.
    checkpoint : folder, optional
        What long passes returned is written there; after a crash the same call goes on from it, to the same bits.
    """
    if method is None and isinstance(source, Oracle):
        try:
            return recover_layer(source, HighThreshold(), width, rng=rng, progress=progress, checkpoint=checkpoint)
        except AssumptionViolated as refusal:
            return _instead(source, width, refusal, rng=rng, progress=progress)
    method = HighThreshold() if method is None else method
    _check_arguments(method, width)
    origin, draws = provenance_of("recover_layer", source, rng, method=method, width=width), np.random.default_rng(rng)
    if isinstance(method, Lines):
        with shown(progress) as told:
            return replace(_by_lines(_oracle(source), method, width, rng=draws, progress=told), provenance=origin)
    method.check(source, width)
    source = with_checkpoint(source, checkpoint, verb="recover_layer", method=method, width=width, rng=draws)
    with shown(progress) as told:
        found = _found(source, method, width, rng=draws, progress=told)
    return replace(found, provenance=origin)


def _found(
    source: Source, method: HighThreshold, width: int | None, *, rng: Generator, progress: Progress | None
) -> LayerRecovery:
    begun = time.perf_counter()
    if isinstance(source, Oracle) and method.asks:
        found, rows = layer_by_queries(source, method, width, rng=rng)
        top, spent = None if rows is None else _top(found, found.layer, rows, method), source.spent
    else:
        problem = pose(source, biases=True, rng=rng, progress=progress)
        used = problem.used if progress is None else problem.used.with_progress(progress)
        white = method.find_layer(used, problem.fresh, width, rng=rng, progress=progress)
        found = white.pull_back(problem.transform)
        layer = problem.transform.inverse().pull_back_layer(found.layer)  # rows that got length 1 on x, seen from white inputs
        top, spent = _top(found, layer, Parts(problem.used, problem.fresh), method), _spent(source, problem)
    queries = source.queries if isinstance(source, Oracle) else {}
    return LayerRecovery(found.layer, _certificate(found, top), top, method, time.perf_counter() - begun, spent, queries)


def _by_lines(
    oracle: Oracle, method: Lines, width: int | None, *, rng: Generator, progress: Progress | None
) -> LayerRecovery:
    begun = time.perf_counter()
    layer, certificate, top = layer_by_lines(oracle, method, width, rng=rng, progress=progress)
    return LayerRecovery(layer, certificate, top, method, time.perf_counter() - begun, oracle.spent, dict(oracle.queries))


def _instead(
    oracle: Oracle, width: int | None, refusal: AssumptionViolated, *, rng: Generator | int, progress: Any
) -> LayerRecovery:
    """Lines, where units are not rarely active; the first refusal, if lines cannot read it either."""
    if oracle.box is not None:
        raise refusal
    try:
        return recover_layer(oracle, Lines(depth=None), width, rng=rng, progress=progress)
    except (AssumptionViolated, NotSeparated):
        raise refusal from None


def _oracle(source: Source) -> Oracle:
    if not isinstance(source, Oracle):
        raise InvalidInput(
            f"The source is a {type(source).__name__}.", "Lines ask at points of their choice.",
            "Give Oracle(f, dim=...), or HighThreshold() for samples.")
    return source


def _check_arguments(method: HighThreshold | Lines, width: int | None) -> None:
    """Refuse what is no method for layers, and no width."""
    if not isinstance(method, HighThreshold | Lines):
        raise InvalidInput(
            f"The method is a {type(method).__name__}.", "Only HighThreshold and Lines find the lowest layer alone.",
            "Give HighThreshold(activation=...) or Lines(depth=None), or use recover() for a whole network.")
    if width is not None and (isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width < 1):
        raise InvalidInput(
            f"width={width!r}.", "A layer has at least one unit.", "Give a positive integer, or None to have the units counted.")


def _spent(source: Source, problem: Problem) -> int:
    """Rows that were read, or queries that were asked, those that were asked again among them."""
    return source.spent if isinstance(source, Oracle) else problem.rows


def _top(found: LayerFinding, layer: Layer, rows: Parts, method: HighThreshold) -> Top | None:
    """What lies above the finding; `layer` is its layer on the inputs of `rows`: used ones, fresh ones."""
    if method.top is None:
        return None
    function: Callable[[Array], Array] = method.top.fit(rows.first, layer) if found.top is None else found.top
    return Top(function, held_out_r2(rows.second, layer, function))


def _certificate(found: LayerFinding, top: Top | None) -> Certificate:
    """The claims of the route and, without noise, whether the top explains the outputs."""
    claims = found.claims if top is None or found.noise else (*found.claims, top_explains(top.r2))
    errors = StandardErrors(found.errors[:, :-1], found.errors[:, -1], np.full(found.layer.width, np.nan), np.asarray(np.nan))
    return Certificate(claims, errors, found.noise)
