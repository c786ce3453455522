"""Is this the best minimum? Two runs must agree on it, and no other network of this width may fit as well.

With noise no fit says by itself that it is the best one; two runs that began elsewhere and ended there do. Where the unit that is
needed least gains little, another place for it may gain as much: a unit that follows noise was chosen among many. So the network
without that unit, or the next, is given another one, at the places where one is likeliest, and refitted. An ending whose outputs
differ by more than `CertificateRules.clear_gain` in all (squares, in variances of the noise) is another network; unless it is
less than a hundredth as likely, the matter is open.

Standard errors describe one minimum of the squared error. At the kinks of ReLU the error is rough, and with few rows per
parameter there are several minima within a few standard errors, which fit nearly as well. So the network is moved at random by
three of its standard errors, along its covariance, and refitted, a few times. Where refits end elsewhere and fit as well, their
spread is added to the error, each weighted by its likelihood exp(-LR/2).

A linear part beside hinges that the rows do not ask for is left out, and the hinges then take up what there is of it: a slope of
two standard errors moves kinks by as much as their own errors do. So the network is refitted with a linear part too, and that
move is weighted by the odds of such a part, exp((LR - q log N)/2) for q coefficients (Schwarz 1978; Buckland, Burnham and
Augustin 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.random import Generator

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.explanations import find_residual_structure
from laybare.certificate.fitted_network import FittedNetwork, with_unit_rows
from laybare.certificate.missing_unit import starting_points
from laybare.numerics.levels import TINY
from laybare.numerics.linear_algebra import factor_spd
from laybare.numerics.shapes import Array, Sums
from laybare.solver import Effort
from laybare.solver.minimise import schwarz_penalty
from laybare.solver.normal import Fit, FitStatistic, step_of, working_precision
from laybare.solver.point import FittedPoint, Point, outputs_at
from laybare.solver.subsampled import ReducedNormal, reduced_normal


@dataclass(frozen=True, kw_only=True)
class NearbyOptions:
    """Refits from nearby: how many, from where, how far."""

    refits: int = 3  # Checked by `laybare reproduce plain-noise`.
    start_distance: float = 3.0
    """Standard errors between the fit and the start of a refit. Checked by `laybare reproduce plain-noise`."""
    cheap_cost: float = 2e9  # n·P² of a step beyond which there is one refit, or none. Checked by `make bench`.
    smooth_rows_per_parameter: int = 30
    """Where steps are expensive, equations per parameter from which the error is smooth and no refit is made.
    Checked by `pytest -m slow -k come_back tests/certificate/test_local_minima.py`."""
    max_parameters: int = 1500  # Checked by `make bench`.
    max_parameters_eigenvectors: int = 300
    """Beyond it a Cholesky factor replaces eigenvectors, which take a quarter of a second at 1,000. Checked by `make bench`."""
    effort: Effort = Effort(max_steps=12, gain_tol=0.03, kink_tol=0.03)
    """Until a step is a sixth of a standard error in every direction: the question is whether a refit comes back, not where it
    ends exactly. Checked by `laybare reproduce coverage`."""
    places: int = 8  # Units likeliest to explain the residual, besides splits. Checked by `laybare reproduce plain-noise`.
    place_effort: Effort = Effort(max_steps=30, gain_tol=0.03, kink_tol=0.03)
    """Of a refit from another place, which begins farther away. Checked by `laybare reproduce plain-noise`."""
    max_squared_step: float = 4.0  # ... and no more than two standard errors in all, squared. Derived: 2².


NEARBY = NearbyOptions()


def runs_agree_claim(runs: int) -> Claim:
    """That two runs ended at the same fit, after this number of them; 0: none did."""
    return Claim(
        ClaimName.RUN_AGREEMENT, float(bool(runs)), 1.0, bool(runs), "tested",
        f"two of {runs} runs from different random units ended at the same fit." if runs else
        "no two runs from different random units ended at the same fit, so that another network may fit as well or better; "
        "more samples make that less likely, and so does a search with more hops.")


class Ending(NamedTuple):
    """Where a refit ended: LR of the fit against it, negative if it is better; and how far its outputs are from those of the fit,
    squared, in variances of the noise, added over the rows."""

    ratio: float
    apart: float


def other_minima_claim(endings: Sequence[Ending], design_effect: float = 1.0) -> Claim:
    """That every other network of this width is much less likely; dependent rows count as fewer."""
    others = [one.ratio for one in endings if one.apart > RULES.clear_gain * design_effect]
    value = min(others, default=np.inf) / design_effect
    return Claim(
        ClaimName.OTHER_MINIMA, value, RULES.other_minimum, value >= RULES.other_minimum, "tested" if endings else "assumed",
        f"how much less likely the used samples are with another network of this width, at the best of {len(endings)} ends of "
        "refits from other places; where it is small, or negative, two networks fit as well." if endings else
        "other minima were not looked for: every unit is clearly needed, and there are many rows per parameter, or too many "
        "parameters.")


def other_places(fitted: FittedNetwork, narrower: Point, rng: Generator) -> tuple[Ending, ...]:
    """Refits of a network without a unit, with another one at the places where one is likeliest."""
    without = replace(fitted, point=narrower, fit=Fit(*fitted.used.sum(FitStatistic(narrower), stage="certificate")))
    starts = starting_points(without, find_residual_structure(without, rng).units[: NEARBY.places])
    return tuple(_ending(fitted, fitted.refit(start, NEARBY.place_effort)) for start in starts)


def _ending(fitted: FittedNetwork, found: FittedPoint) -> Ending:
    """Of a refit; one pass."""
    own = fitted.point

    def apart(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum((outputs_at(found.point, x) - outputs_at(own, x)) ** 2)),)

    (total,) = fitted.used.sum(apart, stage="certificate")
    return Ending(_ratio(fitted, found.loss), float(total) / fitted.noise_variance)


class NearbyMinima(NamedTuple):
    """Where refits ended: moves of all parameters (refits, parameters), y in units of its standard deviation, and LR of the fit
    against each, negative if the refit is better. And the same of refits with a linear part, none or one, the ratio with its
    penalty. And where refits ended, as other minima are judged."""

    moves: Array = np.empty((0, 0))
    ratios: Array = np.empty(0)
    linear_moves: Array = np.empty((0, 0))
    linear_ratios: Array = np.empty(0)
    endings: tuple[Ending, ...] = ()

    def covariance(self, size: int) -> Array:
        """Covariance of the moves, weighted by likelihood, the fit itself among them."""
        return _weighted_spread(self.moves, self.ratios, size) + _weighted_spread(self.linear_moves, self.linear_ratios, size)


def _weighted_spread(moves: Array, ratios: Array, size: int) -> Array:
    if not len(moves):
        return np.zeros((size, size))
    weights = np.exp(-0.5 * np.clip(ratios, -RULES.clear_gain, 700.0))
    return np.asarray((moves.T * weights) @ moves / (1.0 + weights.sum()))


def find_nearby_minima(fitted: FittedNetwork, gram: Array, covariance: Array, *, rng: Generator) -> NearbyMinima:
    """Refits from random moves along `covariance` (y in units of its standard deviation); `gram` is that of a step at the fit.
    A dozen passes for each."""
    parameters = len(covariance)
    if not searches_nearby(fitted, parameters):
        return NearbyMinima()
    root, refits = _covariance_root(covariance), 1 if _is_expensive(fitted, parameters) else NEARBY.refits
    effort = replace(NEARBY.effort, gain_tol=min(NEARBY.effort.gain_tol, NEARBY.max_squared_step / parameters))
    nearby = reduced_normal(step_of(gram), fitted.point, dtype=working_precision(fitted.point))
    starts = (NEARBY.start_distance * root @ rng.standard_normal(len(root)) for _ in range(refits))
    ended = [_refit(fitted, nearby, start, effort) for start in starts]
    moves, endings = np.stack([move for move, _ in ended]), tuple(ending for _, ending in ended)
    return NearbyMinima(moves, np.array([one.ratio for one in endings]), *_with_linear_part(fitted), endings)


def _with_linear_part(fitted: FittedNetwork) -> tuple[Array, Array]:
    """The move of all parameters if hinges get a linear part beside them, and LR of the fit against that, with its penalty."""
    here, unit = fitted.point, float(np.sqrt(fitted.output_variance))
    dim, outputs = here.units.shape[1] - here.biases, here.coefficients.shape[1]
    if here.linear or not here.offset or here.activation.degree != 1:
        return np.empty((0, 0)), np.empty(0)
    start = replace(here, linear=True, coefficients=np.vstack([here.coefficients, np.zeros((dim, outputs))]))
    found = fitted.refit(start, NEARBY.effort)
    ratio = _ratio(fitted, found.loss) + schwarz_penalty(dim * outputs, fitted.equations)
    units = with_unit_rows(found.point)
    ended = here.moved(units.units, units.coefficients[: len(here.coefficients)])
    return (_parameter_vector(ended, unit) - _parameter_vector(here, unit))[None], np.array([ratio])


def searches_nearby(fitted: FittedNetwork, parameters: int) -> bool:
    """Whether nearby minima of a network with this number of parameters are looked for."""
    smooth = _is_expensive(fitted, parameters) and fitted.equations >= NEARBY.smooth_rows_per_parameter * parameters
    return bool(parameters <= NEARBY.max_parameters and fitted.point.width and not smooth)


def _is_expensive(fitted: FittedNetwork, parameters: int) -> bool:
    return fitted.equations * parameters**2 > NEARBY.cheap_cost


def _covariance_root(covariance: Array) -> Array:
    """A matrix whose product with its transpose is the covariance: from eigenvectors, or from a Cholesky factor."""
    if len(covariance) > NEARBY.max_parameters_eigenvectors:
        factor = factor_spd(covariance, np.float32)  # of random moves: three digits are plenty
        return np.asarray(np.tril(factor.lower) / factor.scale[:, None])
    values, vectors = scipy.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _refit(fitted: FittedNetwork, nearby: ReducedNormal, move: Array, effort: Effort) -> tuple[Array, Ending]:
    """The move of a refit that begins `move` away from the fit, and where that is."""
    here, unit = fitted.point, float(np.sqrt(fitted.output_variance))
    rows, rest = np.split(move, [here.units.size])
    units, coefficients = rows.reshape(here.units.shape), unit * rest.reshape(here.coefficients.shape)
    start = here.moved(here.units + units, here.coefficients + coefficients)
    found = fitted.refit(start, effort, nearby=nearby)
    return _parameter_vector(with_unit_rows(found.point), unit) - _parameter_vector(here, unit), _ending(fitted, found)


def _ratio(fitted: FittedNetwork, loss: float) -> float:
    """LR of the fit against another loss, negative if the other is smaller."""
    return fitted.degrees_of_freedom * float(np.log(max(loss, TINY)) - np.log(max(float(fitted.fit.loss), TINY)))


def _parameter_vector(point: Point, unit: float) -> Array:
    return np.concatenate([point.units.ravel(), point.coefficients.ravel() / unit])
