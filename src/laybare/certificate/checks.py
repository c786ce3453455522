"""The checks behind a certificate: what can be known about a recovered network without knowing the truth.

Test loss alone does not reveal wrong parameters: over-wide fits with wrong units reach a relative error of 1e-8. So a
certificate asks for more: more equations than unknowns, a residual on samples never used before that is no larger than on the
used ones, nothing left in it that features of the inputs explain, no unit too many or too few, units that can be told apart,
every unit bent on the samples, every number known to a quarter of itself, a minimum reached, and enough samples for the noise
that a unit of some size could not hide in it. `docs/certificate.md` has the rules in one table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from laybare.certificate.bending import bends
from laybare.certificate.claims import Certificate, Claim
from laybare.certificate.drift import steady
from laybare.certificate.fitted import State, state_of
from laybare.certificate.held_out import HeldOutErrors, held_out_errors
from laybare.certificate.missing import one_more
from laybare.certificate.reasons import NOTHING, likely_reason
from laybare.certificate.rivals import other_activations
from laybare.certificate.spread import AWAY, Informed, Spread, inform, informing_gram, spread_of
from laybare.certificate.starts import believed
from laybare.certificate.structure import nothing_left, what_is_left
from laybare.certificate.width import one_fewer
from laybare.certificate.worth import CLEAR, price_of_a_unit
from laybare.networks import Network
from laybare.refinement.problem import LOOKED_AT, Problem
from laybare.shapes import Array, Progress
from laybare.source.rounding import representation

ENOUGH = 1.2
"""Equations per unknown: a sixth of the equations is left to check the fit."""

ENOUGH_WITH_NOISE = 6.0
"""Equations per unknown where something is left over that may be noise or not."""

PARALLEL = 0.999
"""|cosine| of two extended rows (w, b) on white inputs beyond which they are hard to tell apart."""

LOOSE, LOOSE_BESIDE, BESIDE = 0.25, 0.125, 0.98
"""Largest relative standard error of a row or readout: four standard errors from zero, as everywhere here. Beyond it a linear
theory of errors says little. Half of that where two units are so nearly parallel, by their |cosine|: these trade weight along a
curve, not a line. (One such network had been verified with readouts 6.5 standard errors off.)"""

ELSEWHERE = 4.0
"""Standard errors by which a refit that fits as well may end elsewhere. Right networks of plain noisy data ended up to 3.1 away,
wrong ones that nothing else had caught 5.3 to 8.3."""

HIDDEN = 0.07
"""Share of the standard deviation of y that a further unit must not exceed unseen: half a per cent of the variance."""

TIED, MOVES, NEAR, LEVEL = 2, 0.25, 0.1, 0.8
"""Labels that may tie; more may if the outputs there differ by less than so many standard deviations of the noise, and if of all
rows within a tenth of that at least such a share ties."""


def certify(
    network: Network, problem: Problem, *, rng: Generator, extra: tuple[Claim, ...] = (), progress: Progress | None = None,
) -> Certificate:
    """Certificate of `network`, fitted to the used rows of `problem`, with its fresh rows that nothing has seen.

    About eight passes; if there is noise, also the refits of one unit more and one fewer (`width`), each up to 40 steps.
    """
    state = state_of(network, problem, progress)
    other, probes = what_is_left(state, rng)
    gram = informing_gram(state)
    informed = inform(state, gram) if state.some is state.view else None  # a missing unit is then looked for with that matrix
    more, (spread, held_out, fewer) = state.at_once(
        partial(one_more, state, probes, gram if informed is None else informed.gram),
        partial(_spread_and_rest, state, informed, gram, rng))
    (fresh, bound), left = held_out.claims(state), nothing_left(other)
    claims = [
        _enough_samples(state),
        fresh,
        bound,
        left,
        *other_activations(state, other, more),
        more,
        fewer,
        _nothing_hides(state),
        _separated(state),
        *bends(state),
        _not_clipped(state),
        *_determined(state, spread),
        _at_minimum(spread),
        *(() if state.exact else (_alone_nearby(spread),)),
        *(() if problem.repeats is None else (steady(problem.repeats),)),
    ]
    noise = float(np.sqrt(state.noise))
    found = Certificate(
        (*claims, *believed(extra, fewer, fresh, left)), spread.errors, noise, state.explained, _visible(state), held_out.fresh,
        held_out.fresh_error)
    unexplained = found.verdict == "doubtful" and state.explained < NOTHING
    if not unexplained and found.verdict != "refuted":
        return found
    return replace(found, reason=likely_reason(state, other.name, missing=more.decisive))


def _spread_and_rest(
    state: State, informed: Informed | None, gram: Array | None, rng: Generator
) -> tuple[Spread, HeldOutErrors, Claim]:
    informed = inform(state, gram) if informed is None else informed
    return spread_of(state, informed, rng=rng), held_out_errors(state), one_fewer(state)


def _enough_samples(state: State) -> Claim:
    """Equations at different inputs: a second label for the same input says more about the noise, not about the function."""
    equations = min(state.problem.distinct, state.view.size) * state.view.outputs
    ratio, need = equations / state.unknowns, ENOUGH if state.exact else ENOUGH_WITH_NOISE
    return Claim(
        "equations per unknown", ratio, need, ratio >= need, "proved",
        f"{equations:,} numbers at different inputs were fitted with {state.unknowns:,} free ones; below {need} a fit proves "
        "little, at 1 nothing; with noise it takes more, since other functions fit noisy samples as well.")


def _visible(state: State) -> float:
    """The smallest unit that would have been seen, by the standard deviation of what it adds, as a share of that of y."""
    seen = CLEAR * price_of_a_unit(state) * state.noise / state.equations
    return float(np.sqrt((state.floor if state.exact else max(seen, state.floor)) / state.variance))


def _nothing_hides(state: State) -> Claim:
    """Power: a network is not verified by samples that could not have shown a wrong one."""
    value = _visible(state)
    return Claim(
        "smallest unit that would have been seen", value, HIDDEN, value <= HIDDEN, "proved",
        f"a further unit that adds less than {value:.1e} of the standard deviation of y, beyond what the others can make up for, "
        "would not show at this noise and number of samples; more samples make it smaller.")


def _not_clipped(state: State) -> Claim:
    """Labels that tie at the largest or smallest: noise leaves no ties, clipping does.

    Unless the network is level there and all its labels tie. At zero that is noise in proportion to y; elsewhere it may be noise
    that stops where the network is level, or noisy labels that were cut off there, which move the offset: who knows. Labels with
    few decimals tie by themselves. Looks at the first few thousand rows.
    """
    x, y = state.view.read(0, min(state.view.size, LOOKED_AT))
    cut, level = 0, 0
    if not state.exact and not representation(y).absolute:
        outputs = np.asarray(state.white(x)).reshape(y.shape)
        for label, output in zip(y.T, outputs.T, strict=True):
            for end in (label.max(), label.min()):
                tied, width = label == end, MOVES * float(np.sqrt(state.noise))
                near = np.abs(output - np.median(output[tied])) <= NEAR * width
                share = float(tied[near].sum()) / max(1, int(near.sum()))
                count = int(tied.sum())
                if float(np.std(output[tied])) > width or share < LEVEL:
                    cut = max(cut, count)
                elif end != 0.0:
                    level = max(level, count)
    ties = max(cut, level)
    return Claim(
        "labels tied at their largest or smallest", float(ties), TIED, ties <= TIED, "tested",
        "rows with exactly the largest (or smallest) label although there is noise, which leaves no ties but at zero; clipped "
        "labels are no network's. Refuted if the network varies there.", decisive=cut > TIED)


def _at_minimum(spread: Spread) -> Claim:
    return Claim(
        "distance to the minimum in standard errors", spread.away, AWAY, spread.away <= AWAY, "tested",
        "how far the next step of the solver would move any number, in its own standard errors; standard errors hold at the "
        "minimum of the squared error, and a literal form need not be there.")


def _alone_nearby(spread: Spread) -> Claim:
    """Whether refits from nearby come back, or end where they fit as well and error bars do not reach."""
    value, tries = spread.neighbours.farthest, len(spread.neighbours.ratios)
    return Claim(
        "farthest refit that fits as well", value, ELSEWHERE, value <= ELSEWHERE, "tested" if tries else "assumed",
        f"{tries} refits began three standard errors away; how far from the network, in standard errors of any number, those "
        "ended that fit as well. The error bars include them." if tries else
        "other minima nearby were not looked for: there are many rows for each number, so that the error is smooth, or too many "
        "numbers, or too little is known about them.")


def _closest(state: State) -> float:
    """Largest |cosine| of two extended rows."""
    rows = state.point.units / np.maximum(np.linalg.norm(state.point.units, axis=1), 1e-300)[:, None]
    cosines = np.abs(rows @ rows.T) - 2.0 * np.eye(len(rows))
    return max(0.0, float(cosines.max(initial=0.0)))


def _separated(state: State) -> Claim:
    value = _closest(state)
    return Claim(
        "largest cosine of two units", value, PARALLEL, value < PARALLEL, "proved",
        "two units with nearly the same row (w, b) can trade weight without changing the fit.")


def _determined(state: State, spread: Spread) -> tuple[Claim, Claim]:
    """Whether the samples fix every number of the network, at least near where it is, and how well at this noise."""
    loosest = LOOSE if _closest(state) < BESIDE else LOOSE_BESIDE
    parts = np.concatenate([np.ravel(part) for part in spread.errors])
    loose, known = int(np.isinf(parts).sum()), not np.isnan(parts).any()
    text = "that could change without any change at the samples; their standard errors are infinite."
    kind = "proved" if known else "assumed"
    return (
        Claim(
            "numbers that the samples leave open", float(loose), 0.0, loose == 0, kind,
            f"weights, biases and readouts {text}" if known else "too many parameters to look for numbers " + text),
        Claim(
            "largest relative standard error of a unit", spread.loosest, loosest, not spread.loosest > loosest, kind,
            f"of the row or the readout of unit {spread.unit}, on columns of variance one; where it is large, other networks fit "
            "as well, and error bars are no guide to them."))
