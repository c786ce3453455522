"""The lowest layer alone: source -> layer -> certificate -> what lies above it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from laybare.certificate import Certificate, StandardErrors
from laybare.errors import InvalidInput, TooFewSamples
from laybare.lowest_layer.acceptance import top_explains
from laybare.lowest_layer.by_queries import layer_by_queries
from laybare.lowest_layer.finding import LayerFinding
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.recovery import LayerRecovery
from laybare.lowest_layer.tops import Top, held_out_r2
from laybare.shapes import Array, Progress
from laybare.source import Oracle, Source
from laybare.source.protocol import Parts
from laybare.source.views import View
from laybare.source.white import white_view

HELD_OUT, MOST_HELD_OUT = 0.2, 50_000
"""Share of the rows kept for the certificate, and their largest number."""


def recover_layer(
    source: Source, method: HighThreshold | None = None, width: int | None = None, *,
    rng: Generator | int = 0, progress: Progress | None = None,
) -> LayerRecovery:
    """Recover the lowest layer of the network behind a source, whatever lies above it.

    Parameters
    ----------
    source : Source
        Samples, files or an oracle. An oracle that answers without noise is asked at chosen points.
    method : HighThreshold, optional
        By default HighThreshold(), for ReLU units.
    width : int, optional
        Number of units; counted if not given.
    rng : Generator or int
        Same seed, same bits.
    progress : callable, optional
        Called with an Event at every step.
    """
    begun, rng = time.perf_counter(), np.random.default_rng(rng)
    method = HighThreshold() if method is None else method
    _check_arguments(method, width)
    method.check(source, width)
    if isinstance(source, Oracle) and method.asks:
        found, rows = layer_by_queries(source, method, width, rng=rng)
        spent = source.spent
    else:
        rows = _split(source, rng)
        view = white_view(rows.first)
        fresh = View(rows.second, range(rows.second.size), view.transform, view.law, rows.second.schedule)
        seen = view if progress is None else view.with_progress(progress)
        found = method.find_layer(seen, fresh, width, rng=rng, progress=progress).pull_back(view.transform)
        spent = source.size
    top = None if rows is None else _top(found, rows, method)
    return LayerRecovery(found.layer, _certificate(found, top), top, method, time.perf_counter() - begun, spent)


def _split(source: Source, rng: Generator) -> Parts:
    """Rows to use and rows to keep."""
    if source.size < 10:
        raise TooFewSamples(
            f"There are {source.size} rows.", "A fifth of them is kept for the certificate.", "Give at least 10.",
            size=source.size)
    return source.split(max(1.0 - HELD_OUT, 1.0 - MOST_HELD_OUT / source.size), rng=rng)


def _check_arguments(method: HighThreshold, width: int | None) -> None:
    """Refuse what is no method for layers, and no width."""
    if not isinstance(method, HighThreshold):
        raise InvalidInput(
            f"The method is a {type(method).__name__}.", "Only HighThreshold finds the lowest layer alone.",
            "Give HighThreshold(activation=...), or use recover() for a whole network.")
    if width is not None and (isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width < 1):
        raise InvalidInput(
            f"width={width!r}.", "A layer has at least one unit.", "Give a positive integer, or None to have the units counted.")


def _top(found: LayerFinding, rows: Parts, method: HighThreshold) -> Top | None:
    if method.top is None:
        return None
    function: Callable[[Array], Array] = method.top.fit(rows.first, found.layer) if found.top is None else found.top
    return Top(function, held_out_r2(rows.second, found.layer, function))


def _certificate(found: LayerFinding, top: Top | None) -> Certificate:
    """The claims of the route and, without noise, whether the top explains the outputs."""
    claims = found.claims if top is None or found.noise else (*found.claims, top_explains(top.r2))
    errors = StandardErrors(found.errors[:, :-1], found.errors[:, -1], np.full(found.layer.width, np.nan), np.asarray(np.nan))
    return Certificate(claims, errors, found.noise)
