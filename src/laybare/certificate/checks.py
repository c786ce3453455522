"""The checks behind a certificate: what can be known about a recovered network without knowing the truth.

Test loss alone does not reveal wrong parameters: over-wide fits with wrong units reach a relative error of 1e-8. So a
certificate asks for more: more equations than unknowns, a residual on samples never used before that is no larger than on the
used ones, nothing left in it that features of the inputs explain, no unit too many or too few, units that can be told apart,
every unit bent on the samples.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.special import fdtri, ndtr

from laybare.certificate.claims import Certificate, Claim, StandardErrors
from laybare.certificate.fitted import State, state_of
from laybare.certificate.spread import standard_errors
from laybare.certificate.structure import SIGMAS, nothing_left, residual_structure
from laybare.certificate.width import one_fewer, one_more
from laybare.levels import NOISELESS_LOSS
from laybare.networks import Network
from laybare.refinement.problem import Problem
from laybare.shapes import Array, Sums

ENOUGH = 1.2
"""Equations per unknown: a sixth of the equations is left to check the fit."""

BENT = 1e-9
"""Least share of a smooth unit's variance that no straight line explains: seven digits above rounding."""

PARALLEL = 0.999
"""|cosine| of two extended rows (w, b) on white inputs beyond which they are hard to tell apart."""


def certify(network: Network, problem: Problem, *, rng: Generator, extra: tuple[Claim, ...] = ()) -> Certificate:
    """Certificate of `network`, fitted to the used rows of `problem`, with its fresh rows that nothing has seen.

    About six passes; if there is noise, also the refits of one unit more and one fewer (`width`), each up to 40 steps.
    """
    state = state_of(network, problem)
    structure = residual_structure(state, rng)
    claims = [
        _enough_samples(state),
        _fresh_residual(state),
        nothing_left(state, structure),
        one_more(state, structure.units),
        one_fewer(state),
        _separated(state),
    ]
    claims.append(_kinks_crossed(state) if network.activation.kinks else _bent(state))
    noise = float(np.sqrt(state.noise))
    errors = standard_errors(
        network, problem.used, noise, biases=problem.biases, offset=True, transform=problem.transform)
    return Certificate((*claims, _determined(errors), *extra), errors, noise)


def _enough_samples(state: State) -> Claim:
    ratio = state.equations / state.unknowns
    return Claim(
        "equations per unknown", ratio, ENOUGH, ratio >= ENOUGH, "proved",
        f"{state.equations:,} numbers were fitted with {state.unknowns:,} free ones; below {ENOUGH} a fit proves little, "
        "at 1 nothing.")


def _fresh_residual(state: State) -> Claim:
    """Fresh mean square against the noise estimated from the used samples.

    After p unknowns were fitted to N equations a fresh residual has mean square s² (1 + p/(N-p)) or so; twice the excess is
    allowed. The ratio of two mean squares has an F law if the noise is Gaussian; if the residuals have heavier tails than that,
    their own fourth moment gives the spread.
    """
    white, fresh = state.white, state.problem.fresh

    def powers(x: Array, y: Array) -> Sums:
        squares = (y - white(x).reshape(y.shape)) ** 2
        return np.asarray(squares.sum()), np.asarray((squares**2).sum())

    count, floor = fresh.size * fresh.outputs, NOISELESS_LOSS * state.variance
    second, fourth = (float(total) / count for total in fresh.sum(powers, stage="certificate"))
    tails = max(2.0, fourth / max(second, 1e-150) ** 2 - 1.0)
    spread = float(np.sqrt(tails / count + tails / state.spare))
    chance = max(float(fdtri(count, state.spare, ndtr(SIGMAS))), 1.0 + SIGMAS * spread)
    ratio, limit = (second + floor) / (state.noise + floor), chance * (1.0 + 2.0 * state.unknowns / state.spare)
    return Claim(
        "fresh residual over used residual", ratio, limit, ratio <= limit, "tested",
        f"mean square on {count:,} fresh numbers, {second / state.variance:.1e} of the variance of y, against the used ones; "
        "larger means over-fitting or a wrong network.", decisive=True)


def _separated(state: State) -> Claim:
    rows = state.point.units / np.maximum(np.linalg.norm(state.point.units, axis=1), 1e-300)[:, None]
    cosines = np.abs(rows @ rows.T) - 2.0 * np.eye(len(rows))
    value = max(0.0, float(cosines.max(initial=0.0)))
    return Claim(
        "largest cosine of two units", value, PARALLEL, value < PARALLEL, "proved",
        "two units with nearly the same row (w, b) can trade weight without changing the fit.")


def _kinks_crossed(state: State) -> Claim:
    """Samples on the thinner side of each kink: a unit that is linear on all samples cannot be seen."""
    network, used = state.white, state.view
    kinks = np.array(network.activation.kinks)

    def statistic(x: Array, y: Array) -> Sums:
        return (np.sum(network.layer.before(x)[:, :, None] > kinks, axis=0),)

    (above,) = used.sum(statistic, stage="certificate")
    thinner = np.minimum(above, used.size - above).min(axis=1, initial=used.size)
    worst, least, need = int(np.argmin(thinner)) if len(thinner) else 0, int(thinner.min(initial=used.size)), network.dim + 2
    return Claim(
        "samples beyond the least crossed kink", float(least), need, least >= need, "proved",
        f"unit {worst} has {least} of {used.size:,} samples on the thinner side of its kink; it takes dim + 2 to fix its row.")


def _determined(errors: StandardErrors) -> Claim:
    """Whether the samples fix every number of the network, at least near where it is."""
    parts = np.concatenate([np.ravel(part) for part in errors])
    loose, known = int(np.isinf(parts).sum()), not np.isnan(parts).any()
    text = "that could change without any change at the samples; their standard errors are infinite."
    return Claim(
        "numbers that the samples leave open", float(loose), 0.0, loose == 0, "proved" if known else "assumed",
        f"weights, biases and readouts {text}" if known else "too many parameters to look for numbers " + text)


def _bent(state: State) -> Claim:
    """Share of each unit's variance on the samples that is not linear in w·z: a straight unit is part of a linear map."""
    point = state.point
    biases = point.units[:, -1] if point.biases else np.zeros(point.width)

    def moments(x: Array, y: Array) -> Sums:
        u = x @ point.units[:, : x.shape[1]].T
        h = point.activation(u + biases) - point.activation(biases)
        return u.sum(axis=0), h.sum(axis=0), (u * u).sum(axis=0), (u * h).sum(axis=0), (h * h).sum(axis=0)

    u, h, uu, uh, hh = (total / state.view.size for total in state.view.sum(moments, stage="certificate"))
    spread, whole = np.maximum(uu - u * u, 1e-300), np.maximum(hh - h * h, 1e-300)
    shares = np.maximum(whole - (uh - u * h) ** 2 / spread, 0.0) / whole
    value = float(shares.min(initial=1.0))
    return Claim(
        "bend of the straightest unit", value, BENT, value > BENT, "proved",
        "share of its variance that no straight line explains; a unit that is straight on all samples is no unit but a part of "
        "a linear map.")
