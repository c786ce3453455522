"""Which rows are active: the output differs from what it is while every unit sleeps.

Under a high threshold most rows have all units inactive, and f = c₀ = P(0, …, 0) there. Noiseless outputs of step and ReLU units
then tie exactly, and the tie is c₀ as long as it holds more than half of the rows; the median would do as well. With label noise
there are no ties: c₀ and the noise are the centre and the spread of the bulk, and a row counts as active beyond five spreads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.activations import Activation
from laybare.errors import AssumptionViolated
from laybare.levels import ROUNDING
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.relabelled import Relabelled

LOOKED_AT = 20_000
"""Rows from which the baseline is read: a tie of more than half of them is a tie of about half of all."""

HALF = 0.5
TIED = 0.01
"""Share of rows that must tie for the outputs to count as noiseless."""

SPREADS = 5.0
"""Noise that counts as silence: beyond five standard deviations there is one row in two million."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """c₀ (outputs,), the largest |y - c₀| that counts as silence (outputs,), the noise in each output, the share of silent
    rows."""

    value: Array
    tol: Array
    noise: Array
    silent: float

    @property
    def exact(self) -> bool:
        """Whether the outputs tie exactly: no label noise."""
        return not self.noise.any()

    def active(self, y: Array) -> Array:
        """Rows in which some output is not at the baseline, (n,) of bools."""
        return np.asarray((np.abs(y - self.value) > self.tol).any(axis=1))


def is_silent(activation: Activation) -> bool:
    """Whether units are exactly zero below their thresholds."""
    return not activation(np.array([-1e-3, -1.0, -30.0])).any()


def baseline(source: Source) -> Baseline:
    """c₀ from the first rows; refused if it does not hold more than half of them."""
    y = source.read(0, min(source.size, LOOKED_AT)).y
    middle = np.median(y, axis=0)
    tol = ROUNDING * (np.abs(middle) + np.abs(y).max(axis=0))
    silent = float(np.mean((np.abs(y - middle) <= tol).all(axis=1)))
    if silent > HALF:
        return Baseline(middle, tol, np.zeros(len(middle)), silent)
    most = float(np.unique(y, axis=0, return_counts=True)[1].max()) / len(y)
    if most <= TIED:
        return _noisy(y)
    raise AssumptionViolated(
        f"The most frequent output holds {most:.0%} of {len(y):,} rows.",
        "A high threshold keeps all units inactive in more than half of the rows, and only then is that output the baseline.",
        "Use TensorInit or RandomStart for units that are often active, or a smooth activation if y has no ties by nature.",
        share=most, rows=len(y))


def told_baseline(source: Source, value: float) -> Baseline:
    """The baseline where it is known, as that of labels is; it may hold fewer than half of the rows. No noise."""
    y = source.read(0, min(source.size, LOOKED_AT)).y
    tol = ROUNDING * (abs(value) + np.abs(y).max(axis=0))
    silent = float(np.mean((np.abs(y - value) <= tol).all(axis=1)))
    return Baseline(np.full(source.outputs, value), tol, np.zeros(source.outputs), silent)


def _noisy(y: Array) -> Baseline:
    """Centre and spread of the bulk: means of the rows within 2 spreads of the last centre, until nothing changes."""
    centre = np.median(y, axis=0)
    spread = np.median(np.abs(y - centre), axis=0) / 0.6745
    for _ in range(30):
        near = np.abs(y - centre) <= 2.0 * spread
        count = np.maximum(near.sum(axis=0), 1)
        centre = np.sum(y * near, axis=0) / count
        spread = np.sqrt(np.sum((y - centre) ** 2 * near, axis=0) / count / 0.7737)  # variance of N(0, 1) cut at ±2
    silent = float(np.mean((np.abs(y - centre) <= SPREADS * spread).all(axis=1)))
    if not silent > HALF or not (spread > 0).all():
        raise AssumptionViolated(
            f"No output repeats, and {silent:.0%} of {len(y):,} rows lie within {SPREADS:g} spreads of the bulk.",
            "A high threshold keeps all units inactive in most rows, whose noisy outputs gather around one value.",
            "Use a smooth activation if that is what the units have, or data with less noise.", share=silent, rows=len(y))
    return Baseline(centre, SPREADS * spread, spread, silent)


def activity_of(source: Source, rule: Baseline) -> Source:
    """`source` with y = 1 in active rows and 0 in silent ones: a union of half-spaces, whatever lies above the layer."""
    return Relabelled(source, lambda y: rule.active(y).astype(float))
