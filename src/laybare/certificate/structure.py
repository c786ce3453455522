"""Is anything left in the residual that a function of the inputs explains?

A score test: the residual is regressed on features that the network does not have, together with those that it has (the fit
is least squares in its own, so that these explain nothing by themselves). If the residual is noise of variance s², what the p
new features explain in m outputs is at most s² χ²(p m).

Of very many rows some are looked at. What seems suspicious there, as right networks often do by chance, is looked for in others,
twice as many if there are: structure shows there too, and all the more; chance does not.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.certificate.alternatives import Alternative, Left, strongest_alternative
from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.refinement.normal import Point
from laybare.shapes import Array

SIGMAS = 4.0
"""Standard deviations that chance is allowed in every test of a certificate: one false alarm in 30,000."""

CHANCE = 4.5
"""-log10 of the chance beyond which a test refutes, that of 4 standard deviations."""

SUSPECT = 2.0
"""-log10 of the chance beyond which something may be left. Of 534 right networks one came that far (both tests must say so, and
all sets share the chance); networks of a wrong activation that nothing else had caught stood at 2.4 to 3.6."""

PROBES = 100
"""Random units among the features."""


def what_is_left(state: State, rng: Generator) -> Left:
    """What explains the residual best, if anything but rounding is left: features, at most a quarter as many as it has degrees of
    freedom, and random units by themselves."""
    point = state.point
    if state.exact:
        return Left(Alternative("", 0, 0.0, 0.0, 1), np.empty((0, point.units.shape[1])))
    room = state.spare // (4 * state.view.outputs)
    left = strongest_alternative(state, _random_units(point, max(1, min(PROBES, room)), rng), state.many)
    if state.many is state.view or not left.most.suspicious or nothing_left(left.most).decisive:
        return left
    return left._replace(most=strongest_alternative(state, left.units, state.others).most)


def _random_units(point: Point, count: int, rng: Generator) -> Array:
    """Random directions on white inputs, rows as long as those of the network, biases N(0, 1)."""
    dim = point.units.shape[1] - point.biases
    lengths = np.linalg.norm(point.units[:, :dim], axis=1)
    rows = rng.standard_normal((count, dim))
    rows *= (float(np.median(lengths)) if len(lengths) else 1.0) / np.linalg.norm(rows, axis=1)[:, None]
    return np.column_stack([rows, rng.standard_normal(count)]) if point.biases else rows


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
