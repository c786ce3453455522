"""The checks behind a certificate: what can be known about a recovered network without knowing the truth.

Test loss alone does not reveal wrong parameters: over-wide fits with wrong units reach a relative error of 1e-8. So a
certificate asks for more: more equations than unknowns; a residual on held-out samples no larger than on used ones, without
structure that features of the inputs explain; no unit too many or too few; kinks that samples lie around and between; every
parameter known to a quarter of itself; a minimum; and no challenger that predicts better. `docs/certificate.md`
has the rules in one table, `CertificateRules` the limits.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
from numpy.random import Generator

from laybare.certificate.certificate import RULES, Certificate, Claim, ClaimName, Findings, Resolution, SearchRecord, statement
from laybare.certificate.challengers import BetTerms, challengers_claim, fit_challengers, meet_challengers, point_challenger
from laybare.certificate.evidence import bic_penalty_per_unit, gain_seen
from laybare.certificate.exchangeability import (
    Dependence,
    HeldOutErrors,
    common_parts,
    dependence_claims,
    find_dependence,
    held_out_errors,
    unexplained_share,
)
from laybare.certificate.explanations import find_residual_structure, likely_reason, residual_structure_claim
from laybare.certificate.fitted_network import FittedNetwork, evaluate_fit
from laybare.certificate.local_minima import Ending, other_minima_claim, other_places, runs_agree_claim
from laybare.certificate.missing_unit import find_missing_unit, one_unit_more_claim
from laybare.certificate.repeatability import lack_of_fit_claim, repeat_claims
from laybare.certificate.rival_activations import are_clearly_worse, rival_activations
from laybare.certificate.standard_errors import (
    ErrorEstimate,
    Information,
    curvature_gram,
    estimate_errors,
    invert_information,
    relative_error_claim,
)
from laybare.certificate.unit_support import drop_cheapest_units, kink_claims, one_unit_fewer_claim
from laybare.lines.assurance import AssuranceOptions
from laybare.networks import Network
from laybare.numerics.shapes import Array, Progress
from laybare.source.problem import PROBLEM, Problem
from laybare.source.rounding import detect_grid


def certify(
    network: Network, problem: Problem, *, rng: Generator, search: SearchRecord = SearchRecord(),
    progress: Progress | None = None, assurance: AssuranceOptions = AssuranceOptions(),
) -> Certificate:
    """Certificate of `network`, fitted to the used rows of `problem`, with its fresh rows, at the level of `assurance`: each
    network for the same data spends a part of it.

    About eight passes; if there is noise, also the refits of one unit more and one fewer, each up to 40 steps.
    """
    fitted = evaluate_fit(network, problem, progress)
    other, probes = find_residual_structure(fitted, rng)
    gram = curvature_gram(fitted)
    information = None
    if fitted.search_rows is fitted.used:  # candidates for a missing unit are then scored with that matrix
        information = invert_information(fitted, gram)
    beside = np.random.default_rng(deepcopy(rng).integers(2**63))  # draws while others do, and leaves theirs as they are
    missing, (errors, held_out, fewer, places, dependent), families = fitted.run_parallel(
        partial(find_missing_unit, fitted, probes, gram if information is None else information.gram),
        partial(_errors_and_fresh_rows, fitted, information, gram, rng),
        partial(fit_challengers, fitted, beside))
    noise, wider = float(np.sqrt(fitted.noise_variance)), missing.point
    effect = 1.0 + (errors.design_effect - 1.0) * unexplained_share(fitted, dependent, wider)
    more, other = one_unit_more_claim(fitted, missing, effect), other.among_dependent_rows(effect)
    fresh, structure = held_out.claim, residual_structure_claim(other)
    rivals = rival_activations(fitted, other, more, effect)
    points = [point_challenger(f"a unit more ({wider.width})", wider, fitted)] if wider is not None else []
    points += [point_challenger(f"{name} units", point, fitted) for name, point in rivals.points]
    met = meet_challengers(fitted, points, families, BetTerms(assurance.level_of_look(search.looks), effect))
    basin = [_minimum_claim(errors)]
    if not fitted.exact:
        basin.append(other_minima_claim((*errors.nearby.endings, *places), errors.design_effect))
    if search.runs is not None:
        basin.append(runs_agree_claim(search.runs))
    met = (*met, *common_parts(dependent, assurance.level))
    claims = (
        *statement(ClaimName.FUNCTION, (
            fresh, challengers_claim(met, assurance, fitted.exact), structure, *rivals.claims, more, _tied_labels_claim(fitted),
            *lack_of_fit_claim(noise, problem.repeats))),
        *statement(ClaimName.UNITS, (_equations_claim(fitted), fewer, *kink_claims(fitted))),
        *statement(ClaimName.INTERVALS, (_intervals_claim(fitted, errors),)),
        *statement(ClaimName.MINIMUM, (*basin, *search.claims)),
        *statement(ClaimName.ROWS, (
            *dependence_claims(dependent, errors.inflation), *repeat_claims(problem.repeats, noise_allowed=True))))
    bound, error = max((one.bound for one in met), default=0.0), errors.largest_relative
    resolution = Resolution(assurance.level, bound, len(met), error) if met else None
    findings = Findings(
        search.runs, more.decisive, not fewer.passed, are_clearly_worse(rivals.claims), not structure.passed)
    visible = _smallest_visible_unit(fitted, more, effect, assurance.level)
    found = Certificate(
        (*claims, *search.assumptions), errors.errors, noise, fitted.explained, visible, held_out.fresh, held_out.fresh_error,
        covariance=errors.covariance, findings=findings, resolution=resolution)
    unexplained = found.verdict == "doubtful" and fitted.explained < RULES.min_explained
    if not unexplained and found.verdict != "refuted":
        return found
    return replace(found, reason=likely_reason(fitted, other.name, missing=more.decisive))


def _errors_and_fresh_rows(
    fitted: FittedNetwork, information: Information | None, gram: Array | None, rng: Generator
) -> tuple[ErrorEstimate, HeldOutErrors, Claim, tuple[Ending, ...], tuple[Dependence, ...]]:
    information, dependent = information or invert_information(fitted, gram), find_dependence(fitted)
    errors, reduced = estimate_errors(fitted, information, dependent, rng=rng), drop_cheapest_units(fitted)
    fewer = one_unit_fewer_claim(fitted, reduced[0], errors.design_effect)
    weak = not fitted.exact and fewer.passed and fewer.value < RULES.clear_unit_gain * bic_penalty_per_unit(fitted)
    places = tuple(chain.from_iterable(other_places(fitted, one.point, rng) for one in reduced if weak))
    return errors, held_out_errors(fitted), fewer, places, dependent


def _equations_claim(fitted: FittedNetwork) -> Claim:
    """Equations at different inputs: a second label for the same input says more about the noise, not about the function."""
    equations = min(fitted.problem.distinct, fitted.used.size) * fitted.used.outputs
    ratio = equations / fitted.unknowns
    exact = min(RULES.min_equations_per_unknown, 1.0 + RULES.enough_spare_equations / fitted.unknowns)
    need = exact if fitted.exact else RULES.min_equations_per_unknown_noisy
    return Claim(
        ClaimName.EQUATIONS, ratio, need, ratio >= need, "proved",
        f"{equations:,} labels at different inputs were fitted with {fitted.unknowns:,} parameters; below {need:.3g} it proves "
        "little, at 1 nothing; with noise it takes more, since other functions fit noisy samples as well.")


def _smallest_visible_unit(fitted: FittedNetwork, more: Claim, design_effect: float, level: float) -> float:
    """The smallest unit that would have been seen at this level: the standard deviation of what it adds over that of y."""
    seen = gain_seen(more.threshold, level) * design_effect * fitted.noise_variance / fitted.equations
    variance = fitted.rounding_variance if fitted.exact else max(seen, fitted.rounding_variance)
    return float(np.sqrt(variance / fitted.output_variance))


def _tied_labels_claim(fitted: FittedNetwork) -> Claim:
    """Labels that tie at the largest or smallest: noise leaves no ties, clipping does.

    Unless the network is flat there and all its labels tie. At zero that is noise in proportion to y. Elsewhere it may be noise
    that stops where the network is flat, or noisy labels that were clipped there, which move the offset: the matter is open.
    Labels with few decimals tie by themselves. Reads the first few thousand rows.
    """
    x, y = fitted.used.read(0, min(fitted.used.size, PROBLEM.grid_rows))
    cut, flat = 0, 0
    if not fitted.exact and not detect_grid(y).absolute:
        outputs = np.asarray(fitted.white(x)).reshape(y.shape)
        for label, output in zip(y.T, outputs.T, strict=True):
            for end in (label.max(), label.min()):
                tied, width = label == end, RULES.flat_spread * float(np.sqrt(fitted.noise_variance))
                near = np.abs(output - np.median(output[tied])) <= RULES.flat_radius * width
                share = float(tied[near].sum()) / max(1, int(near.sum()))
                count = int(tied.sum())
                if float(np.std(output[tied])) > width or share < RULES.min_tied_share:
                    cut = max(cut, count)
                elif end != 0.0:
                    flat = max(flat, count)
    ties, most = max(cut, flat), RULES.max_tied_labels
    return Claim(
        ClaimName.TIED_LABELS, float(ties), most, ties <= most, "tested",
        "rows with exactly the largest (or smallest) label although there is noise, which leaves no ties but at zero; clipped "
        "labels are no network's. Refuted if the network varies there.", decisive=cut > most)


def _minimum_claim(errors: ErrorEstimate) -> Claim:
    value, most = errors.steps_to_minimum, RULES.max_steps_to_minimum
    return Claim(
        ClaimName.DISTANCE_TO_MINIMUM, value, most, value <= most, "tested",
        "how far the next step of the solver would move any parameter, in its own standard errors; standard errors hold at the "
        "minimum of the squared error, and a literal form need not be there.")


def _largest_cosine(fitted: FittedNetwork) -> float:
    """Largest |cosine| of two extended rows."""
    rows = fitted.point.units / np.maximum(np.linalg.norm(fitted.point.units, axis=1), 1e-300)[:, None]
    cosines = np.abs(rows @ rows.T) - 2.0 * np.eye(len(rows))
    return max(0.0, float(cosines.max(initial=0.0)))


def _intervals_claim(fitted: FittedNetwork, errors: ErrorEstimate) -> Claim:
    """How well the samples determine every parameter at this noise; not at all where it can change without any change there."""
    parallel = _largest_cosine(fitted) >= RULES.nearly_parallel_cosine
    most = RULES.max_relative_se_parallel if parallel else RULES.max_relative_se
    parts = np.concatenate([np.ravel(part) for part in errors.errors])
    return relative_error_claim(errors.largest_relative, errors.worst_unit, int(np.isinf(parts).sum()), most)
