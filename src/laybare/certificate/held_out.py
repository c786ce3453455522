"""Rows that nothing has seen: is the network as good there as on those that it was fitted to, and how far off can it be?

If rows are independent and of one law, and noise e has mean zero at every input, E(y - f̂)² = σ² + E(f - f̂)². The first is the
mean square of fresh residuals, σ² that of used ones over their degrees of freedom, if the network is right. Their difference,
plus two of its standard deviations, bounds E(f - f̂)²; without noise the fresh mean square does, plus two of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import fdtri, ndtr

from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.certificate.structure import SIGMAS
from laybare.shapes import Array, Statistic, Sums

CONFIDENCE = 2.0
"""Standard deviations above the estimate: 97.7 %, by the normal law of averages."""

FAR_OFF = 0.5
"""Bound on the error of the outputs, in standard deviations of y, beyond which little is known: a quarter of the variance."""


class HeldOutErrors(NamedTuple):
    """Mean squares over the variance of y: of so many fresh numbers with its standard error, and of the used ones over their
    degrees of freedom; what the ratio may be by chance; the bound on E(f - f̂)²."""

    numbers: int
    fresh: float
    fresh_error: float
    ratio: float
    limit: float
    bound: float

    def claims(self, state: State) -> tuple[Claim, Claim]:
        """That fresh residuals are no larger than used ones, and how far off the outputs can be."""
        error = float(np.sqrt(self.bound))
        return (
            Claim(
                "fresh residual over used residual", self.ratio, self.limit, self.ratio <= self.limit, "tested",
                f"mean square on {self.numbers:,} fresh numbers, {self.fresh:.1e} of the variance of y, against the used ones; "
                "larger means over-fitting or a wrong network.", decisive=True),
            Claim(
                "bound on the error of the outputs", error, FAR_OFF, error <= FAR_OFF, "tested",
                f"the root mean square of f - f̂ over inputs of the same law is below {error:.1e} standard deviations of y, with "
                "98 % confidence, if rows are independent, noise has mean zero at every input, and "
                + ("nothing but rounding is left." if state.exact else "the used residual shows its size.")))


def held_out_errors(state: State) -> HeldOutErrors:
    """Fresh mean square against the noise estimated from the used samples; two passes.

    After p unknowns were fitted to N equations a fresh residual has mean square s² (1 + p/(N-p)) or so; twice the excess is
    allowed. The ratio of two mean squares has an F law if the noise is Gaussian; if the residuals have heavier tails than that,
    their own fourth moment gives the spread.
    """
    fresh, floor, noise = state.problem.fresh, state.floor / state.variance, state.noise / state.variance
    count = fresh.size * fresh.outputs
    second, fourth = (float(total) / count for total in fresh.sum(_powers(state), stage="certificate"))
    used = [float(total) / state.equations for total in state.view.sum(_powers(state), stage="certificate")]
    tails = max(2.0, *(four / max(two * two, 1e-300) - 1.0 for two, four in ((second, fourth), used)))
    spread = float(np.sqrt(tails / count + tails / state.spare))
    chance = max(float(fdtri(count, state.spare, ndtr(SIGMAS))), 1.0 + SIGMAS * spread)
    ratio, limit = (second + floor) / (noise + floor), chance * (1.0 + 2.0 * state.unknowns / state.spare)
    fresh_error = second * float(np.sqrt(tails / count))
    excess = second if state.exact else max(0.0, second - noise)
    used_error = 0.0 if state.exact else noise * float(np.sqrt(tails / state.spare))
    bound = excess + CONFIDENCE * float(np.hypot(fresh_error, used_error))
    return HeldOutErrors(count, second, fresh_error, ratio, limit, bound)


def _powers(state: State) -> Statistic:
    white, unit = state.white, float(np.sqrt(state.variance))

    def powers(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore"):
            squares = ((y - white(x).reshape(y.shape)) / unit) ** 2
            return np.asarray(squares.sum()), np.asarray((squares**2).sum())

    return powers
