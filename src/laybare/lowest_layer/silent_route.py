"""Step and ReLU units from samples: activity, third moments, lines or a union of half-spaces, acceptance on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.activations import Activation
from laybare.errors import TooFewSamples
from laybare.lowest_layer import acceptance, active_rows, union_fit
from laybare.lowest_layer.acceptance import LayerFinding, errors_from_angles, layer_from_spaces
from laybare.lowest_layer.active_rows import ACTIVITY, Baseline, UnitLines
from laybare.lowest_layer.layer_start import LayerStart, count_visible_units, measure_profile, probit_estimate
from laybare.lowest_layer.union_fit import Annealing, HalfSpaces, Mismatch, UnionFit
from laybare.numerics.shapes import Array, Sums
from laybare.source import Rows, Source

THRESHOLDS = (0.3, 6.0)
"""Range of the first thresholds."""


class SilentChoices(NamedTuple):
    """Choices of this route; `rule` is the baseline if it is known, else it is read from the data."""

    activation: Activation
    start: LayerStart
    annealing: Annealing
    repairs: int
    rule: Baseline | None = None


def find_silent_units(used: Source, fresh: Source, width: int | None, choices: SilentChoices, *, rng: Generator) -> LayerFinding:
    """The layer of units that are exactly zero below their thresholds; both sources are white."""
    rule = active_rows.find_baseline(used) if choices.rule is None else choices.rule
    activity = active_rows.label_active_rows(used, rule)
    count = count_visible_units(activity) if width is None else width
    _check_active_rows(activity, count)
    spaces = first_half_spaces(activity, count, choices.start, rule.silent, rng=rng)
    rows = active_rows.read_active_rows(used, rule) if choices.activation.degree == 1 else None
    try_lines = _LineFit(used, fresh, rule, choices.activation, rows)
    found = try_lines(spaces)
    if found is None:
        spaces = union_fit.fit_half_spaces(activity, spaces, choices.annealing)
        found = try_lines(spaces)
    if found is not None:
        return found
    limits = union_fit.RepairLimits(choices.repairs, acceptance.ACCEPTANCE.max_used_mismatch, may_add=width is None)
    covered = union_fit.repair_union(activity, spaces, choices.annealing, limits, rng=rng)
    return try_lines(covered.spaces) or _union_finding(covered, used, fresh, rule, choices.activation)


@dataclass(frozen=True, eq=False)
class _LineFit:
    """Lines through the active `rows` of each unit; `rows` is None if units are not straight above their thresholds."""

    used: Source
    fresh: Source
    rule: Baseline
    activation: Activation
    rows: Rows | None

    def __call__(self, spaces: HalfSpaces) -> LayerFinding | None:
        """The layer that the lines from `spaces` give, or None if they do not explain the active set."""
        if self.rows is None:
            return None
        lines, limit = active_rows.fit_unit_lines(self.rows, self.rule, spaces), acceptance.ACCEPTANCE.max_used_mismatch
        if not self.rule.exact:
            lines = active_rows.refit_noisy_lines(self.used, self.rule, lines)
            whole = _clear_mismatch(self.used, self.rule, lines)
            return None if whole.share > limit else self._noisy(lines, whole)
        whole = union_fit.count_mismatch(active_rows.label_active_rows(self.used, self.rule), lines.spaces)
        return self._exact(lines, whole) if lines.exact and whole.share <= limit else None

    def _exact(self, lines: UnitLines, whole: Mismatch) -> LayerFinding:
        off, rows, _ = _residuals(self.fresh, self.rule, lines)
        held_out = union_fit.count_mismatch(active_rows.label_active_rows(self.fresh, self.rule), lines.spaces)
        claims = (
            *acceptance.common_claims(lines.spaces, whole, held_out, self.used.dim + 2), acceptance.line_claim(off, rows),
            acceptance.noiseless_claim(True))
        layer = layer_from_spaces(lines.spaces, self.activation)
        return LayerFinding(layer, claims, np.zeros((layer.width, layer.dim + 1)))

    def _noisy(self, lines: UnitLines, whole: Mismatch) -> LayerFinding:
        """The test of the active set leaves out rows whose unit has risen by less than twice what counts as silence."""
        spaces, noise = lines.spaces, float(self.rule.noise.max())
        _, rows, square = _residuals(self.fresh, self.rule, lines)
        chance = acceptance.ACCEPTANCE.sigmas * float(np.sqrt(2.0 / max(rows, 1)))
        limit = 1.0 + chance + 2.0 * spaces.weights.size / max(int(lines.rows.sum()), 1)
        claims = (
            *acceptance.common_claims(spaces, whole, _clear_mismatch(self.fresh, self.rule, lines)),
            acceptance.noise_ratio_claim(square / noise**2, limit, rows), acceptance.noiseless_claim(False))
        spread = noise / np.maximum(np.abs(lines.slopes) * np.sqrt(np.maximum(lines.rows, 1)), 1e-300)
        errors = errors_from_angles(spaces, np.sqrt(self.used.dim) * spread)
        errors[:, -1] = 1.5 * spread  # the threshold is extrapolated from rows whose mean lies a standard deviation above it
        return LayerFinding(layer_from_spaces(spaces, self.activation), claims, errors, noise)


def first_half_spaces(activity: Source, width: int, start: LayerStart, silent: float, *, rng: Generator) -> HalfSpaces:
    """Directions from moments; thresholds from the activity along each or, where unclear, from the share of silent rows."""
    weights = start(activity, width, rng=rng).weights
    common = float(np.clip(ndtri(silent ** (1.0 / width)), *THRESHOLDS))
    profile = measure_profile(activity, weights)
    edges = [probit_estimate(profile, i) for i in range(width)]
    clear = [edge.tangent < 1.0 and abs(edge.threshold - common) < 1.0 for edge in edges]
    return HalfSpaces(weights, np.array([edge.threshold if ok else common for edge, ok in zip(edges, clear, strict=True)]))


def _check_active_rows(activity: Source, width: int) -> None:
    """Refuse fewer active rows than unknowns."""
    (total,) = activity.sum(lambda x, y: (np.asarray(y.sum()),), stage="activity")
    unknowns = width * (activity.dim + 1)
    if total < unknowns:
        needed = acceptance.ACCEPTANCE.min_rows_per_unit * width * activity.size / max(float(total), 1.0)
        raise TooFewSamples(
            f"{int(total)} of {activity.size:,} rows are active, for {width} units with {unknowns} parameters.",
            "Only active rows show where a unit begins.",
            f"Give about {needed:,.0f} samples, or queries through an Oracle, which chooses its points.",
            active=int(total), unknowns=unknowns)


def _union_finding(covered: UnionFit, used: Source, fresh: Source, rule: Baseline, activation: Activation) -> LayerFinding:
    """The half-spaces as a layer; whether lone units tie or rise can be seen only if outputs have no noise."""
    spaces, rows = covered.spaces, used.size
    held_out = union_fit.count_mismatch(active_rows.label_active_rows(fresh, rule), spaces)
    levels = [active_rows.count_single_unit_rows(used, fresh, rule, spaces)] if rule.exact else []
    claims = (
        *acceptance.common_claims(spaces, covered.mismatch, held_out), acceptance.angle_claim(spaces, rows),
        *(acceptance.level_claim(rows_alone, activation) for rows_alone in levels),
        acceptance.noiseless_claim(rule.exact))
    errors = errors_from_angles(spaces, acceptance.expected_angles(spaces, rows))
    return LayerFinding(layer_from_spaces(spaces, activation), claims, errors, float(rule.noise.max()))


def _clear_mismatch(source: Source, rule: Baseline, lines: UnitLines) -> Mismatch:
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


def _residuals(source: Source, rule: Baseline, lines: UnitLines) -> tuple[int, int, float]:
    """Rows off their line, rows with one active unit, and their mean square deviation, in the output that moves most."""

    def measure(x: Array, y: Array) -> Sums:
        margins = lines.spaces.margins(x)
        alone = (margins > 0).sum(axis=1) == 1
        unit = np.argmax(margins[alone], axis=1)
        r, rise = (y - rule.value)[alone], margins[alone][np.arange(len(unit)), unit] * lines.slopes[unit]
        gaps = np.abs(r - rise[:, None]).min(axis=1, initial=np.inf)
        scale = max(float(np.abs(r).max(initial=0.0)), 1.0)
        return np.asarray(np.sum(gaps > 100 * ACTIVITY.rounding * scale)), np.asarray(len(gaps)), np.asarray(np.sum(gaps**2))

    off, rows, squares = source.sum(measure, stage="lines")
    return int(off), int(rows), float(squares) / max(int(rows), 1)
