"""The lowest layer alone: source -> layer -> certificate -> what lies above it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.certificate import Certificate, StandardErrors
from laybare.errors import InvalidInput, TooFewSamples
from laybare.lowest_layer import FoundLayer, HighThreshold, Top, layer_by_queries
from laybare.lowest_layer.half_spaces import UnionOfHalfSpaces
from laybare.lowest_layer.tops import held_out_r2
from laybare.networks import Layer, Network
from laybare.shapes import Array, Progress
from laybare.source import Affine, Oracle, Samples, Source
from laybare.source.whitening import whitening_map

HELD_OUT, MOST_HELD_OUT = 0.2, 50_000
"""Share of the rows kept for the certificate, and their largest number."""


@dataclass(frozen=True, eq=False)
class LayerRecovery:
    """A recovered lowest layer.

    Attributes
    ----------
    layer : Layer
        On the inputs as they were given; rows of step and ReLU units have length 1, thresholds are -biases.
    certificate : Certificate
        Its standard errors are those of the weights and biases; there is no readout.
    top : Top or None
        The function above the layer, fitted to its features, with its held-out R².
    method : HighThreshold
    seconds : float
    samples_used : int
        Rows that were read, or queries that were asked.
    """

    layer: Layer
    certificate: Certificate
    top: Top | None
    method: HighThreshold
    seconds: float
    samples_used: int

    @property
    def thresholds(self) -> Array:
        """t of the units u(w·x - t), (width,)."""
        return -np.asarray(self.layer.biases)

    def __call__(self, x: Array) -> Array:
        """Outputs predicted at the rows of x, by way of the layer and the top."""
        if self.top is None:
            raise InvalidInput(
                "No top was fitted.", "The layer alone does not give outputs.", "Use HighThreshold(top=MonomialTop()).")
        return self.top(self.layer(np.asarray(x, dtype=float)))

    def __str__(self) -> str:
        top = "" if self.top is None else f"; held-out R² of the top {self.top.r2:.4f}"
        return (
            f"layer of {self.layer.width} {self.layer.activation.name} units in dimension {self.layer.dim}, by "
            f"{type(self.method).__name__} from {self.samples_used:,} samples in {self.seconds:.1f} s{top}\n"
            f"{self.certificate.explain()}")


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
    check_arguments(method, width)
    method.check(source, width)
    if isinstance(source, Oracle) and method.queries is not None and method.silent:
        asked = layer_by_queries(source, method, width, rng=rng)
        return _finished(_pulled_back(asked.found, asked.transform), asked.used, asked.fresh, method, begun, source.spent)
    used, fresh = split(source, rng)
    transform, law = whitening_map(used), used.law.white()
    view, fresh_view = used.mapped(transform, law), fresh.mapped(transform, law)
    seen = view if progress is None else view.with_progress(progress)
    found = method.find_layer(seen, fresh_view, width, rng=rng, progress=progress)
    return _finished(_pulled_back(found, view.transform), used, fresh, method, begun, source.size)


def learn_union(x: Array, labels: Array, width: int | None = None, *, rng: Generator | int = 0) -> UnionOfHalfSpaces:
    """Half-spaces whose union holds the rows of x (n, dim) with the label 1 and none with the label 0.

    Parameters
    ----------
    x : array (n, dim), standard normal up to an affine map
    labels : array (n,) of zeros and ones (or bools), fewer than half of them ones
    width : int, optional
        Number of half-spaces; counted if not given.
    rng : Generator or int
    """
    y = np.asarray(labels)
    if y.ndim != 1 or not np.isin(y, (0, 1)).all():
        raise InvalidInput(
            f"The labels have shape {y.shape} and {len(np.unique(y))} different values.", "A row is inside the union or outside.",
            "Give one label for each row, 0 or 1.")
    found = recover_layer(Samples(x, y.astype(float)), HighThreshold(activation=step, top=None), width, rng=rng)
    return UnionOfHalfSpaces(found.layer.weights, found.thresholds, found.certificate)


def split(source: Source, rng: Generator) -> tuple[Source, Source]:
    """Rows to use and rows to keep."""
    if source.size < 10:
        raise TooFewSamples(
            f"There are {source.size} rows.", "A fifth of them is kept for the certificate.", "Give at least 10.",
            size=source.size)
    return source.split(max(1.0 - HELD_OUT, 1.0 - MOST_HELD_OUT / source.size), rng=rng)


def check_arguments(method: HighThreshold, width: int | None) -> None:
    """Refuse what is no method for layers, and no width."""
    if not isinstance(method, HighThreshold):
        raise InvalidInput(
            f"The method is a {type(method).__name__}.", "Only HighThreshold finds the lowest layer alone.",
            "Give HighThreshold(activation=...), or use recover() for a whole network.")
    if width is not None and (isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width < 1):
        raise InvalidInput(
            f"width={width!r}.", "A layer has at least one unit.", "Give a positive integer, or None to have the units counted.")


def _pulled_back(found: FoundLayer, transform: Affine) -> FoundLayer:
    """The layer on x instead of on white z; rows of homogeneous units get length 1 again."""
    layer = transform.pull_back(Network(found.layer, np.ones(found.layer.width))).layer
    # the error of (w, b) on z becomes that of (matrix w, b - mean·matrix w)
    stretch = np.column_stack([np.abs(found.errors[:, :-1]) @ np.abs(transform.matrix.T), found.errors[:, -1]])
    stretch[:, -1] += stretch[:, :-1] @ np.abs(transform.mean)
    if layer.activation.degree is None:
        return found._replace(layer=layer, errors=stretch)
    lengths = np.linalg.norm(layer.weights, axis=1)
    scaled = Layer(layer.weights / lengths[:, None], np.asarray(layer.biases) / lengths, layer.activation)
    return found._replace(layer=scaled, errors=stretch / lengths[:, None])


def _finished(
    found: FoundLayer, used: Source | None, fresh: Source | None, method: HighThreshold, begun: float, rows: int
) -> LayerRecovery:
    errors = StandardErrors(found.errors[:, :-1], found.errors[:, -1], np.full(found.layer.width, np.nan), np.asarray(np.nan))
    certificate = Certificate(found.claims, errors, found.noise)
    top = None if used is None or fresh is None else _top(found, used, fresh, method)
    return LayerRecovery(found.layer, certificate, top, method, time.perf_counter() - begun, rows)


def _top(found: FoundLayer, used: Source, fresh: Source, method: HighThreshold) -> Top | None:
    if method.top is None:
        return None
    function: Callable[[Array], Array] = method.top.fit(used, found.layer) if found.top is None else found.top
    return Top(function, held_out_r2(fresh, found.layer, function))
