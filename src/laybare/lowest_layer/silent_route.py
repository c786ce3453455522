"""Step and ReLU units from samples: activity, third moments, lines or a union of half-spaces, acceptance on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.activations import Activation
from laybare.errors import TooFewSamples
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.activity import Baseline, activity_of, baseline
from laybare.lowest_layer.finding import LayerFinding, layer_of, unit_errors
from laybare.lowest_layer.local_lines import ON_THE_LINE, UnitLines, active_rows, local_lines, noisy_lines
from laybare.lowest_layer.lone_units import lone_rows
from laybare.lowest_layer.missing_units import Cover, repair
from laybare.lowest_layer.profile import activity_profile, probit_edge
from laybare.lowest_layer.start import LayerStart, count_units
from laybare.lowest_layer.union_fit import Annealing, HalfSpaces, Mismatch, fit_union, mismatch
from laybare.shapes import Array, Sums
from laybare.source import Rows, Source

THRESHOLDS = (0.3, 6.0)
"""Where thresholds are looked for at first."""


class SilentChoices(NamedTuple):
    """Choices of this route."""

    activation: Activation
    start: LayerStart
    annealing: Annealing
    repairs: int
    rule: Baseline | None = None
    """The baseline, if it is known; else it is read off the data."""


def find_silent(used: Source, fresh: Source, width: int | None, choices: SilentChoices, *, rng: Generator) -> LayerFinding:
    """The layer of units that are exactly zero below their thresholds; both sources are white."""
    rule = baseline(used) if choices.rule is None else choices.rule
    activity = activity_of(used, rule)
    told = count_units(activity) if width is None else width
    _check_active(activity, told)
    spaces = first_spaces(activity, told, choices.start, rule.silent, rng=rng)
    rows = active_rows(used, rule) if choices.activation.degree == 1 else None
    try_lines = _LineFit(used, fresh, rule, choices.activation, rows)
    found = try_lines(spaces)
    if found is None:
        spaces = fit_union(activity, spaces, choices.annealing)
        found = try_lines(spaces)
    if found is not None:
        return found
    covered = repair(
        activity, spaces, choices.annealing, tries=choices.repairs, enough=acceptance.USED, grow=width is None, rng=rng)
    return try_lines(covered.spaces) or _by_union(covered, used, fresh, rule, choices.activation)


@dataclass(frozen=True, eq=False)
class _LineFit:
    """Lines through the active `rows` of each unit, if units are straight above their thresholds (else there are no rows)."""

    used: Source
    fresh: Source
    rule: Baseline
    activation: Activation
    rows: Rows | None

    def __call__(self, spaces: HalfSpaces) -> LayerFinding | None:
        """The layer that the lines from `spaces` give, or None if they do not explain the active set."""
        if self.rows is None:
            return None
        lines = local_lines(self.rows, self.rule, spaces)
        if not self.rule.exact:
            lines = noisy_lines(self.used, self.rule, lines)
            whole = _clear_mismatch(self.used, self.rule, lines)
            return None if whole.share > acceptance.USED else self._noisy(lines, whole)
        whole = mismatch(activity_of(self.used, self.rule), lines.spaces)
        return self._exact(lines, whole) if lines.exact and whole.share <= acceptance.USED else None

    def _exact(self, lines: UnitLines, whole: Mismatch) -> LayerFinding:
        off, rows, _ = _residuals(self.fresh, self.rule, lines)
        held_out = mismatch(activity_of(self.fresh, self.rule), lines.spaces)
        claims = (
            *acceptance.common_claims(lines.spaces, whole, held_out, self.used.dim + 2), acceptance.on_lines(off, rows),
            acceptance.noiseless(True))
        return LayerFinding(layer_of(lines.spaces, self.activation), claims, np.zeros((len(lines.slopes), self.used.dim + 1)))

    def _noisy(self, lines: UnitLines, whole: Mismatch) -> LayerFinding:
        """Rows whose unit has risen by less than twice the silence are left out of the active set's test."""
        spaces, noise = lines.spaces, float(self.rule.noise.max())
        _, rows, square = _residuals(self.fresh, self.rule, lines)
        chance = acceptance.SIGMAS * float(np.sqrt(2.0 / max(rows, 1)))
        limit = 1.0 + chance + 2.0 * spaces.weights.size / max(int(lines.rows.sum()), 1)
        claims = (
            *acceptance.common_claims(spaces, whole, _clear_mismatch(self.fresh, self.rule, lines)),
            acceptance.same_residual(square / noise**2, limit, rows), acceptance.noiseless(False))
        spread = noise / np.maximum(np.abs(lines.slopes) * np.sqrt(np.maximum(lines.rows, 1)), 1e-300)
        errors = unit_errors(spaces, np.sqrt(self.used.dim) * spread)
        errors[:, -1] = 1.5 * spread  # the threshold is extrapolated from rows whose mean lies a standard deviation above it
        return LayerFinding(layer_of(spaces, self.activation), claims, errors, noise)


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


def _by_union(covered: Cover, used: Source, fresh: Source, rule: Baseline, activation: Activation) -> LayerFinding:
    """The half-spaces as a layer; whether lone units tie or rise can be seen only if outputs have no noise."""
    spaces, rows = covered.spaces, used.size
    held_out = mismatch(activity_of(fresh, rule), spaces)
    claims = (
        *acceptance.common_claims(spaces, covered.mismatch, held_out), acceptance.certain_angles(spaces, rows),
        *((acceptance.lone_levels(lone_rows(used, fresh, rule, spaces), activation),) if rule.exact else ()),
        acceptance.noiseless(rule.exact))
    errors = unit_errors(spaces, acceptance.expected_angles(spaces, rows))
    return LayerFinding(layer_of(spaces, activation), claims, errors, float(rule.noise.max()))


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
        return np.asarray(np.sum(gaps > 100 * ON_THE_LINE * scale)), np.asarray(len(gaps)), np.asarray(np.sum(gaps**2))

    off, rows, squares = source.sum(measure, stage="lines")
    return int(off), int(rows), float(squares) / max(int(rows), 1)
