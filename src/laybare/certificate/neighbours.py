"""Minima close to the one that was found: refits from where noise might have left the network.

Standard errors describe one minimum of the squared error. At the kinks of ReLU the error is rough, and with few rows for each
parameter there are several minima within a few standard errors, which fit nearly as well. So the network is moved at random by
three of its standard errors, along its covariance, and refitted, a few times over. Where refits end elsewhere and fit as well,
their spread is a part of the error, and is added to it: each counts by its likelihood, exp(-LR/2). Where one fits as well and
lies far off, error bars are no guide at all, and the certificate says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.random import Generator

from laybare.certificate.fitted import State, with_unit_rows
from laybare.damping import Effort
from laybare.linear_algebra import definite
from laybare.refinement.normal import Point, quick_precision, step_of
from laybare.refinement.part_curvature import PartNormal, normal_of
from laybare.shapes import Array

TRIES, STRIDE = 3, 3.0
"""Refits, and how far from the fit they begin, in standard errors."""

CHEAP, SMOOTH = 2e9, 30
"""n·P² of a step beyond which one refit has to do, and rows for each number from which none need: many rows make a smooth error.
Refits of networks of 661 numbers, with so many rows for each, end within half a standard error of the fit (a slow test)."""

MANY, LARGEST = 300, 1500
"""Parameters from which eigenvectors take more than some milliseconds (a quarter of a second at 1,000), and up to which
neighbours are looked at."""

STEPS, NEAR = Effort(max_steps=12, settled=0.03, rough=0.03), 4.0
"""Until a step is a sixth of a standard error in every direction, and no more than two in all: what is asked is whether a refit
comes back, not where it ends exactly."""

AS_GOOD = 16.0
"""Doubled log-likelihood ratio beyond which a neighbour is no rival: the square of 4 standard deviations."""


class Neighbours(NamedTuple):
    """Where refits ended: moves of all parameters, y in units of its standard deviation (tries, parameters); the doubled
    log-likelihood ratio of each against the fit, negative if it fits better; the largest move of a rival in standard errors."""

    moves: Array = np.empty((0, 0))
    ratios: Array = np.empty(0)
    farthest: float = 0.0

    def covariance(self, size: int) -> Array:
        """Of the moves, weighted by likelihood, the fit itself among them."""
        if not len(self.moves):
            return np.zeros((size, size))
        weights = np.exp(-0.5 * np.clip(self.ratios, -AS_GOOD, 700.0))
        return np.asarray((self.moves.T * weights) @ self.moves / (1.0 + weights.sum()))


def neighbours_of(state: State, gram: Array, covariance: Array, *, rng: Generator) -> Neighbours:
    """Refits from random moves along `covariance`, which is for y in units of its standard deviation; `gram` is that of a step at
    the fit. A dozen passes for each."""
    numbers = len(covariance)
    if not looked_for(state, numbers):
        return Neighbours()
    root, dear = _root(covariance), _dear(state, numbers)
    tries, effort = 1 if dear else TRIES, replace(STEPS, settled=min(STEPS.settled, NEAR / numbers))
    nearby = normal_of(step_of(gram), state.point, dtype=quick_precision(state.point))
    ended = [_refit(state, nearby, STRIDE * root @ rng.standard_normal(len(root)), effort) for _ in range(tries)]
    moves, ratios = np.stack([move for move, _ in ended]), np.array([ratio for _, ratio in ended])
    errors = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    rivals = moves[ratios < AS_GOOD]
    return Neighbours(moves, ratios, float(np.max(np.abs(rivals) / errors, initial=0.0)))


def looked_for(state: State, numbers: int) -> bool:
    """Whether neighbours of a network of so many numbers are looked for."""
    smooth = _dear(state, numbers) and state.equations >= SMOOTH * numbers
    return bool(numbers <= LARGEST and state.point.width and not smooth)


def _dear(state: State, numbers: int) -> bool:
    return state.equations * numbers**2 > CHEAP


def _root(covariance: Array) -> Array:
    """A matrix whose product with its transpose is the covariance: by eigenvectors, or by a factor where these take long."""
    if len(covariance) > MANY:
        factor = definite(covariance, np.float32)  # of random moves: three digits are plenty
        return np.asarray(np.tril(factor.lower) / factor.scale[:, None])
    values, vectors = scipy.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _refit(state: State, nearby: PartNormal, move: Array, effort: Effort) -> tuple[Array, float]:
    """Where a refit ends that begins `move` away from the fit, and its ratio."""
    here, unit, tiny = state.point, float(np.sqrt(state.variance)), np.finfo(float).tiny
    rows, rest = np.split(move, [here.units.size])
    units, coefficients = rows.reshape(here.units.shape), unit * rest.reshape(here.coefficients.shape)
    start = here.moved(here.units + units, here.coefficients + coefficients)
    found = state.refit(start, effort, nearby=nearby)
    ratio = state.spare * float(np.log(max(found.loss, tiny)) - np.log(max(float(state.fit.loss), tiny)))
    return _numbers(with_unit_rows(found.point), unit) - _numbers(here, unit), ratio


def _numbers(point: Point, unit: float) -> Array:
    return np.concatenate([point.units.ravel(), point.coefficients.ravel() / unit])
