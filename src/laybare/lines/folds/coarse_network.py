"""From two layers that were read from coarse answers to a network: readout, joint fit, fresh answers.

    f = A relu(z_2) + B h_1 + c          B = 0 once the second layer is oriented

The fit begins at inputs at which all rows are known well, which takes no query to find out; the joint fit to answers all over the
domain then tells the weights that no surface has told, and takes all of them to the rounding. Answers that are not predicted show
that a unit is missing, and lines go there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.errors import BudgetExhausted
from laybare.lines.deep_fit import DeepFit, DeepParameters, fit_all_layers, weight_errors
from laybare.lines.folds.coarse_reader import Bits, CoarseReader, Rows, SecondLayer, assemble, orient
from laybare.lines.folds.coarse_surface import CoarseOptions
from laybare.lines.folds.given import GivenLayer
from laybare.lines.folds.reader import FoldsResult, LayerReport
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.fresh_check import CheckResult, NetworkChecker
from laybare.lines.model_fit import FIT
from laybare.lines.query import Answers, QueryContext
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Samples, Unknown


def read_coarse(
    context: QueryContext, given: GivenLayer, errors: Array, *, scale: float = 1.0, options: CoarseOptions = CoarseOptions(),
    progress: Progress | None = None,
) -> FoldsResult:
    """What lies above a lowest layer whose hyperplanes are `given`, each known up to its error, from answers of any resolution.

    The second layer, and the whole network if it is the last.
    """
    norms = np.linalg.norm(given.weights, axis=1)
    known = KnownLayers(given.weights.shape[1], (given.weights / norms[:, None],), (given.biases / norms,))
    reader = CoarseReader(context, known, errors / norms, scale, options, progress=progress)
    reading = _Reading(reader)
    try:
        reading.read()
    except (BudgetExhausted, KeyboardInterrupt) as reason:
        reading.ended = str(reason) or "Interrupted."
    return reading.result()


class _Fitted(NamedTuple):
    """A network of two hidden layers that was fitted, and how it predicts fresh answers."""

    fit: DeepFit
    checked: CheckResult
    bits: Bits


class _Reading:
    """What is known so far, so that nothing is lost when the budget ends."""

    def __init__(self, reader: CoarseReader) -> None:
        self.reader = reader
        self.second: SecondLayer | None = None
        self.fitted: _Fitted | None = None
        self.ended = ""
        self.false = 0

    def read(self) -> None:
        reader, o = self.reader, self.reader.options
        self.false = reader.drop_false_hyperplanes()
        reader.read()
        reader.drop_units_above()
        for _ in range(o.returns):
            self.second = assemble(reader)
            found = None if self.second is None else self._finish(self.second)
            if found is None:
                return
            self.fitted = found
            targets, before = found.checked.targets, len(reader.units)
            if not len(targets) or not reader.look_at(targets) or len(reader.units) == before:
                return

    def _finish(self, second: SecondLayer) -> _Fitted | None:
        """The network if the second layer is the last: readout, orientation, joint fit, fresh answers."""
        reader, o = self.reader, self.reader.options
        known, context = second.known, reader.context
        count = o.answers_per_unknown * (sum(known.widths) + 1) + 50
        pool = reader.inputs(10 * count)
        doubt = second.value_sds(pool).max(axis=1)
        asked = context.queries.ask_where_usable(pool[np.argsort(doubt, kind="stable")[:count]], "polish")
        if len(asked.x) < sum(known.widths) + 1 + 20:
            return None
        rows = _readout(known, asked, context, second.value_sds(asked.x))
        if rows is None:
            return None
        bits = orient(rows, known.weights[1])
        turn = np.where(bits.turned, -1.0, 1.0)
        layers = (known.layers[0], (known.weights[1] * turn[:, None], known.biases[1] * turn))
        fit = self._fit(layers, asked)
        return _Fitted(fit, NetworkChecker(context, reader.scale).verify(fit), bits)

    def _fit(self, layers: tuple[tuple[Array, Array], ...], asked: Answers) -> DeepFit:
        """The readout, then all layers, to answers all over the domain and beside the surfaces."""
        reader, rounding, queries = self.reader, self.reader.context.rounding, self.reader.context.queries
        outputs = asked.y.shape[1]
        h = np.maximum(np.maximum(asked.x @ layers[0][0].T + layers[0][1], 0.0) @ layers[1][0].T + layers[1][1], 0.0)
        features = np.hstack([h, np.ones((len(h), 1))])
        solution = np.linalg.lstsq(features, asked.y, rcond=1e-10)[0]
        network = DeepParameters(layers, solution[:-1], solution[-1])
        count = int(reader.options.fit_share * network.size / outputs) + 50
        more = queries.ask_where_usable(reader.inputs(count), "polish")
        near = queries.ask_where_usable(reader.inputs_beside_units(count), "polish")
        every = Answers(np.vstack([asked.x, more.x, near.x]), np.vstack([asked.y, more.y, near.y]))
        source = Samples(every.x, every.y, Unknown())
        fit = fit_all_layers(network, source, rounding.sd, prior=reader.options.prior)
        for _ in range(reader.options.most_fits):
            further = fit_all_layers(fit.parameters, source, rounding.sd, prior=reader.options.prior)
            if not further.rms < 0.9 * fit.rms:
                break
            fit = further
        self.answers = source
        return fit

    def result(self) -> FoldsResult:
        """What is known, and what is missing in a sentence."""
        reader, queries, rounding = self.reader, self.reader.context.queries, self.reader.context.rounding
        layers, second, fitted = [Layer(reader.known.weights[0], reader.known.biases[0])], self.second, self.fitted
        network, fresh, bar, complete, failure = None, np.nan, np.nan, False, ""
        lowest = LayerReport(layers[0].width, 0, np.nan, np.inf, (), 0, self.false)
        reports = [lowest]
        if second is not None:
            layers = [Layer(w, b) for w, b in second.known.layers]
            told = float(np.sqrt(np.diagonal(second.scaled.covariances, axis1=1, axis2=2)[:, :-1]).max(axis=1).max())
            opened = tuple((int(m), int(k)) for m, k in np.argwhere(second.open(reader.options.told)))
            reports = [
                replace(lowest, orientation=float(second.bits.sds.max(initial=0.0))),
                LayerReport(layers[1].width, 0, told, np.nan, opened, reader.lines, reader.refused)]
        if fitted is not None:
            parameters, off = fitted.fit.parameters, fitted.checked.fresh
            fresh = float(off.max(initial=0.0))
            missed = len(fitted.checked.targets)
            complete = not missed
            failure = "" if complete else f"{int((off > 1.0).sum())} of {len(off)} fresh answers are not predicted: a unit is missing"
            bar = fitted.fit.error_bar
            network = _as_network(parameters)
            layers = list(network.layers)
            reports[1] = replace(reports[1], open=self._open_weights(parameters), orientation=float(fitted.bits.sds.max(initial=0.0)))
        elif second is None:
            failure = (
                f"{len(reader.units)} surfaces of units above were followed, and do not tell which side of the lowest layer's "
                "units is active")
        else:
            failure = (
                f"{len(layers[1].weights)} units of the second layer were read, and answers are not affine in them: there are "
                "units above, or some are missing")
        if not complete:
            failure += (
                f". Answers rounded as {rounding.kind} leave too few digits for more: ask the same model in float64, exported or "
                "computed with float64 numbers")
        if self.ended:
            complete, failure = False, f"{failure}. {self.ended}"
        return FoldsResult(
            network, tuple(layers), tuple(reports), complete, fresh, dict(queries.spent), rounding, failure, bool(self.ended),
            error_bar=bar, limit=1.0, assured=fitted.checked.assured if fitted is not None else FoldsResult.assured)

    def _open_weights(self, network: DeepParameters) -> tuple[tuple[int, int], ...]:
        """Weights of the second layer that neither surfaces nor answers tell."""
        if self.answers.size * self.answers.outputs < network.size:
            return ()
        return weight_errors(network, self.answers, self.reader.context.rounding.sd).open[1]


def _readout(known: KnownLayers, asked: Answers, context: QueryContext, doubt: Array) -> Rows | None:
    """A, B and c (outputs, widths + 1) with their covariances, if most answers are affine in both layers; by reweighting."""
    features = np.hstack([known.features(asked.x, 2), known.features(asked.x, 1), np.ones((len(asked.x), 1))])
    size = np.maximum(np.abs(features).max(axis=0), 1e-12)
    scaled, width = features / size, known.widths[1]
    noise = context.rounding.sd(asked.x, asked.y)
    spread = float(asked.y.std(axis=0).max())
    a = np.zeros((width, asked.y.shape[1]))
    error = np.hypot(noise, 1e-3 * spread)
    on = known.features(asked.x, 2) > 0.0
    for _ in range(30):
        weight = 1.0 / error
        solution = np.linalg.lstsq(scaled * weight[:, None], asked.y * weight[:, None], rcond=1e-10)[0]
        rest = np.abs(asked.y - scaled @ solution).max(axis=1)
        a = solution[:width] / size[:width, None]
        expected = np.sqrt(noise**2 + ((on * doubt) ** 2 @ (a**2).max(axis=1)))
        error = np.sqrt(expected * np.maximum(rest, expected))
    if np.median(rest) > 5.0 * np.median(expected) + 1e-3 * spread:
        return None
    cov = np.linalg.pinv((scaled / error[:, None]).T @ (scaled / error[:, None]), rcond=1e-14) / np.outer(size, size)
    values = (solution / size[:, None]).T
    return Rows(values, np.repeat(cov[None], len(values), axis=0))


def _as_network(found: DeepParameters) -> Network:
    layers = [Layer(w, b) for w, b in found.layers]
    if found.readout.shape[1] == 1:
        return Network(layers, found.readout[:, 0], float(found.offset[0]))
    return Network(layers, found.readout, found.offset)
