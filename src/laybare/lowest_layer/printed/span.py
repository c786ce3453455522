"""The printed objectives in the span of the units, where they are bounded.

E[f H_l(z)] does not depend on the part of z outside of the span of the weights. With samples it does: the noise of the fourth
moment grows like |z|⁴ there, and the objective falls without end. The span is that of the leading eigenvectors of
E[f (xxᵀ - I)] = √2 u₂ Σ c_i w_i w_iᵀ; inside it the inputs are again white, and there are as many units as inputs, as in the
paper.
Source: Goel and Panigrahy (2019), section 2, has as many units as inputs; the span is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.errors import TooFewSamples
from laybare.moments import leading_directions, second_moment
from laybare.shapes import Array
from laybare.source import Rows, Source
from laybare.source.views import Derived

FAR = 1e3
"""Growth of a point, against where the descent began, from which on the objective is called unbounded."""

Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class InSpan(Derived):
    """`origin` with the coordinates x @ basis as inputs; `basis` (d, k) is orthonormal, so that white inputs stay white."""

    basis: Array

    @property
    def dim(self) -> int:
        return int(self.basis.shape[1])

    def changed(self, x: Array, y: Array) -> Rows:
        return Rows(x @ self.basis, y)


def in_span(source: Source, width: int) -> InSpan:
    """`source`, white and with one output, seen in the span that `width` units have according to its second moment."""
    return InSpan(source, leading_directions(second_moment(source), width))


def lowest_point(objective: Objective, start: Array, max_steps: int) -> Array:
    """Where L-BFGS ends from `start`; refused if the objective falls without end."""
    from scipy.optimize import minimize

    reach = FAR * float(np.linalg.norm(start))

    def guarded(z: Array) -> tuple[float, Array]:
        length = float(np.linalg.norm(z))
        if not length < reach:
            raise TooFewSamples(
                f"The printed objective falls without end: from length {reach / FAR:.2g} the descent came to {length:.2g}.",
                "Its penalty has to outweigh the fourth moment, which is noisy, in every direction.",
                "Give more samples, the right threshold, or a larger `factor` if the top has small coefficients; "
                "or use HighThreshold() instead of its literal form.", length=length)
        return objective(z)

    found: Array = minimize(guarded, start, jac=True, method="L-BFGS-B", options={"maxiter": max_steps}).x
    return found
