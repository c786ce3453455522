"""Gauss-Newton on all answers so far, each weighted by its own rounding.

All answers are equations in the parameters of the model,

    f(x) = c + v·(x - p) + Σᵢ aᵢ relu(zᵢ),      zᵢ = nᵢ·(x - p) - hᵢ,

which is so near that it gives the active units of every answer. Rows of the Jacobian: aᵢ (x - p) and -aᵢ for active units,
relu(zᵢ) for the readouts, (x - p) and 1; a unit's length is fixed (nᵢ·δnᵢ = 0). The inverse of the normal matrix gives the error
bars, and these the number of fresh random queries for the wanted precision: steps of a gradient are short, and answers at
random points tie them to the size of the whole function.

The normal equations are scaled by columns and solved for corrections only, so that their own rounding does not matter.
Cost n p² for p = width (dim + 1 + outputs) + (dim + 1) outputs parameters; not done for more than FIT.max_parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from laybare.lines.partial_network import PartialNetwork
from laybare.lines.query import Answers, Purpose, QueryContext
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Numbers of the fits to all answers, of units measured again, and of the check by fresh answers.

    Lengths are in units of the inputs' scale; rms and residuals are in standard deviations.
    """

    max_parameters: int = 2600  # of a dense fit of one layer. Derived: 54 MB.
    max_steps: int = 15  # Gauss-Newton; float64 answers need one. Checked by `pytest tests/lines/test_read_network.py`.
    converged_rms: float = 2.0  # at which a fit ends. Checked by `pytest tests/lines/test_read_network.py`.
    outlier_sds: float = 30.0  # larger residuals are weighted down. Checked by `pytest tests/lines/test_read_network.py`.
    prior_sds: float = 10.0
    """Of earlier error bars: moves of undetermined parameters. Checked by `pytest tests/lines/test_primitives.py`."""
    first_batch: float = 0.06  # fresh queries per parameter. Checked by `laybare reproduce lines`.
    coarse_batch_growth: int = 2  # with coarse answers. Checked by `pytest -m slow tests/lines/test_acceptance.py`.
    precision_sds: float = 3.0  # error bars within the wanted precision. Checked by `pytest tests/lines/test_read_network.py`.
    min_degrees_of_freedom: int = 20  # for error bars from residuals. Checked by `pytest tests/lines/test_read_network.py`.
    sd_allowance: float = 2.0  # safety factor of these error bars. Checked by `pytest tests/lines/test_read_network.py`.
    min_sd_share: float = 0.01
    """Answers may be exact by chance, e.g. all zero. Checked by `pytest tests/lines/test_read_network.py`."""
    max_rms: float = 10.0
    """Of a plausible model; a wrong unit leaves thousands. Checked by `pytest tests/lines/test_read_network.py`."""
    contradiction_sds: float = 30.0
    """A larger residual of a fresh answer: a unit is missing. Checked by `laybare reproduce lines`."""
    clearance: float = 1.0
    """From hyperplanes, of points where units are measured again. Checked by `pytest tests/lines/test_primitives.py`."""
    step_share: float = 0.5  # of the way to the nearest hyperplane. Checked by `pytest tests/lines/test_primitives.py`.
    max_condition: float = 100.0  # of the normals; else points are far away. Checked by `pytest tests/lines/test_primitives.py`.
    max_change_sds: float = 50.0  # of a unit measured again. Checked by `pytest tests/lines/test_primitives.py`.
    base_points: int = 5  # with half of the lowest layer active. Checked by `pytest tests/lines/test_last_layers.py`.
    base_rounds: int = 3  # sets of base points. Checked by `pytest tests/lines/test_deep_fit.py`.
    poor_ratio: float = 10.0  # sds above this many medians are measured again. Checked by `pytest tests/lines/test_deep_fit.py`.
    max_distance: float = 4.0  # of steps and activations. Checked by `pytest tests/lines/test_last_layers.py`.
    deep_step_share: float = 0.4  # of the way to the nearest known kink. Checked by `pytest tests/lines/test_last_layers.py`.
    max_row_change: float = 1e-4  # of a row measured again. Checked by `pytest tests/lines/test_last_layers.py`.
    second_layer_offset: float = 0.25
    """From its hyperplane, share of the free distance. Checked by `laybare reproduce deep-large`."""
    max_deep_parameters: int = 4500  # of a dense fit of all layers. Derived: 160 MB.
    max_parameters_with_errors: int = 1500  # else one step without error bars. Checked by `laybare reproduce deep`.
    max_deep_steps: int = 3  # Gauss-Newton. Checked by `pytest tests/lines/test_deep.py`.
    damping: float = 1e-14  # of the scaled normal matrix. Derived: about 50 roundings of its unit diagonal.
    untold: float = 1e-12
    """Part of a column of the scaled normal matrix beyond all others, below which no answer tells its parameter. Derived: some
    thousand roundings of its unit diagonal."""
    untold_share: float = 1e-4
    """Of the largest weight in a change that no answer shows: the others take part. Derived: between the rounding of such a
    change, 1e-16 over the root of `untold`, and a weight that matters, 1e-3."""
    max_cg_iterations: int = 300  # of the matrix-free step. Checked by `laybare reproduce deep-large`.
    cg_tol: float = 1e-9  # relative residual. Checked by `laybare reproduce deep-large`.
    min_eigenvalue: float = 1e-12  # relative; combinations below it stay. Checked by `pytest tests/lines/test_deep_fit.py`.
    fresh_answers: int = 800  # that a deep network must predict. Derived: a unit active on 1 % of inputs is met 8 times.
    fresh_per_parameter: float = 1.3  # answers for the fit. Checked by `laybare reproduce deep`.
    max_multiplications: float = 3e10  # of the fit. Derived: about ten seconds at 3 GFLOPS.
    max_answer_distance: float = 3e3  # of answers in the fit. Checked by `laybare reproduce deep`.
    deep_prior_sds: float = 100.0  # as prior_sds, in sds of the lines. Checked by `laybare reproduce deep`.
    allowed_error_bars: float = 1e3  # in residuals of fresh answers. Checked by `laybare reproduce deep-cases`.
    max_error_roundings: float = 1e7  # of the error bar used there. Checked by `laybare reproduce deep-cases`.
    max_used_error: float = 1e-5  # the same, whatever the rounding. Checked by `laybare reproduce deep-cases`.
    max_aside: float = 0.5  # share of a random point in points aimed at a unit. Checked by `laybare reproduce deep-cases`.
    max_extra_points: int = 20  # aimed points beyond one per feature. Checked by `laybare reproduce deep-cases`.
    max_targets: int = 3  # contradicting inputs that lines go through. Checked by `laybare reproduce deep-cases`.


FIT = FitOptions()


@dataclass(frozen=True, eq=False)
class FitResult:
    """The model after the fit, its root mean square residual, and fresh points (n, dim) that contradict it.

    The fit has stopped before points that contradict.
    """

    model: PartialNetwork
    rms: float
    contradictions: Array

    @property
    def plausible(self) -> bool:
        """Whether the answers agree with the model."""
        return not self.rms > FIT.max_rms


def parameter_count(model: PartialNetwork) -> int:
    """Parameters of the model, with one for each unit's length."""
    dim, outputs = model.gradient.shape
    return int(len(model.units) * (dim + 1 + outputs) + (dim + 1) * outputs)


def unit_error_bars(model: PartialNetwork) -> Array:
    """For every unit the largest standard deviation of its normal (as a vector), its distance, its relative readout."""
    units = model.units
    size = np.maximum(np.abs(units.readouts).max(axis=1, initial=0.0), 1e-300)
    normals = np.sqrt(units.normals.shape[1]) * units.normal_sd
    return np.asarray(np.max([normals, units.distance_sd / (1.0 + units.distances), units.readout_sd / size], axis=0))


def largest_error_bar(model: PartialNetwork) -> float:
    """The largest error bar of a unit; that of the gradient without units."""
    return float(unit_error_bars(model).max()) if len(model.units) else model.gradient_sd


def fit_to_answers(
    context: QueryContext, model: PartialNetwork, *, precision: float, fresh_share: float = 1.2, spread: float = 1.0,
    reserve: int = 0,
) -> FitResult:
    """Fit the model to all answers; ask fresh points until its error bars are below `precision`, or the share is used up.

    `reserve` queries of the budget are left for others.
    """
    p, (queries, rounding, _) = parameter_count(model), context
    if p > FIT.max_parameters or not len(model.units):
        return FitResult(model, np.nan, np.empty((0, len(model.point))))
    asked, most = 0, int(fresh_share * p)
    fitted = _fit_stored(context, model)
    while FIT.precision_sds * largest_error_bar(fitted.model) > precision and asked < most and fitted.plausible:
        growth = asked // 2 if rounding.fine else FIT.coarse_batch_growth * asked
        batch = min(max(8, int(FIT.first_batch * p), growth), most - asked)
        if queries.left is not None:
            batch = min(batch, queries.left - reserve)
        if batch < 1:
            break
        fresh = _ask_near_uncertain_units(context, fitted.model, batch, 2.0 * spread)
        asked += batch
        contradictions = contradicting_points(fresh, fitted.model, rounding)
        if len(contradictions):
            return replace(fitted, contradictions=contradictions)
        fitted = _fit_stored(context, fitted.model)
    return fitted


def ask_random_points(context: QueryContext, dim: int, count: int, spread: float, purpose: Purpose) -> Answers:
    """Answers at Gaussian points, or at uniform ones in the box."""
    box, rng = context.queries.box, context.rng
    x = spread * rng.standard_normal((count, dim)) if box is None else box.low + (box.high - box.low) * rng.random((count, dim))
    return context.queries.ask_where_usable(x, purpose)


def _ask_near_uncertain_units(context: QueryContext, model: PartialNetwork, count: int, spread: float) -> Answers:
    """Fresh points: half of them random, half around units, chosen in proportion to their error bars."""
    units, (queries, _, rng) = model.units, context
    if queries.box is not None:
        return ask_random_points(context, len(model.point), count, spread, "polish")
    bars = unit_error_bars(model)
    worst = rng.choice(len(units), size=count // 2, p=bars / bars.sum())
    away = spread * rng.standard_normal((count, len(model.point)))
    reach = units.distances[worst] + 1.0
    feet = model.point + units.normals[worst] * units.distances[worst, None]
    x = np.vstack([feet + away[: count // 2] * reach[:, None], away[count // 2 :]])
    return queries.ask_where_usable(x, "polish")


def contradicting_points(fresh: Answers, model: PartialNetwork, rounding: Rounding) -> Array:
    """The points (n, dim) whose answers the model does not predict."""
    return np.asarray(fresh.x[standardised_residuals(fresh, model, rounding) > FIT.contradiction_sds])


def stored_contradictions(context: QueryContext, model: PartialNetwork) -> Array:
    """Points (n, dim) of stored answers that the model does not predict: the worst of every block, the worst block first."""
    worst = []
    for block in context.queries.answers():
        off = standardised_residuals(block, model, context.rounding)
        if len(off) and off.max() > FIT.contradiction_sds:
            worst.append((float(off.max()), block.x[int(np.argmax(off))]))
    return np.array([x for _, x in sorted(worst, key=lambda entry: -entry[0])]).reshape(-1, len(model.point))


def standardised_residuals(fresh: Answers, model: PartialNetwork, rounding: Rounding) -> Array:
    """Differences of answers and predictions, (n,), in standard deviations of the two together."""
    sd = np.hypot(rounding.sd(fresh.x, fresh.y), model.sd(fresh.x))
    return np.asarray(np.abs(fresh.y - model(fresh.x)).max(axis=1) / sd)


def _fit_stored(context: QueryContext, model: PartialNetwork) -> FitResult:
    """Gauss-Newton on all stored answers. Coarse answers may put points on the wrong side of a kink at first."""
    blocks = list(context.queries.answers())
    x, y = np.vstack([block.x for block in blocks]), np.vstack([block.y for block in blocks])
    weight = 1.0 / context.rounding.sd(x, y)
    rms, prior = _rms(model, x, y, weight), _parameter_sds(model)
    for _ in range(FIT.max_steps):
        moved = _step(model, x, y, _downweight_outliers(model, x, y, weight), prior)
        now, before = _rms(moved, x, y, weight), rms
        if now <= 1.5 * rms:
            model, rms = _rescale_errors(moved, now, y.size), now
        if now < FIT.converged_rms or now > 0.95 * before:
            break
    return FitResult(model, rms, np.empty((0, x.shape[1])))


def _downweight_outliers(model: PartialNetwork, x: Array, y: Array, weight: Array) -> Array:
    """Less weight for large residuals: a point on the wrong side of a kink carries no information."""
    off = np.abs(y - model(x)).max(axis=1) * weight
    return np.asarray(weight * np.minimum(1.0, FIT.outlier_sds / np.maximum(off, 1e-300)))


def _rescale_errors(model: PartialNetwork, rms: float, answers: int) -> PartialNetwork:
    """Smaller error bars where the residuals show that rounding was overestimated."""
    free = answers - parameter_count(model) + len(model.units)
    if free < FIT.min_degrees_of_freedom:
        return model
    share = np.clip(FIT.sd_allowance * rms * float(np.sqrt(answers / free)), FIT.min_sd_share, 1.0)
    units = model.units
    smaller = replace(
        units, normal_sd=share * units.normal_sd, distance_sd=share * units.distance_sd, readout_sd=share * units.readout_sd)
    return replace(model, units=smaller, gradient_sd=share * model.gradient_sd)


def _rms(model: PartialNetwork, x: Array, y: Array, weight: Array) -> float:
    """Root mean square residual, in standard deviations."""
    off = np.abs(y - model(x)) * weight[:, None]
    return float(np.sqrt(np.mean(off**2)))


def _parameter_sds(model: PartialNetwork) -> Array:
    """Standard deviations in the order of the parameters, (p,)."""
    units, (dim, outputs) = model.units, model.gradient.shape
    parts = [np.repeat(units.normal_sd, dim), units.distance_sd, np.tile(units.readout_sd, outputs)]
    return np.concatenate([*parts, np.full(outputs * (dim + 1), model.gradient_sd)])


def _step(model: PartialNetwork, x: Array, y: Array, weight: Array, prior: Array) -> PartialNetwork:
    """One Gauss-Newton step, with new error bars."""
    A, b = _normal_equations(model, x, y, weight)
    A[np.diag_indices(len(A))] += 1.0 / np.maximum(FIT.prior_sds * prior, 1e-140) ** 2
    _fix_lengths(A, model.units.normals)
    scale = 1.0 / np.sqrt(np.diag(A))
    A *= scale[:, None]
    A *= scale
    factor = cholesky_with_jitter(A)
    delta = scale * scipy.linalg.cho_solve((factor, True), scale * b, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return _apply_step(model, delta, scale * np.sqrt(np.maximum(np.diag(inverse), 0.0)))


def cholesky_with_jitter(A: Array) -> Array:
    """Lower Cholesky factor of a matrix with unit diagonal; the diagonal grows where rounding has made it indefinite."""
    more = 1e-15
    while True:
        A[np.diag_indices(len(A))] += more
        try:
            return np.asarray(scipy.linalg.cho_factor(A, lower=True, check_finite=False)[0])
        except np.linalg.LinAlgError:
            more *= 10.0


def _normal_equations(model: PartialNetwork, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    rest = (y - model(x)).T * weight
    p = parameter_count(model)
    A, b = np.zeros((p, p)), np.zeros(p)
    for o in range(len(rest)):
        J = _jacobian(model, x, o)
        J *= weight[:, None]
        A += J.T @ J
        b += J.T @ rest[o]
    return A, b


def _fix_lengths(A: Array, normals: Array) -> None:
    """Weight on nᵢ·δnᵢ, the direction that changes nothing: a unit's length against its readout."""
    k, dim = normals.shape
    diagonal = np.diag(A)
    for i in range(k):
        part = slice(i * dim, (i + 1) * dim)
        A[part, part] += float(diagonal[part].max()) * np.outer(normals[i], normals[i])


def _jacobian(model: PartialNetwork, x: Array, output: int) -> Array:
    """(n, p) of one output: normals, distances, readouts, gradient, value."""
    units, away = model.units, x - model.point
    n, dim = x.shape
    k, outputs = units.readouts.shape
    z = away @ units.normals.T - units.distances
    J = np.zeros((n, parameter_count(model)))
    slope = (z > 0.0) * units.readouts[:, output]
    np.multiply(slope[:, :, None], away[:, None, :], out=J[:, : k * dim].reshape(n, k, dim))
    at = k * (dim + 1)
    J[:, k * dim : at] = -1.0 * slope
    J[:, at + output * k : at + (output + 1) * k] = np.maximum(z, 0.0)
    tail = at + outputs * k + output * (dim + 1)
    J[:, tail : tail + dim] = away
    J[:, tail + dim] = 1.0
    return J


def _apply_step(model: PartialNetwork, delta: Array, sd: Array) -> PartialNetwork:
    units = model.units
    k, dim = units.normals.shape
    outputs = units.readouts.shape[1]
    cuts = np.cumsum([k * dim, k, k * outputs])
    normals, distances, readouts, tail = np.split(delta, cuts)
    normal_sd, distance_sd, readout_sd, tail_sd = np.split(sd, cuts)
    rows = units.normals + normals.reshape(k, dim)
    lengths = np.linalg.norm(rows, axis=1)
    fresh = replace(
        units, normals=rows / lengths[:, None], distances=(units.distances + distances) / lengths,
        readouts=(units.readouts + readouts.reshape(outputs, k).T) * lengths[:, None],
        normal_sd=normal_sd.reshape(k, dim).max(axis=1, initial=0.0), distance_sd=distance_sd,
        readout_sd=readout_sd.reshape(outputs, k).max(axis=0))
    affine = tail.reshape(outputs, dim + 1)
    return replace(
        model, units=fresh, gradient=model.gradient + affine[:, :-1].T, value=model.value + affine[:, -1],
        gradient_sd=float(tail_sd.reshape(outputs, dim + 1)[:, :-1].max()))
