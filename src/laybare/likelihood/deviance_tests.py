"""The certificate of a fit by likelihood: the same questions as `verification`, asked by deviances and scores.

At a fit with information H = Σ w i JᵀJ and dispersion φ (`laybare.likelihood.weighted_fit`):

- one unit more or fewer: refits, judged by differences of deviance over φ against Schwarz's penalty, with N effective equations;
- structure: a feature f that the network lacks has the score s = Σ w u f⊥, f⊥ its part that no parameter can follow. Its variance
  is Σ (w u f⊥)², whatever the noise is, so that s² over it is χ² (Rao 1948). Products of inputs, the squared outputs (which test
  the link: Pregibon 1980) and random units are tried; the best of these begin the refits with one unit more;
- challengers: bets on deviances, a group of rows at a time (`group_bets`);
- rows that no group names: bets that what neighbours leave, in standard deviations, is alike (`exchangeability`);
- standard errors: H⁻¹ S H⁻¹ with S = Σ s sᵀ, s the scores of a row, its residual divided by 1 - leverage, or of a whole group of
  rows (Liang and Zeger 1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc, ndtri, stdtrit

from laybare.certificate.certificate import (
    RULES,
    Certificate,
    Claim,
    ClaimName,
    Findings,
    Resolution,
    SearchRecord,
    statement,
)
from laybare.certificate.challengers import BetTerms, challengers_claim
from laybare.certificate.error_propagation import (
    ERRORS,
    InverseInformation,
    constrained_inverse,
    propagate_covariance,
    propagate_errors,
    standardising_transform,
)
from laybare.certificate.evidence import gain_seen
from laybare.certificate.exchangeability import DEPENDENCE, Dependence, dependence_among, dependence_claims
from laybare.certificate.fitted_network import with_unit_rows
from laybare.certificate.local_minima import runs_agree_claim
from laybare.certificate.standard_errors import as_standard_errors, relative_error_claim, relative_errors, with_infinite
from laybare.likelihood.group_bets import Arena, meet_by_likelihood, wider_challenger
from laybare.likelihood.weighted_fit import (
    FeatureStatistic,
    LikelihoodSums,
    constant_point,
    deviance_at,
    dispersion,
    maximise_likelihood,
    sums_at,
)
from laybare.lines.assurance import AssuranceOptions
from laybare.networks import Network
from laybare.numerics.levels import EPS
from laybare.numerics.shapes import Array, Progress, Sums
from laybare.solver import Effort
from laybare.solver.normal import Fit, elimination_order
from laybare.solver.point import (
    FittedPoint,
    Point,
    add_units,
    keep_units,
    output_gradients,
    outputs_at,
    parameter_count,
    parameters_per_unit,
    point_of,
)
from laybare.source.losses import LikelihoodRows, labels_of
from laybare.source.problem import Problem


@dataclass(frozen=True, kw_only=True)
class LikelihoodTestOptions:
    """How much is tried."""

    random_units: int = 300  # Units whose scores are tested. Checked by `laybare reproduce hostile-samples`.
    moved_units: int = 4  # Copies of every unit, moved, among them: splits. Checked by `laybare reproduce likelihoods`.
    moved_by: float = 0.4  # Distance of these, relative to the row. Checked by `laybare reproduce likelihoods`.
    refits: int = 3  # Best of these that are refitted. Checked by `laybare reproduce likelihoods`.
    needed_unit_gain: float = 1.2  # Penalties that the least important unit gains. Checked by `laybare reproduce likelihoods`.
    products: int = 60  # Products of inputs that are tested. Checked by `laybare reproduce likelihoods`.
    interval_chance: float = 0.975  # At which intervals from few groups are as wide as Student's. Convention: those of 95 %.
    effort: Effort = Effort(max_steps=30)


TESTS = LikelihoodTestOptions()


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A network fitted by likelihood, the point of the solver on white inputs, used and fresh rows."""

    network: Network
    problem: Problem
    used: LikelihoodRows
    fresh: LikelihoodRows
    point: Point
    progress: Progress | None = None

    @cached_property
    def sums(self) -> LikelihoodSums:
        return sums_at(self.used, self.point)

    @cached_property
    def equations(self) -> float:
        return self.used.effective * self.used.outputs

    @property
    def unknowns(self) -> int:
        return parameter_count(self.point)

    @cached_property
    def scale(self) -> float:
        """Deviance of a constant."""
        return max(deviance_at(self.used, constant_point(self.used, self.point)), np.finfo(float).tiny)

    @cached_property
    def dispersion(self) -> float:
        phi = dispersion(self.used, self.sums, 1.0 - self.unknowns / self.equations)
        return float(max(phi, EPS**1.5 * self.scale / self.equations))

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return bool(self.dispersion <= EPS**1.5 * self.scale / self.equations)

    @property
    def penalty(self) -> float:
        """Schwarz's penalty of one unit."""
        return parameters_per_unit(self.point) * float(np.log(self.equations))

    @cached_property
    def inverse(self) -> InverseInformation:
        return constrained_inverse(self.sums.information.copy(), self.point)

    def gain(self, narrow: float, wide: float) -> float:
        return max(0.0, narrow - wide) / self.dispersion

    def refit(self, start: Point) -> FittedPoint:
        """Where a refit from there ends; an interrupt ends the certificate."""
        return maximise_likelihood(self.used, start, self.scale, effort=TESTS.effort, progress=self.progress)


class JudgedParts(NamedTuple):
    """Rows that were fitted, fresh rows, and the level at which challengers meet these."""

    used: LikelihoodRows
    fresh: LikelihoodRows
    assurance: AssuranceOptions = AssuranceOptions()


def certify_likelihood(
    network: Network, problem: Problem, parts: JudgedParts, *, rng: Generator, search: SearchRecord = SearchRecord(),
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a network on the given inputs that was fitted to the used rows."""
    white = problem.white(network)
    point = with_unit_rows(point_of(white, biases=True, offset=True, linear=white.linear is not None))
    fitted = LikelihoodFit(network, problem, parts.used, parts.fresh, point, progress)
    probes, structure = _score_claims(fitted, rng)
    covariance, effect = robust_covariance(fitted)
    undetermined = fitted.inverse.undetermined | ~np.isfinite(covariance).all(axis=1)
    given = with_infinite(propagate_errors(covariance, point, problem.transform).errors, undetermined)
    errors = as_standard_errors(given, network, point)
    fresh, held_out, held_out_error = _fresh_claim(fitted)
    more, wider = _more_claim(fitted, probes, effect)
    visible = _smallest_visible(fitted, gain_seen(more.threshold, parts.assurance.level) * effect)
    seen = Claim(
        ClaimName.SMALLEST_VISIBLE_UNIT, visible, parts.assurance.resolution, visible <= parts.assurance.resolution, "proved",
        f"a further unit that adds less than {visible:.1e} of the standard deviation of the network's outputs would not show "
        "in this number of rows.")
    intervals, minimum = _intervals_claim(fitted, covariance, undetermined), (_minimum_claim(fitted, covariance), *search.claims)
    if search.runs is not None:
        minimum = (*minimum, runs_agree_claim(search.runs, parts.assurance.level))
    met = meet_by_likelihood(
        Arena(point, fitted.used.loss, fitted.scale / fitted.used.effective), (parts.used, parts.fresh),
        [] if wider is None else [wider_challenger(f"a unit more ({wider.width})", wider)],
        BetTerms(parts.assurance.level_of_look(search.looks)), rng=rng)
    claims = (
        *statement(ClaimName.FUNCTION, (fresh, challengers_claim(met, parts.assurance, exact=False), structure, more, seen)),
        *statement(ClaimName.UNITS, (_equations_claim(fitted), _fewer_claim(fitted, effect), _crossing_claim(fitted))),
        *statement(ClaimName.INTERVALS, (intervals,)),
        *statement(ClaimName.MINIMUM, minimum),
        *statement(ClaimName.ROWS, dependence_claims(_dependence(fitted), nan)))
    kept = None
    if len(covariance) <= ERRORS.max_kept_parameters and not undetermined.any():
        kept = propagate_covariance(covariance, fitted.point, problem.transform)
    explained = 1.0 - float(fitted.sums.deviance) / fitted.scale
    return Certificate(
        (*claims, *search.assumptions), errors, float(np.sqrt(fitted.dispersion)), explained, visible, held_out, held_out_error,
        covariance=kept, findings=Findings(search.runs),
        resolution=Resolution(parts.assurance.level, max(one.bound for one in met), len(met), intervals.value) if met else None)


def _dependence(fitted: LikelihoodFit) -> tuple[Dependence, ...]:
    """Of rows that no group names, by Pearson's residuals: scores over their standard deviations."""
    if fitted.exact or fitted.used.groups:
        return ()
    x, columns = fitted.used.rows.read(0, min(fitted.used.size, DEPENDENCE.rows))
    labels = labels_of(columns)
    mean = fitted.used.loss.mean(outputs_at(fitted.point, x))
    variance = np.maximum(fitted.used.loss.variance(mean), np.finfo(float).tiny) / labels.weights[:, None]
    return dependence_among(x, (labels.y - mean) / np.sqrt(variance), fitted.scale / fitted.used.effective)


def _equations_claim(fitted: LikelihoodFit) -> Claim:
    ratio, need = fitted.equations / fitted.unknowns, RULES.min_equations_per_unknown_noisy
    return Claim(
        ClaimName.EQUATIONS, ratio, need, ratio >= need, "proved",
        f"{fitted.used.size:,} rows, {fitted.used.effective:,.0f} by their weights, were fitted with {fitted.unknowns:,} "
        "parameters; with few, other functions fit as well.")


def _fresh_claim(fitted: LikelihoodFit) -> tuple[Claim, float, float]:
    """Deviance of fresh rows against that of used ones, which the parameters lower by twice their number; and its share of a
    constant's with the standard error."""
    each = _row_deviances(fitted.fresh, fitted.point)
    expected = (float(fitted.sums.deviance) + 2.0 * fitted.unknowns * fitted.dispersion) / fitted.used.effective
    mean, error = float(each.mean()), float(each.std() / np.sqrt(max(1, len(each))))
    ratio, limit = mean / expected, 1.0 + RULES.sigmas * error / expected
    unit = fitted.scale / fitted.used.effective
    claim = Claim(
        ClaimName.FRESH_RESIDUAL, ratio, limit, ratio <= limit, "tested",
        f"deviance per row of {fitted.fresh.size:,} rows that were not fitted over what is expected from those that were.",
        decisive=True)
    return claim, mean / unit, error / unit


def _row_deviances(rows: LikelihoodRows, point: Point) -> Array:
    """The weighted deviance of every row, as many as are held out at most."""
    x, y = rows.rows.read(0, rows.size)
    labels = labels_of(y)
    return np.asarray(labels.weights * rows.loss.rows(outputs_at(point, x), labels.y).deviance.sum(axis=1))


@dataclass(frozen=True, eq=False)
class TestedFeatures:
    """Features of white inputs that are tested: products of two inputs, squared outputs, units."""

    point: Point
    pairs: Array
    units: Array

    def __call__(self, x: Array) -> Array:
        eta = outputs_at(self.point, x)
        hidden = self.point.activation(x @ self.units[:, :-1].T + self.units[:, -1])
        return np.hstack([x[:, self.pairs[:, 0]] * x[:, self.pairs[:, 1]], eta**2, hidden])


def _score_tests(fitted: LikelihoodFit, features: TestedFeatures) -> Array:
    """s² / var s of every feature, added over outputs: χ² with as many degrees of freedom; two passes. Groups of rows have one
    score each (Liang and Zeger 1986), so that it is at most their number less one, for each output."""
    point, loss, m, groups = fitted.point, fitted.used.loss, fitted.used.outputs, fitted.used.groups

    def followed(x: Array, y: Array) -> Sums:
        labels, F = labels_of(y), features(x)
        each = loss.rows(outputs_at(point, x), labels.y)
        J = (output_gradients(point, x, o) * (labels.weights * each.information[:, o])[:, None] for o in range(m))
        return (np.stack([one.T @ F for one in J]),)

    (cross,) = fitted.used.sum(followed, stage="certificate")
    follow = np.stack([fitted.inverse.matrix @ one for one in cross])

    def scores(x: Array, y: Array) -> Sums:
        labels, F = labels_of(y), features(x)
        each = loss.rows(outputs_at(point, x), labels.y)
        rest = np.stack([
            (F - output_gradients(point, x, o) @ follow[o]) * (labels.weights * each.score[:, o])[:, None] for o in range(m)])
        if not groups:
            return rest.sum(axis=1), (rest**2).sum(axis=1)
        of_groups = np.zeros((groups, *rest[:, 0].shape))
        np.add.at(of_groups, labels.groups, np.moveaxis(rest, 1, 0))
        return rest.sum(axis=1), of_groups

    total, squares = fitted.used.sum(scores, stage="certificate")
    squares = np.sum(squares**2, axis=0) * (groups / max(1, groups - 1)) if groups else squares
    return np.asarray(np.sum(total**2 / np.maximum(squares, np.finfo(float).tiny), axis=0))


def _score_claims(fitted: LikelihoodFit, rng: Generator) -> tuple[Array, Claim]:
    """Units with the largest scores, and the claim about structure in the residual."""
    point, d = fitted.point, fitted.used.dim
    pairs = np.column_stack(np.triu_indices(d))
    pairs = pairs[rng.permutation(len(pairs))[: TESTS.products]]
    rows = rng.standard_normal((TESTS.random_units, d + 1))
    rows /= np.linalg.norm(rows[:, :d], axis=1)[:, None]
    steep = np.linalg.norm(point.units[:, :d], axis=1).mean() if point.width else 1.0
    near = np.repeat(point.units, TESTS.moved_units, axis=0)
    near = near + TESTS.moved_by * np.linalg.norm(near, axis=1)[:, None] * rng.standard_normal(near.shape) / np.sqrt(d + 1)
    units = np.vstack([steep * rows, near])
    tests = _score_tests(fitted, TestedFeatures(point, pairs, units))
    chances = chdtrc(fitted.used.outputs, tests)
    fixed = len(tests) - len(units)
    evidence = max(0.0, -float(np.log10(np.maximum(len(tests) * chances.min(), np.finfo(float).tiny))))
    most, groups, outputs = RULES.doubting_evidence, fitted.used.groups, fitted.used.outputs
    could_fail = not groups or -np.log10(np.maximum(len(tests) * chdtrc(outputs, outputs * (groups - 1.0)), EPS)) > most
    claim = Claim(
        ClaimName.RESIDUAL_STRUCTURE, evidence, most, evidence <= most and bool(could_fail), "tested",
        f"-log10 of the chance that the largest of {len(tests)} scores (products of inputs, squared outputs, further units) is "
        "so large" + ("." if could_fail else f"; those of {groups} groups cannot exceed {groups - 1}, which says nothing."),
        decisive=evidence > RULES.refuting_evidence)
    return units[np.argsort(-tests[fixed:])[: TESTS.refits]], claim


def _more_claim(fitted: LikelihoodFit, probes: Array, design_effect: float) -> tuple[Claim, Point | None]:
    """What another unit gains, and the network with it."""
    nothing, gain, wider = np.zeros((1, fitted.used.outputs)), 0.0, None
    if len(probes) and fitted.equations > fitted.unknowns + parameters_per_unit(fitted.point):
        best = min((fitted.refit(add_units(fitted.point, row[None], nothing)) for row in probes), key=lambda fit: fit.loss)
        gain, wider = fitted.gain(float(fitted.sums.deviance), best.loss) / design_effect, best.point
    clear = RULES.clear_unit_gain * fitted.penalty
    return Claim(
        ClaimName.ONE_UNIT_MORE, gain, fitted.penalty, gain < fitted.penalty, "tested",
        "how much more likely another unit makes the used rows, against what its free parameters would gain from noise; more "
        f"than the threshold means that a unit may be missing, more than {clear:.3g} that one is.", decisive=gain >= clear), wider


def _fewer_claim(fitted: LikelihoodFit, design_effect: float) -> Claim:
    """The least loss of leaving a unit out, of those that look cheapest."""
    order = elimination_order(
        fitted.point, Fit(*fitted.used.sum(FeatureStatistic(fitted.point, fitted.used.loss), stage="certificate")))[0]
    losses = [
        fitted.refit(keep_units(fitted.point, np.delete(np.arange(fitted.point.width), unit))).loss
        for unit in order[: RULES.dropped_units]]
    gain = fitted.gain(min(losses, default=np.inf), float(fitted.sums.deviance)) / design_effect
    need = TESTS.needed_unit_gain * fitted.penalty
    return Claim(
        ClaimName.ONE_UNIT_FEWER, gain, need, gain >= need, "tested",
        "how much less likely the used rows are without the unit that is needed least.")


def _smallest_visible(fitted: LikelihoodFit, gain: float) -> float:
    """The standard deviation, over that of the outputs, of a unit that gains so much where rows say least: on the half of them
    with the least information, since a unit is active on half of the rows or so."""
    x, columns = fitted.used.rows.read(0, fitted.used.size)
    labels, eta = labels_of(columns), outputs_at(fitted.point, x)
    spread = max(float(np.var(eta, axis=0).mean()), np.finfo(float).tiny)
    told = fitted.used.loss.rows(eta, labels.y).information.sum(axis=1)
    expected = told if fitted.used.loss.linked else np.full_like(told, told.mean())  # Huber's is 0 or 1, by chance
    each = np.sort(labels.weights * expected)
    information = max(2.0 * float(each[: (len(each) + 1) // 2].sum()), np.finfo(float).tiny)
    return float(np.sqrt(gain * fitted.dispersion / information / spread))


def _crossing_claim(fitted: LikelihoodFit) -> Claim:
    units, need = fitted.point.units, RULES.noisy_kink_factor * (fitted.used.dim + 2)

    def beyond(x: Array, y: Array) -> Sums:
        return (np.count_nonzero(x @ units[:, :-1].T + units[:, -1] > 0.0, axis=0).astype(float),)

    (count,) = fitted.used.sum(beyond, stage="certificate")
    least = float(np.minimum(count, fitted.used.size - count).min(initial=np.inf))
    return Claim(
        ClaimName.KINK_CROSSED, least, float(need), least >= need, "proved",
        "rows on the thinner side of a unit's kink; on fewer a unit follows noise.")


class RobustCovariance(NamedTuple):
    """H⁻¹ S H⁻¹ on white inputs, and by how much fewer rows those in groups count: the median factor of the variances.

    Few groups say little about S. Its errors are those for which a normal interval is Student's with one degree of freedom less
    than there are groups (Bell and McCaffrey 2002); one group says nothing.
    """

    matrix: Array
    design_effect: float = 1.0


def robust_covariance(fitted: LikelihoodFit) -> RobustCovariance:
    """From the scores of rows, or of groups of rows; one pass, two with groups."""
    point, loss, inverse, m = fitted.point, fitted.used.loss, fitted.inverse.matrix, fitted.used.outputs

    def middle(x: Array, y: Array) -> Sums:
        labels = labels_of(y)
        each = loss.rows(outputs_at(point, x), labels.y)
        scores = np.zeros((len(x), point.size))
        for o in range(m):
            J = output_gradients(point, x, o)
            lever = labels.weights * each.information[:, o] * np.einsum("np,np->n", J @ inverse, J)
            scores += J * (labels.weights * each.score[:, o] / np.maximum(1.0 - lever, ERRORS.min_residual_share))[:, None]
        return (scores.T @ scores,)

    (own,) = fitted.used.sum(middle, stage="robust errors")
    alone, groups = np.asarray(inverse @ own @ inverse), fitted.used.groups
    if not groups:
        return RobustCovariance(alone)
    if groups == 1:
        return RobustCovariance(np.full_like(alone, np.inf), float(fitted.used.size))
    totals = _group_scores(fitted)
    together = np.asarray(inverse @ (totals.T @ totals) @ inverse) * ((groups - 1) / groups)
    factors = np.diag(together) / np.maximum(np.diag(alone), np.finfo(float).tiny)
    wider = stdtrit(groups - 1, TESTS.interval_chance) / ndtri(TESTS.interval_chance)
    return RobustCovariance(together * wider**2, max(1.0, float(np.median(factors))))


def _group_scores(fitted: LikelihoodFit) -> Array:
    """Of every group (groups, parameters): its score at the fit without it, to first order (Bell and McCaffrey 2002).

    A fit follows a group by its joint leverage. With J the slopes of its rows, w their information and u their scores, leaving it
    out moves the fit by H⁻¹ Jᵀ (I - w J H⁻¹ Jᵀ)⁻¹ u, or H⁻¹ (I - Jᵀ w J H⁻¹)⁻¹ Jᵀ u, whichever is smaller to solve.
    """
    point, loss, inverse, outputs = fitted.point, fitted.used.loss, fitted.inverse.matrix, fitted.used.outputs
    x, columns = fitted.used.rows.read(0, fitted.used.size)
    labels = labels_of(columns)
    each, order = loss.rows(outputs_at(point, x), labels.y), np.argsort(labels.groups, kind="stable")
    totals = np.zeros((fitted.used.groups, point.size))
    for rows in np.split(order, np.flatnonzero(np.diff(labels.groups[order])) + 1):
        J = np.concatenate([output_gradients(point, x[rows], o) for o in range(outputs)])
        information, score = (
            (labels.weights[rows, None] * part[rows]).T.ravel() for part in (each.information, each.score))
        if len(J) <= point.size:
            left = np.eye(len(J)) - information[:, None] * (J @ inverse @ J.T)
            moved = J.T @ np.linalg.lstsq(left, score, rcond=ERRORS.min_residual_share)[0]
        else:
            left = np.eye(point.size) - (J * information[:, None]).T @ J @ inverse
            moved = np.linalg.lstsq(left, J.T @ score, rcond=ERRORS.min_residual_share)[0]
        totals[labels.groups[rows[0]]] = moved
    return totals


def _intervals_claim(fitted: LikelihoodFit, covariance: Array, undetermined: Array) -> Claim:
    point, transform = fitted.point, standardising_transform(fitted.problem.transform)
    relative = relative_errors(*propagate_errors(covariance, point, transform), undetermined)
    worst = int(np.argmax(relative)) if len(relative) else 0
    return relative_error_claim(float(relative.max(initial=0.0)), worst, int(undetermined.sum()), RULES.max_relative_se)


def _minimum_claim(fitted: LikelihoodFit, covariance: Array) -> Claim:
    least = np.diag(fitted.inverse.matrix) * fitted.dispersion  # of rounding, where nothing else is left
    move, errors = fitted.inverse.matrix @ fitted.sums.gradient, np.sqrt(np.maximum(np.diag(covariance), least))
    known = np.isfinite(errors) & (errors > 0.0)
    value = float(np.max(np.abs(move[known]) / errors[known], initial=0.0))
    return Claim(
        ClaimName.DISTANCE_TO_MINIMUM, value, RULES.max_steps_to_minimum, value <= RULES.max_steps_to_minimum, "tested",
        "how far the next step of the solver would move any parameter, in its own standard errors.")
