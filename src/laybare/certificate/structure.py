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

from laybare.certificate.alternatives import Alternative, strongest_alternative
from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.linear_algebra import Precision, inner, solve_spd
from laybare.refinement.normal import InPrecision, Point, outputs_of, pre_activations, with_ones
from laybare.shapes import Array, Sums

SIGMAS = 4.0
"""Standard deviations that chance is allowed in every test of a certificate: one false alarm in 30,000."""

CHANCE = 4.5
"""-log10 of the chance beyond which a test refutes, that of 4 standard deviations."""

SUSPECT = 2.0
"""-log10 of the chance beyond which something may be left. Of 534 right networks one came that far (both tests must say so, and
all sets share the chance); networks of a wrong activation that nothing else had caught stood at 2.4 to 3.6."""

PROBES = 100
"""Random units among the features."""


class Structure(NamedTuple):
    """Share of the residual explained, number of new features, and the new units (rows w, b), best first."""

    share: float
    features: int
    units: Array


@dataclass(frozen=True, eq=False)
class _Probe(InPrecision):
    """(z, y) -> Gram matrix of [F, act(w·z + b), z²], its product with the residual, the residual's sum of squares."""

    point: Point
    units: Array
    squares: bool
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 2 * (len(self.point.coefficients) + len(self.units) + self.squares * int(self.units.shape[1]))

    def __call__(self, x: Array, y: Array) -> Sums:
        point, X1 = self.point, with_ones(self.point, x, self.dtype)
        p, H = point.units.shape[1], point.activation.in_precision(pre_activations(point, X1))
        new = point.activation.in_precision(X1[:, :p] @ self.units.T.astype(self.dtype, copy=False))
        z = X1[:, : p - point.biases]
        linear = [*([X1[:, -1:]] if point.offset else []), *([z] if point.linear else [])]
        phi = np.hstack([H, *linear, new, *([z * z] if self.squares else [])])
        r = y - outputs_of(point, X1, H)
        sums = inner(phi, phi), inner(phi, r.astype(self.dtype, copy=False)), np.asarray(np.sum(r * r))
        return tuple(part.astype(np.float64, copy=False) for part in sums)


def residual_structure(state: State, rng: Generator) -> Structure:
    """Regress the residual of the used samples, or of enough of them, on new features: at most a quarter as many as it has
    degrees of freedom."""
    room = state.spare // (4 * state.view.outputs)
    units = _random_units(state.point, max(1, min(PROBES, room)), rng)
    statistic = _Probe(state.point, units, room >= len(units) + state.view.dim, state.precision)
    gram, moment, loss = state.many.sum(statistic, stage="certificate")
    q, p = len(state.point.coefficients), len(units)
    share = float(np.sum(moment * solve_spd(gram, moment))) / float(loss) if loss > 0.0 else 0.0
    order = np.argsort(-_alone(gram[: q + p, : q + p], moment[: q + p], q))
    return Structure(share, len(gram) - q, units[order])


def _random_units(point: Point, count: int, rng: Generator) -> Array:
    """Random directions on white inputs, rows as long as those of the network, biases N(0, 1)."""
    dim = point.units.shape[1] - point.biases
    lengths = np.linalg.norm(point.units[:, :dim], axis=1)
    rows = rng.standard_normal((count, dim))
    rows *= (float(np.median(lengths)) if len(lengths) else 1.0) / np.linalg.norm(rows, axis=1)[:, None]
    return np.column_stack([rows, rng.standard_normal(count)]) if point.biases else rows


def _alone(gram: Array, moment: Array, q: int) -> Array:
    """What each feature from number q on explains if it is added alone to the first q."""
    solved = solve_spd(gram[:q, :q], np.hstack([moment[:q], gram[:q, q:]]))
    m = moment.shape[1]
    left = moment[q:] - gram[q:, :q] @ solved[:, :m]
    whole = np.diag(gram)[q:]
    own = np.maximum(whole - np.sum(gram[:q, q:] * solved[:, m:], axis=0), 1e-10 * whole)
    alone: Array = np.sum(left * left, axis=1) / np.maximum(own, np.finfo(float).tiny)  # a unit that is never on explains 0
    return alone


def most_telling(state: State, probes: Array) -> Alternative:
    """The set of features that explains most of the residual, if anything is left; `probes` are rows of units."""
    return Alternative("", 0, 0.0, 0.0, 1) if state.exact else strongest_alternative(state, probes)


def nothing_left(found: Alternative) -> Claim:
    """The most telling set of features against what chance would do, over all sets and outputs."""
    tests = float(np.log10(max(found.tests, 1)))
    empty = "nothing but rounding is left" if found.tests else "the rows are too few for any test"
    text = (
        f"{found.name} ({found.features}) explain {found.share:.2g} of the residual; the number is -log10 of the chance that "
        f"noise lets them, of {found.tests} tests" if found.name else empty)
    return Claim(
        "structure left in the residual", found.evidence, SUSPECT + tests, found.evidence <= SUSPECT + tests, "tested",
        f"{text}; a missed or wrong unit, another activation or another kind of function leaves more. Beyond "
        f"{CHANCE + tests:.3g} the network is refuted.", decisive=found.evidence > CHANCE + tests)
