"""Descents on the population risk of the squared loss, B* = I, a* = 1: where they end, and whether that is a minimum.

ReLU: the closed form. Sigmoid: rows of length 1 on a Hermite series (39 orders leave 1e-15), rows of free length on a large
sample, of 400 rows per unit, which the truth fits exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import relu, sigmoid
from laybare.landscape import (
    Free,
    Minimum,
    Objective,
    ReLURisk,
    SampledRisk,
    UnitRows,
    descend,
    response_of,
    series_risk,
)
from laybare.networks import landscape_error
from laybare.source import Gaussian, Samples
from laybare.studies.walks import identity_teacher

GLOBAL = 1e-9
"""Risk, relative to that of the constant zero, below which a minimum is the truth: spurious ones end above 1e-5."""

STILL = 1e-6
ORDERS = 39
ROWS_PER_UNIT = 400
FORMS = ("unit rows", "unit rows, readout trained", "free rows", "free rows, readout trained")
"""Models of sigmoid networks."""


class Arrival(NamedTuple):
    """One descent: relative risk, gradient norm and smallest eigenvalue there, the metric (4.1), gradients taken."""

    risk: float
    gradient: float
    smallest: float
    error: float
    evaluations: int

    @property
    def kind(self) -> str:
        if self.risk <= GLOBAL:
            return "global"
        return "spurious" if self.gradient <= STILL and self.smallest > 0 else "unfinished"


def relu_end(dim: int, seed: int) -> Arrival:
    """From a random start on the exact ReLU risk."""
    rng = np.random.default_rng([seed, dim, 1])
    objective = ReLURisk(identity_teacher(dim, relu))
    rest = objective.slope(np.zeros((dim, dim))).value
    return _end(objective, descend(objective, objective.start(rng), rng=rng, max_steps=5000), rest)


def sigmoid_end(dim: int, seed: int, form: str) -> Arrival:
    """From a random start: rows of length 1 on the series, or of free length on samples; the readout held at 1 or trained."""
    rng = np.random.default_rng([seed, dim, 2])
    teacher = identity_teacher(dim, sigmoid)
    objective: Objective
    held = 0 if form.endswith("readout trained") else 1
    if form.startswith("free rows"):
        x = rng.standard_normal((ROWS_PER_UNIT * dim, dim))
        source = Samples(x, sigmoid(x).sum(axis=1), law=Gaussian(0, 1))
        objective = SampledRisk(
            source=source, response=response_of(sigmoid), width=dim, domain=Free(held=held), truth=teacher.directions)
    else:
        objective = series_risk(teacher, ORDERS, domain=UnitRows(1, held=held))
    found = descend(objective, objective.start(rng), rng=rng, max_steps=5000, polish=form.startswith("unit rows"))
    rest = dim * float(np.var(sigmoid(np.random.default_rng(0).standard_normal(100_000))))
    return _end(objective, found, rest)


def _end(objective: Objective, found: Minimum, rest: float) -> Arrival:
    """What a descent came to; `rest` is the risk of the constant zero."""
    error = landscape_error(objective.directions(found.point))
    return Arrival(
        max(found.value / rest, 0.0), found.order.gradient_norm, found.order.smallest, error, found.evaluations)


def descent_end(model: str, dim: int, seed: int) -> Arrival:
    """From a random start: "relu", or one of FORMS."""
    return relu_end(dim, seed) if model == "relu" else sigmoid_end(dim, seed, model)
