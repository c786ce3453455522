"""Are held-out rows like used ones?

*Held-out rows.* If rows are independent and of one law, and noise has mean zero at every input, E(y - f̂)² = σ² + E(f - f̂)². The
first is the mean square of fresh residuals, σ² that of used ones over their degrees of freedom, if the network is right. Their
difference, plus two of its standard deviations, bounds E(f - f̂)²; without noise the fresh mean square does, plus two of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import fdtri, ndtr

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.shapes import Array, Statistic, Sums


class HeldOutErrors(NamedTuple):
    """`values`: the number of fresh labels; `fresh`: their mean square residual over the variance of y, with its standard error;
    its ratio to that of the used ones, what the ratio may be by chance, and the bound on E(f - f̂)²."""

    values: int
    fresh: float
    fresh_error: float
    ratio: float
    limit: float
    bound: float

    def claims(self, fitted: FittedNetwork) -> tuple[Claim, Claim]:
        """That fresh residuals are no larger than used ones, and how far off the outputs can be."""
        most = RULES.max_output_error
        error = float(np.sqrt(self.bound))
        return (
            Claim(
                ClaimName.FRESH_RESIDUAL, self.ratio, self.limit, self.ratio <= self.limit, "tested",
                f"mean square on {self.values:,} fresh values, {self.fresh:.1e} of the variance of y, against the used ones; "
                "larger means over-fitting or a wrong network.", decisive=True),
            Claim(
                ClaimName.OUTPUT_ERROR, error, most, error <= most, "tested",
                f"the root mean square of f - f̂ over inputs of the same law is below {error:.1e} standard deviations of y, with "
                "98 % confidence, if rows are independent, noise has mean zero at every input, and "
                + ("nothing but rounding is left." if fitted.exact else "the used residual shows its size.")))


def held_out_errors(fitted: FittedNetwork) -> HeldOutErrors:
    """Fresh mean square against the noise estimated from the used samples; two passes.

    After p unknowns were fitted to N equations a fresh residual has mean square s² (1 + p/(N-p)) or so; twice the excess is
    allowed. The ratio of two mean squares has an F law if the noise is Gaussian; if residuals have heavier tails, their own
    fourth moment gives the spread.
    """
    fresh, variance = fitted.problem.fresh, fitted.output_variance
    floor, noise = fitted.rounding_variance / variance, fitted.noise_variance / variance
    count = fresh.size * fresh.outputs
    second, fourth = (float(total) / count for total in fresh.sum(_powers(fitted), stage="certificate"))
    used = [float(total) / fitted.equations for total in fitted.used.sum(_powers(fitted), stage="certificate")]
    tails = max(2.0, *(four / max(two * two, 1e-300) - 1.0 for two, four in ((second, fourth), used)))
    spread = float(np.sqrt(tails / count + tails / fitted.degrees_of_freedom))
    chance = max(float(fdtri(count, fitted.degrees_of_freedom, ndtr(RULES.sigmas))), 1.0 + RULES.sigmas * spread)
    ratio, limit = (second + floor) / (noise + floor), chance * (1.0 + 2.0 * fitted.unknowns / fitted.degrees_of_freedom)
    fresh_error = second * float(np.sqrt(tails / count))
    excess = second if fitted.exact else max(0.0, second - noise)
    used_error = 0.0 if fitted.exact else noise * float(np.sqrt(tails / fitted.degrees_of_freedom))
    bound = excess + RULES.bound_sigmas * float(np.hypot(fresh_error, used_error))
    return HeldOutErrors(count, second, fresh_error, ratio, limit, bound)


def _powers(fitted: FittedNetwork) -> Statistic:
    white, unit = fitted.white, float(np.sqrt(fitted.output_variance))

    def powers(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore"):
            squares = ((y - white(x).reshape(y.shape)) / unit) ** 2
            return np.asarray(squares.sum()), np.asarray((squares**2).sum())

    return powers
