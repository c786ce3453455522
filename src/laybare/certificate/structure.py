"""Is anything left in the residual that a function of the inputs explains?

A score test: the residual is regressed on features that the network does not have, together with those that it has (the fit
is least squares in its own, so that these explain nothing by themselves). If the residual is noise of variance s², what the p
new features explain in m outputs is at most s² χ²(p m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate.claims import Claim
from laybare.certificate.fitted import Fitted
from laybare.refinement.normal import Point
from laybare.refinement.spd import solve_spd
from laybare.shapes import Array, Sums

SIGMAS = 4.0
"""Standard deviations that chance is allowed in every test of a certificate: one false alarm in 30,000."""

KINKS = 100
"""Random kinks |w·z + b| among the features. Single missed units were seen at 4 sigmas or more with 100 in 33 of 36 trials."""


class Structure(NamedTuple):
    """Share of the residual explained, number of new features, and the kinks in the order of what each explains alone."""

    share: float
    features: int
    kinks: Array


@dataclass(frozen=True, eq=False)
class _Probe:
    """(z, y) -> Gram matrix of [F, z², |w·z + b|], its product with the residual, the residual's sum of squares."""

    point: Point
    kinks: Array
    squares: bool

    @property
    def row_floats(self) -> int:
        return 2 * (len(self.point.coefficients) + len(self.kinks) + self.squares * self.point.units.shape[1])

    def __call__(self, x: Array, y: Array) -> Sums:
        own = self.point.features(x, self.point.extended(x) @ self.point.units.T)
        bends = np.abs(x @ self.kinks[:, :-1].T + self.kinks[:, -1])
        phi = np.hstack([own, bends, x * x] if self.squares else [own, bends])
        r = y - own @ self.point.coefficients
        return phi.T @ phi, phi.T @ r, np.asarray(np.sum(r * r))


def residual_structure(state: Fitted, rng: Generator) -> Structure:
    """Regress the residual of the used samples on new features; at most a quarter as many as it has degrees of freedom."""
    dim, outputs = state.view.dim, state.view.outputs
    room = state.spare // (4 * outputs)
    rows = rng.standard_normal((max(1, min(KINKS, room)), dim))
    kinks = np.column_stack([rows / np.linalg.norm(rows, axis=1)[:, None], rng.standard_normal(len(rows))])
    squares = room >= len(kinks) + dim
    gram, moment, loss = state.view.sum(_Probe(state.point, kinks, squares), stage="certificate")
    q = len(state.point.coefficients)
    explained = float(np.sum(moment * solve_spd(gram, moment)))
    cross = solve_spd(gram[:q, :q], np.hstack([moment[:q], gram[:q, q : q + len(kinks)]]))
    left = moment[q : q + len(kinks)] - gram[q : q + len(kinks), :q] @ cross[:, :outputs]
    size = np.diag(gram)[q : q + len(kinks)] - np.sum(gram[:q, q : q + len(kinks)] * cross[:, outputs:], axis=0)
    alone = np.sum(left * left, axis=1) / np.maximum(size, 1e-12 * np.diag(gram)[q : q + len(kinks)])
    share = explained / float(loss) if loss > 0.0 else 0.0
    return Structure(share, len(gram) - q, kinks[np.argsort(-alone)])


def nothing_left(state: Fitted, structure: Structure) -> Claim:
    """The share of the residual that the features explain against what noise would let them explain."""
    free = structure.features * state.view.outputs
    limit = (free + SIGMAS * np.sqrt(2.0 * free)) / state.spare
    share = 0.0 if state.exact else structure.share
    return Claim(
        "structure left in the residual", share, float(limit), bool(share <= limit), "tested",
        f"share of the residual that {structure.features} features of the inputs explain; of noise it would be about "
        f"{free / state.spare:.2g}, and a missed or wrong unit leaves more.", decisive=True)
