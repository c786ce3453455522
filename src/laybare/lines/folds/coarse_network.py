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
from laybare.lines.feature_space import Layers
from laybare.lines.folds.coarse_reader import CoarseReader, RowEstimates, SecondLayer, assemble
from laybare.lines.folds.coarse_surface import CoarseOptions
from laybare.lines.folds.facts import RowsAbove, solve_orientation
from laybare.lines.folds.given import GivenLayer
from laybare.lines.folds.reader import FoldsResult, LayerReport, network_from
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.fresh_check import CheckResult, NetworkChecker
from laybare.lines.model_fit import FIT
from laybare.lines.query import Answers, QueryContext
from laybare.networks import Layer
from laybare.numerics.shapes import Array, Progress
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
    distance: float


class _ReadOut(NamedTuple):
    """A, B and c with covariances, the answers they were fitted to, others all over the domain, and which of these are missed."""

    rows: RowEstimates
    asked: Answers
    domain: Answers
    missed: Array


class _Reading:
    """What is known so far, so that nothing is lost when the budget ends."""

    def __init__(self, reader: CoarseReader) -> None:
        self.reader = reader
        self.second: SecondLayer | None = None
        self.fitted: _Fitted | None = None
        self.ended = ""
        self.false = self.always_on = 0

    def read(self) -> None:
        reader, o = self.reader, self.reader.options
        self.false = reader.drop_false_hyperplanes()
        reader.read()
        reader.drop_units_above()
        for _ in range(o.returns):
            self.second = assemble(reader)
            read = None if self.second is None else self._read_out(self.second)
            if self.second is None or read is None:
                return
            if len(read.missed) and reader.look_between(read.domain.x, read.missed):
                continue
            if len(read.missed) > o.given_up * len(read.domain.x):
                return
            self._finish(self.second, read)
            if self.fitted is None or not len(self.fitted.checked.targets):
                return
            targets = self.fitted.checked.targets
            x = np.vstack([self.answers.read(0, self.answers.size)[0], targets])
            if not reader.look_between(x, np.arange(len(x) - len(targets), len(x))):
                return

    def _read_out(self, second: SecondLayer) -> _ReadOut | None:
        """The output as an affine function of both layers, and answers all over the domain that it does not predict."""
        reader, o, known = self.reader, self.reader.options, second.known
        queries, count = reader.context.queries, o.answers_per_unknown * (sum(known.widths) + 1) + 50
        asked = queries.ask_where_usable(self._told_inputs(second, count), "polish")
        domain = queries.ask_where_usable(reader.inputs(count), "polish")
        if len(asked.x) < sum(known.widths) + 21:
            return None
        rows = _readout(known, asked, reader.context, second.value_sds(asked.x))
        if rows is None:
            return None
        off = np.abs(domain.y - _features(known, domain.x) @ rows.values.T).max(axis=1)
        above = (rows.values[:, : known.widths[1]] ** 2).max(axis=0)
        doubt = (second.value_sds(domain.x) * (known.features(domain.x, 2) > 0.0)) ** 2 @ above
        allowed = FIT.contradiction_sds * np.hypot(reader.context.rounding.sd(*domain), np.sqrt(doubt))
        return _ReadOut(rows, asked, domain, np.flatnonzero(off > allowed + o.missed * float(domain.y.std(axis=0).max())))

    def _finish(self, second: SecondLayer, read: _ReadOut) -> None:
        """The second layer is the last: its orientation, the joint fit to answers that are predicted roughly, fresh answers."""
        layers, sds, told = self._oriented(read.rows, second)
        kept = np.setdiff1d(np.arange(len(read.domain.x)), read.missed)
        asked = Answers(*(np.vstack([one, other[kept]]) for one, other in zip(read.asked, read.domain, strict=True)))
        fit = self._fit(layers, sds, asked)
        exact = fit._replace(error_bar=0.0)  # what is fitted to that many answers predicts others to rounding, or is wrong
        checked = NetworkChecker(self.reader.context, self.reader.scale).verify(exact)
        if (checked.fresh > 1.0).sum() <= self.reader.options.given_up * len(checked.fresh):
            self.fitted = _Fitted(fit, checked, told)

    def _told_inputs(self, second: SecondLayer, count: int) -> Array:
        """Inputs all over the domain, and as many beside surfaces: of each the half at which units that are on are told best."""
        x = np.vstack([self.reader.inputs(2 * count), self.reader.inputs_beside_units(2 * count)])
        doubt = (second.value_sds(x) * (second.known.features(x, 2) > 0.0)).max(axis=1)
        best = [np.argsort(part, kind="stable")[:count] for part in np.split(doubt, 2)]
        return np.asarray(np.vstack([part[i] for part, i in zip(np.split(x, 2), best, strict=True)]))

    def _oriented(self, rows: RowEstimates, second: SecondLayer) -> tuple[Layers, Array, float]:
        """The layers with the second one oriented by the outputs, standard deviations of its rows, and the distance of the bits.

        What turned units do not explain of the part that is linear below is added as units that are always on.
        """
        o, known, (k, below) = self.reader.options, second.known, second.known.weights[1].shape
        size = np.maximum(np.abs(rows.values[:, :k]).max(axis=1, keepdims=True), 1e-300)
        values, sds = rows.values / size, np.sqrt(np.diagonal(rows.covariances, axis1=1, axis2=2)) / size
        m, error = len(values), o.sds * float(sds.max())
        told = solve_orientation(
            RowsAbove(values[:, :k], values[:, k:-1], np.ones((m, below), dtype=bool), np.zeros((m, k), dtype=bool)),
            known.weights[1], np.zeros((k, below), dtype=bool), rank_tol=1e-6, tol=max(error, o.min_bit_error))
        if told.distance > o.max_bit_distance:
            told = told._replace(turned=np.zeros(k, dtype=bool), rest=values[:, k:-1])
        turn = np.where(told.turned, -1.0, 1.0)
        weights, biases = known.weights[1] * turn[:, None], known.biases[1] * turn
        row_sds = np.sqrt(np.maximum(np.diagonal(second.scaled.covariances, axis1=1, axis2=2), self.reader.errors.min() ** 2))
        _, s, vt = np.linalg.svd(told.rest, full_matrices=False)
        rank = int((s > o.min_bit_error).sum())
        if rank:
            h = known.features(self.reader.inputs(2000), 1) @ vt[:rank].T
            weights = np.vstack([weights, vt[:rank]])
            biases = np.concatenate([biases, 30.0 * np.abs(h).max(axis=0)])
            row_sds = np.vstack([row_sds, np.ones((rank, below + 1))])
        self.always_on = rank
        return (known.layers[0], (weights, biases)), row_sds, told.distance if not rank else np.inf

    def _fit(self, layers: Layers, row_sds: Array, asked: Answers) -> DeepFit:
        """The readout, then all layers, to answers all over the domain and beside the surfaces; each parameter from its error."""
        reader, o, rounding, queries = self.reader, self.reader.options, self.reader.context.rounding, self.reader.context.queries
        outputs = asked.y.shape[1]
        h = np.maximum(np.maximum(asked.x @ layers[0][0].T + layers[0][1], 0.0) @ layers[1][0].T + layers[1][1], 0.0)
        features = np.hstack([h, np.ones((len(h), 1))])
        size = np.maximum(np.abs(features).max(axis=0), 1e-12)
        solution = np.linalg.lstsq(features / size, asked.y, rcond=1e-10)[0] / size[:, None]
        network = DeepParameters(layers, solution[:-1], solution[-1])
        top = float(np.abs(solution).max())
        prior = o.prior_sds * np.concatenate([
            np.repeat(reader.errors, layers[0][0].shape[1]), reader.errors, row_sds[:, :-1].ravel(), row_sds[:, -1],
            np.full(network.readout.size + outputs, top)])
        count = int(o.fit_share * network.size / outputs) + 50
        more = queries.ask_where_usable(np.vstack([reader.inputs(count), reader.inputs_beside_units(count)]), "polish")
        every = Answers(*(np.vstack(parts) for parts in zip(asked, more, strict=True)))
        fit = DeepFit(network, np.inf, np.nan)
        for _ in range(o.most_fits):
            off = np.abs(every.y - fit.parameters(every.x)).max(axis=1) / rounding.sd(*every)
            kept = off <= max(FIT.contradiction_sds, o.roughly * float(np.median(off)))
            self.answers = Samples(every.x[kept], every.y[kept], Unknown())
            further = fit_all_layers(fit.parameters, self.answers, rounding.sd, prior=prior)
            if further.rms > 0.9 * fit.rms:
                break
            fit = further
        return fit

    def result(self) -> FoldsResult:
        """What is known, and what is missing in a sentence."""
        reader, queries, rounding = self.reader, self.reader.context.queries, self.reader.context.rounding
        layers, fitted = [Layer(reader.known.weights[0], reader.known.biases[0])], self.fitted
        second = self.second or assemble(reader)  # asks nothing
        network, fresh, bar, complete, failure = None, np.nan, np.nan, False, ""
        lowest = LayerReport(layers[0].width, 0, np.nan, np.inf, (), 0, self.false)
        reports = [lowest]
        if second is not None:
            layers = [Layer(w, b) for w, b in second.known.layers]
            sds, untold = second.weight_sds, second.weight_sds > reader.options.told
            told = float(sds[~untold].max(initial=0.0))
            opened = tuple((int(m), int(k)) for m, k in np.argwhere(untold))
            reports = [
                replace(lowest, orientation=float(second.bits.sds.max(initial=0.0))),
                LayerReport(layers[1].width, 0, told, np.nan, opened, reader.lines, reader.refused)]
        if fitted is not None:
            parameters, off = fitted.fit.parameters, fitted.checked.fresh
            fresh = float(off.max(initial=0.0))
            missed = len(fitted.checked.targets)
            complete = not missed
            failure = "" if complete else (
                f"{int((off > 1.0).sum())} of {len(off)} fresh answers are not predicted: a unit is missing")
            bar = fitted.fit.error_bar
            network = network_from(tuple(Layer(w, b) for w, b in parameters.layers), parameters.readout, parameters.offset)
            layers = list(network.layers)
            reports[1] = replace(
                reports[1], open=self._open_weights(parameters), orientation=fitted.distance, always_on=self.always_on)
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


def _readout(known: KnownLayers, asked: Answers, context: QueryContext, doubt: Array) -> RowEstimates | None:
    """A, B and c (outputs, widths + 1) with their covariances, if most answers are affine in both layers; by reweighting."""
    features = _features(known, asked.x)
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
    weighed = scaled / error[:, None]
    cov = np.linalg.pinv(weighed.T @ weighed, rcond=1e-12, hermitian=True) / np.outer(size, size)
    values = (solution / size[:, None]).T
    return RowEstimates(values, np.repeat(cov[None], len(values), axis=0))


def _features(known: KnownLayers, x: Array) -> Array:
    """[h_2, h_1, 1] at inputs."""
    return np.hstack([known.features(x, 2), known.features(x, 1), np.ones((len(x), 1))])
