"""The lowest layer alone: source -> layer -> certificate -> what lies above it; and unions of half-spaces learnt from labels.

Theorem 12: a union of half-spaces is a layer of step units under 1 - Π(1 - X_i). Labels show the active set directly, so that the
half-spaces are all there is to learn. Far from the origin and at constant angles they are learnt in polynomial time; the fit
itself needs neither, and the certificate says whether it succeeded.
Source: Goel and Panigrahy (2019), appendix B.6.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.certificate import Certificate, StandardErrors
from laybare.certificate.certificate import break_lines
from laybare.errors import AssumptionViolated, InvalidInput, NotSeparated
from laybare.lowest_layer.acceptance import LayerFinding, top_claim
from laybare.lowest_layer.by_queries import layer_by_lines, layer_by_queries
from laybare.lowest_layer.high_threshold import HighThreshold
from laybare.lowest_layer.tops import Top, held_out_r2
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.methods import Lines
from laybare.networks import Layer
from laybare.numerics.checks import as_generator, check_whole, show_value
from laybare.numerics.progress import resolve_progress
from laybare.numerics.shapes import Array, Progress
from laybare.source import Oracle, Samples, Source
from laybare.source.checkpoint import with_checkpoint
from laybare.source.problem import pose
from laybare.source.protocol import SplitSources, check_source
from laybare.source.provenance import Provenance, provenance_of
from laybare.source.samples import ColumnNames


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
    method : HighThreshold or Lines
    seconds : float
    samples_used : int
        Rows that were read, or queries that were asked.
    queries : dict
        What the queries of an Oracle were spent on; empty for samples.
    provenance : Provenance, optional
        Version, call, seed, fingerprint of the data and names of their columns.
    """

    layer: Layer
    certificate: Certificate
    top: Top | None
    method: HighThreshold | Lines
    seconds: float
    samples_used: int
    queries: dict[str, int] = field(default_factory=dict)
    provenance: Provenance | None = None

    @property
    def columns(self) -> ColumnNames:
        """Names of inputs and outputs, where the data had any."""
        return ColumnNames() if self.provenance is None else self.provenance.columns

    @property
    def thresholds(self) -> Array:
        """t of the units u(w·x - t), (width,)."""
        return -np.asarray(self.layer.biases)

    @property
    def literal(self) -> bool:
        """Whether this is what the paper's own algorithm gives, without a fit after it."""
        return isinstance(self.method, HighThreshold) and self.method.printed is not None

    @property
    def by(self) -> str:
        """The name of the method, as in summaries."""
        return type(self.method).__name__ + ", literal," * self.literal

    @np.errstate(all="ignore")
    def __call__(self, x: Array) -> Array:
        """Outputs predicted at the rows of x, by way of the layer and the top."""
        if self.top is None:
            raise InvalidInput(
                "No top was fitted.", "The layer alone does not give outputs.", "Use HighThreshold(top=MonomialTop()).")
        return self.top(self.layer(np.asarray(x, dtype=float)))

    def __str__(self) -> str:
        return break_lines(self.explain())

    def explain(self) -> str:
        """What was found, how, from what, and what the certificate says, a line each."""
        top = "" if self.top is None else f"; held-out R² of the top {self.top.r2:.4f}"
        return (
            f"layer of {self.layer.width} {self.layer.activation.name} units in dimension {self.layer.dim}, by "
            f"{self.by} from {self.samples_used:,} samples in {self.seconds:.1f} s{top}\n"
            f"{self.certificate.explain()}")

    def report(self, path: str) -> None:
        """Write a self-contained HTML page."""
        from laybare.report import write_layer_report

        write_layer_report(self, path)


@np.errstate(all="ignore")
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
    check_source(source)
    if method is None and isinstance(source, Oracle):
        try:
            return recover_layer(source, HighThreshold(), width, rng=rng, progress=progress, checkpoint=checkpoint)
        except AssumptionViolated as refusal:
            return _fall_back_to_lines(source, width, refusal, rng=rng, progress=progress)
    method = HighThreshold() if method is None else method
    _check_arguments(method, width)
    origin, draws = provenance_of("recover_layer", source, rng, method=method, width=width), as_generator(rng)
    if isinstance(method, Lines):
        with resolve_progress(progress) as listener:
            found = _recover_by_lines(_require_oracle(source), method, width, rng=draws, progress=listener)
        return replace(found, provenance=origin)
    method.check(source, width)
    source = with_checkpoint(source, checkpoint, verb="recover_layer", method=method, width=width, rng=draws)
    with resolve_progress(progress) as listener:
        found = _recover_by_thresholds(source, method, width, rng=draws, progress=listener)
    return replace(found, provenance=origin)


def _recover_by_thresholds(
    source: Source, method: HighThreshold, width: int | None, *, rng: Generator, progress: Progress | None
) -> LayerRecovery:
    begun = time.perf_counter()
    if isinstance(source, Oracle) and method.asks:
        found, rows = layer_by_queries(source, method, width, rng=rng)
        top, spent = None if rows is None else _fit_top(found, found.layer, rows, method), source.spent
    else:
        problem = pose(source, biases=True, rng=rng, progress=progress)
        used = problem.used if progress is None else problem.used.with_progress(progress)
        white = method.find_layer(used, problem.fresh, width, rng=rng, progress=progress)
        found = white.pull_back(problem.transform)
        layer = problem.transform.inverse().pull_back_layer(found.layer)  # rows that got length 1 on x, seen from white inputs
        top = _fit_top(found, layer, SplitSources(problem.used, problem.fresh), method)
        spent = source.spent if isinstance(source, Oracle) else problem.rows
    queries = source.queries if isinstance(source, Oracle) else {}
    return LayerRecovery(found.layer, _certify(found, top), top, method, time.perf_counter() - begun, spent, queries)


def _recover_by_lines(
    oracle: Oracle, method: Lines, width: int | None, *, rng: Generator, progress: Progress | None
) -> LayerRecovery:
    begun = time.perf_counter()
    layer, certificate, top = layer_by_lines(oracle, method, width, rng=rng, progress=progress)
    return LayerRecovery(layer, certificate, top, method, time.perf_counter() - begun, oracle.spent, dict(oracle.queries))


def _fall_back_to_lines(
    oracle: Oracle, width: int | None, refusal: AssumptionViolated, *, rng: Generator | int, progress: Any
) -> LayerRecovery:
    """Lines, where units are not rarely active; raises the first refusal if lines cannot read the layer either."""
    if oracle.box is not None:
        raise refusal
    try:
        return recover_layer(oracle, Lines(depth=None), width, rng=rng, progress=progress)
    except (AssumptionViolated, NotSeparated):
        raise refusal from None


def _require_oracle(source: Source) -> Oracle:
    if not isinstance(source, Oracle):
        raise InvalidInput(
            f"The source is a {type(source).__name__}.", "Lines ask at points of their choice.",
            "Give Oracle(f, dim=...), or HighThreshold() for samples.")
    return source


def _check_arguments(method: HighThreshold | Lines, width: int | None) -> None:
    """Refuse what is no method for layers, and no width."""
    if not isinstance(method, HighThreshold | Lines):
        raise InvalidInput(
            f"The method is {show_value(method)}.", "Only HighThreshold and Lines find the lowest layer alone.",
            "Give HighThreshold(activation=...) or Lines(depth=None), or use recover() for a whole network.")
    if width is not None:
        check_whole("width", width)


def _fit_top(found: LayerFinding, layer: Layer, rows: SplitSources, method: HighThreshold) -> Top | None:
    """What lies above the finding; `layer` is its layer on the inputs of `rows`: used ones, fresh ones."""
    if method.top is None:
        return None
    function: Callable[[Array], Array] = method.top.fit(rows.first, layer) if found.top is None else found.top
    return Top(function, held_out_r2(rows.second, layer, function))


def _certify(found: LayerFinding, top: Top | None) -> Certificate:
    """The claims of the route and, without noise, whether the top explains the outputs."""
    claims = found.claims if top is None or found.noise else (*found.claims, top_claim(top.r2))
    errors = StandardErrors(found.errors[:, :-1], found.errors[:, -1], np.full(found.layer.width, np.nan), np.asarray(np.nan))
    return Certificate(claims, errors, found.noise)


FROM_LABELS = HighThreshold(activation=step, baseline=0.0, top=None)


@dataclass(frozen=True, eq=False)
class HalfSpaceUnion:
    """x is positive if w_i·x > t_i for some i: `weights` (k, d) of length 1, `thresholds` (k,), and the certificate."""

    weights: Array
    thresholds: Array
    certificate: Certificate

    def decision(self, x: Array) -> Array:
        """max_i (w_i·x - t_i), (n,): the distance to the nearest boundary from inside one half-space, negative outside all."""
        return np.asarray(HalfSpaces(self.weights, self.thresholds).margins(np.asarray(x, dtype=float)).max(axis=1))

    def predict(self, x: Array) -> Array:
        """Labels 0 and 1, (n,)."""
        return (self.decision(x) > 0).astype(int)

    def score(self, x: Array, labels: Array) -> float:
        """Share of rows with the right label."""
        return float(np.mean(self.predict(x) == np.asarray(labels)))


def learn_union(
    x: Array, labels: Array, width: int | None = None, *, method: HighThreshold | None = None, rng: Generator | int = 0,
) -> HalfSpaceUnion:
    """Half-spaces whose union holds the rows of x (n, dim) with the label 1 and none with the label 0.

    Parameters
    ----------
    x : array (n, dim), standard normal up to an affine map
    labels : array (n,) of zeros and ones (or bools); the theory, and the start, have fewer than half of them ones
    width : int, optional
        Number of half-spaces; counted if not given.
    method : HighThreshold, optional
        By default HighThreshold(activation=step, baseline=0.0, top=None): the label 0 is outside.
    rng : Generator or int

    `lb.UnionOfHalfSpaces` is the same as a classifier of scikit-learn.
    """
    y = np.asarray(labels)
    if y.ndim != 1 or not np.isin(y, (0, 1)).all():
        raise InvalidInput(
            f"The labels have shape {y.shape} and {len(np.unique(y))} different values.", "A row is inside the union or outside.",
            "Give one label for each row, 0 or 1.")
    found = recover_layer(Samples(x, y.astype(float)), FROM_LABELS if method is None else method, width, rng=rng)
    return HalfSpaceUnion(found.layer.weights, found.thresholds, found.certificate)
