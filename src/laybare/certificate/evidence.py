"""Is the wider of two networks better? Log-likelihood gain minus penalty, with a robust twin.

With N equations, p unknowns of the wider network and q of its additional units, the gain is the doubled log-likelihood ratio

    LR = (N - p) log(loss of the narrower / loss of the wider),

and the wider network is better if LR exceeds the penalty q log N (Schwarz 1978). N - p instead of N corrects for the noise that
the wider fit follows, which matters when N is a small multiple of p. Units that only follow noise come close to the penalty (an
outlier, or a step between two samples): so a unit is real from 1.5 penalties on, and between 1 and 1.5 the matter is open. A
unit that is there already is needed from 1.2 on. Units below 1 these samples cannot show: a network without them passes, and the
certificate states how large they could be.

If noise is larger in some places, or has outliers, units follow it there, and LR overrates them. So the gain g_n of every row is
added up. For noise of one size Σ g_n² is 4 LR, so that

    W = 4 (Σ g_n)² / Σ g_n²

is LR again; where noise is f times the average it is LR / f, and if all the gain comes from ten rows it is at most 40. Gains are
those of a Student-t likelihood with 4 degrees of freedom: a large residual counts by its number of rows, not by its size.
f itself is the mean square of the wider fit's residual, weighted by the squared difference e of the two networks:
f = Σ r² e² / (σ² Σ e²). LR / f trusts few rows, W does not: a unit may be missing if LR / f says so, it is missing or needed only
if W says so too.
Source: Vuong (1989), Econometrica 57, for the test of Σ g_n against its own spread; the scaling is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.shapes import Array, Sums
from laybare.solver import Effort, minimise
from laybare.solver.minimise import schwarz_penalty, stop_when_decided
from laybare.solver.point import Point, outputs_at, parameters_per_unit
from laybare.source import Source

T_DEGREES_OF_FREEDOM = 4.0
"""Degrees of freedom of the Student-t likelihood. Checked by `laybare reproduce hostile`."""


def bic_penalty_per_unit(fitted: FittedNetwork) -> float:
    """Schwarz's penalty of the free parameters of one unit: q log N."""
    return schwarz_penalty(parameters_per_unit(fitted.point), fitted.equations)


def log_likelihood_gain(fitted: FittedNetwork, narrow: float, wide: float, wider: int) -> float:
    """LR from the losses of both networks, rounding apart; the wider one has `wider` units more than the fitted one."""
    rounding = fitted.rounding_variance * fitted.equations
    spare = max(1, fitted.equations - fitted.unknowns - wider * parameters_per_unit(fitted.point))
    return minimise.log_likelihood_gain(spare, narrow, wide, rounding)


def gain_seen(limit: float, level: float) -> float:
    """The gain of a unit that exceeds `limit` but with a probability of `level`: LR of a real unit is nearly normal, with a
    variance of four times its mean (Wilks 1938, non-central)."""
    return float((np.sqrt(limit) - ndtri(level)) ** 2)


def refit_effort(fitted: FittedNetwork) -> Effort:
    """Steps of a refit, for as long as they could change the answer."""
    return stop_when_decided(Effort(max_steps=40), bic_penalty_per_unit(fitted), fitted.degrees_of_freedom)


class RobustGain(NamedTuple):
    """`weighted`: W; `noise_factor`: f, at least one."""

    weighted: float
    noise_factor: float


@dataclass(frozen=True, eq=False)
class _GainSums:
    """(z, y) -> Σ g_n, Σ g_n², Σ r² e² and Σ e² of the wider point over the narrower, residuals in units of `sigma`."""

    narrow: Point
    wide: Point
    sigma: float

    @property
    def row_floats(self) -> int:
        return 2 * (self.narrow.width + self.wide.width) + 6 * int(self.wide.coefficients.shape[1])

    def __call__(self, x: Array, y: Array) -> Sums:
        before, after = (self._residual(point, x, y) for point in (self.narrow, self.wide))
        gains, e = _t_deviance(before) - _t_deviance(after), (before - after) ** 2
        return tuple(np.asarray(part.sum()) for part in (gains, gains * gains, after**2 * e, e))

    def _residual(self, point: Point, x: Array, y: Array) -> Array:
        return np.asarray((y - outputs_at(point, x)) / self.sigma)


def _t_deviance(r: Array) -> Array:
    """-2 log of the Student-t density of every row, up to a constant."""
    return np.asarray((T_DEGREES_OF_FREEDOM + 1.0) * np.log1p(r * r / T_DEGREES_OF_FREEDOM).sum(axis=1))


def robust_gain(source: Source, narrow: Point, wide: Point, variance: float) -> RobustGain:
    """W and f of the wider point over the narrower; W is 0 if it gains nothing. `variance`: noise of the wider one. One pass."""
    statistic = _GainSums(narrow, wide, float(np.sqrt(variance)))
    total, squares, noise, apart = (float(part) for part in source.sum(statistic, stage="certificate"))
    weighted = 4.0 * total**2 / max(squares, 1e-300) if total > 0.0 else 0.0
    return RobustGain(weighted, max(1.0, noise / max(apart, 1e-300)))
