"""Step and ReLU units from samples: activity, third moments, lines or a union of half-spaces, acceptance on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.decomposition import detect_rank
from laybare.errors import TooFewSamples
from laybare.methods.high_threshold import acceptance
from laybare.methods.high_threshold.activity import Baseline, activity_of, baseline
from laybare.methods.high_threshold.found import FoundLayer, layer_of, unit_errors
from laybare.methods.high_threshold.local_lines import ON_THE_LINE, Lines, active_rows, local_lines, noisy_lines
from laybare.methods.high_threshold.profile import activity_profile, probit_edge
from laybare.methods.high_threshold.repair import Covered, repair
from laybare.methods.high_threshold.start import LayerStart
from laybare.methods.high_threshold.union_fit import Annealing, HalfSpaces, Mismatch, fit_union, mismatch
from laybare.moments import SecondMoment, measure_with_noise
from laybare.shapes import Array, Sums
from laybare.source import Source

THRESHOLDS = (0.3, 6.0)
"""Where thresholds are looked for at first."""


class Silent(NamedTuple):
    """Choices of this route."""

    activation: Activation
    start: LayerStart
    annealing: Annealing
    repairs: int
    rule: Baseline | None = None
    """The baseline, if it is known; else it is read off the data."""


def find_silent(used: Source, fresh: Source, width: int | None, choices: Silent, *, rng: Generator) -> FoundLayer:
    """The layer of units that are exactly zero below their thresholds; both sources are white."""
    rule = baseline(used) if choices.rule is None else choices.rule
    activity, fresh_activity = activity_of(used, rule), activity_of(fresh, rule)
    told = count_units(activity) if width is None else width
    _check_active(activity, told)
    spaces = first_spaces(activity, told, choices.start, rule.silent, rng=rng)
    straight = choices.activation.degree == 1
    rows = active_rows(used, rule) if straight else None
    if rows is not None and rule.exact:
        lines = local_lines(rows, rule, spaces)
        whole = mismatch(activity, lines.spaces)
        if lines.exact and whole.share <= acceptance.USED:
            return _by_lines(used, fresh, rule, lines, whole, choices.activation)
    covered = repair(
        activity, fit_union(activity, spaces, choices.annealing), choices.annealing, tries=choices.repairs,
        enough=acceptance.USED, grow=width is None, rng=rng)
    if rows is not None:
        lines = local_lines(rows, rule, covered.spaces)
        if rule.exact and lines.exact:
            return _by_lines(used, fresh, rule, lines, mismatch(activity, lines.spaces), choices.activation)
        if not rule.exact:
            return _by_noisy_lines(used, fresh, rule, noisy_lines(used, rule, lines), choices.activation)
    return _by_union(covered, fresh_activity, rule, choices.activation)


def count_units(activity: Source) -> int:
    """Units that the second moment shows, at least one; a lower bound unless the spectrum has a clear gap."""
    moment = measure_with_noise(activity, SecondMoment(), stage="width")
    return max(1, detect_rank(np.linalg.eigvalsh(moment.value[0]), np.linalg.eigvalsh(moment.noise[0])).at_least)


def first_spaces(activity: Source, width: int, start: LayerStart, silent: float, *, rng: Generator) -> HalfSpaces:
    """Directions from moments; thresholds from the activity along each, or from the share of silent rows where that is
    unclear."""
    weights = start(activity, width, rng=rng).weights
    common = float(np.clip(ndtri(silent ** (1.0 / width)), *THRESHOLDS))
    profile = activity_profile(activity, weights)
    edges = [probit_edge(profile, i) for i in range(width)]
    clear = [edge.tangent < 1.0 and abs(edge.threshold - common) < 1.0 for edge in edges]
    return HalfSpaces(weights, np.array([edge.threshold if ok else common for edge, ok in zip(edges, clear, strict=True)]))


def _check_active(activity: Source, width: int) -> None:
    def count(x: Array, y: Array) -> Sums:
        return (np.asarray(y.sum()),)

    (total,) = activity.sum(count, stage="activity")
    unknowns = width * (activity.dim + 1)
    if total < unknowns:
        needed = acceptance.FEWEST * width * activity.size / max(float(total), 1.0)
        raise TooFewSamples(
            f"{int(total)} of {activity.size:,} rows are active, for {width} units with {unknowns} numbers.",
            "Only active rows show where a unit begins.",
            f"Give about {needed:,.0f} samples, or queries through an Oracle, which need no luck.",
            active=int(total), unknowns=unknowns)


def _common_claims(spaces: HalfSpaces, used: Mismatch, fresh: Mismatch) -> tuple[Claim, ...]:
    return (
        acceptance.used_mismatch(used), acceptance.fresh_mismatch(fresh, spaces, used.rows), acceptance.own_rows(used),
        acceptance.separated(spaces.weights))


def _by_union(covered: Covered, fresh: Source, rule: Baseline, activation: Activation) -> FoundLayer:
    spaces, used = covered.spaces, covered.mismatch
    claims = (
        *_common_claims(spaces, used, mismatch(fresh, spaces)), acceptance.certain_angles(spaces, used.rows),
        acceptance.noiseless(rule.exact))
    errors = unit_errors(spaces, acceptance.expected_angles(spaces, used.rows))
    return FoundLayer(layer_of(spaces, activation), claims, errors, float(rule.noise.max()))


def _by_lines(
    used: Source, fresh: Source, rule: Baseline, lines: Lines, whole: Mismatch, activation: Activation
) -> FoundLayer:
    off, rows, _ = _residuals(fresh, rule, lines)
    claims = (
        *_common_claims(lines.spaces, whole, mismatch(activity_of(fresh, rule), lines.spaces)), acceptance.on_lines(off, rows),
        acceptance.noiseless(True))
    return FoundLayer(layer_of(lines.spaces, activation), claims, np.zeros((len(lines.slopes), used.dim + 1)))


def _by_noisy_lines(used: Source, fresh: Source, rule: Baseline, lines: Lines, activation: Activation) -> FoundLayer:
    """Least-squares lines; rows whose unit has risen by less than twice the silence are left out of the active set's test."""
    spaces, noise = lines.spaces, float(rule.noise.max())
    (whole, fresh_whole) = (_clear_mismatch(source, rule, lines) for source in (used, fresh))
    _, rows, square = _residuals(fresh, rule, lines)
    chance = acceptance.SIGMAS * float(np.sqrt(2.0 / max(rows, 1)))
    limit = 1.0 + chance + 2.0 * spaces.weights.size / max(int(lines.rows.sum()), 1)
    claims = (
        *_common_claims(spaces, whole, fresh_whole), acceptance.same_residual(square / noise**2, limit, rows),
        acceptance.noiseless(False))
    spread = noise / np.maximum(np.abs(lines.slopes) * np.sqrt(np.maximum(lines.rows, 1)), 1e-300)
    errors = unit_errors(spaces, np.sqrt(used.dim) * spread)
    errors[:, -1] = 1.5 * spread  # the threshold is extrapolated from rows whose mean lies a standard deviation above it
    return FoundLayer(layer_of(spaces, activation), claims, errors, noise)


def _clear_mismatch(source: Source, rule: Baseline, lines: Lines) -> Mismatch:
    """The mismatch, with silent rows counted only if a unit should have risen to twice what counts as silence."""

    def count(x: Array, y: Array) -> Sums:
        margins = lines.spaces.margins(x)
        inside, active = margins > 0, rule.active(y)
        risen = (np.abs(lines.slopes) * margins > 2.0 * rule.tol.max()).sum(axis=1) == 1
        alone = inside.sum(axis=1) == 1
        return (
            np.asarray(np.sum(active & ~inside.any(axis=1))), np.asarray(np.sum(~active & risen & alone)),
            inside[active & alone].sum(axis=0))

    uncovered, intruding, sole = source.sum(count, stage="active set")
    return Mismatch(source.size, int(uncovered), int(intruding), sole)


def _residuals(source: Source, rule: Baseline, lines: Lines) -> tuple[int, int, float]:
    """Rows off their line, rows with one active unit, and their mean square deviation, in the output that moves most."""

    def measure(x: Array, y: Array) -> Sums:
        margins = lines.spaces.margins(x)
        alone = (margins > 0).sum(axis=1) == 1
        unit = np.argmax(margins[alone], axis=1)
        r, rise = (y - rule.value)[alone], margins[alone][np.arange(len(unit)), unit] * lines.slopes[unit]
        gaps = np.abs(r - rise[:, None]).min(axis=1, initial=np.inf)
        scale = max(float(np.abs(r).max(initial=0.0)), 1.0)
        return np.asarray(np.sum(gaps > 100 * ON_THE_LINE * scale)), np.asarray(len(gaps)), np.asarray(np.sum(gaps**2))

    off, rows, squares = source.sum(measure, stage="lines")
    return int(off), int(rows), float(squares) / max(int(rows), 1)
