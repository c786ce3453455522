"""Would another activation fit better? The network is refitted with other activations where that is cheap, or where the residual
is suspicious.

Score tests against everything need many rows; a test against the right activation needs few: with as many units and a free
linear part it explains the residual. It begins at the rows that were found. A rival that contains the given activation as a limit
(GELU of large rows is ReLU) follows noise with its additional parameters and fits better without being right: its doubled
log-likelihood ratio is χ² (Wilks 1938), and counts from where chance is below three in a thousand. A rival that fits about as
well is also tried without the units that it does not need. Of many rows the screening rows are fitted first: a rival that is
clearly worse there is dropped, and the others are compared on the residual rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, gelu, relu, softplus, tanh
from laybare.assembly.sign_decoding import sign_free_model
from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.explanations import Alternative
from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.shapes import Array
from laybare.solver import Effort
from laybare.solver.minimise import prune
from laybare.solver.normal import FitStatistic
from laybare.solver.point import FittedPoint, Model, Point, parameter_count
from laybare.source import Source

KINDS = (relu, tanh, softplus, gelu)
"""Activations that are compared; others are close to one of these."""

BEND_WIDTHS = {gelu.name: 1.0, softplus.name: np.pi / np.sqrt(3.0)}
"""Width of the bend of units that become ReLUs where their rows are long. Derived: the standard deviation of the law whose
distribution function is their slope, or nearly is."""


@dataclass(frozen=True, kw_only=True)
class RivalOptions:
    """Limits on the gain of a rival (LR less the penalty of its parameters), and how long it is fitted."""

    always_cost: float = 1e7
    """n·P² up to which rivals are always tried: residuals of wrong activations on few rows look like noise. Checked by
    `laybare reproduce hostile`."""
    min_gain: float = 8.0
    """Gain from which a rival of ReLUs may be right. Derived: χ² of k degrees of freedom exceeds 2k + 8 in at most three of a
    thousand cases."""
    min_gain_apart: float = -9.0
    """The same for a rival that does not contain the network, beside smooth units or with no more parameters: one that fits about
    as well leaves the activation open. Derived: three standard deviations, squared."""
    penalty_per_parameter: float = 2.0  # Paper: Akaike (1974).
    start_length: float = 2.0
    """Length of the first rows of smooth rivals of homogeneous units, in widths of their bend. Checked by
    `laybare reproduce hostile`."""
    min_gain_in_four_steps: float = 1.0
    """Gain below which a rival is fitted no further. Checked by `pytest tests/certificate/test_rival_activations.py`."""
    reach: float = 20.0
    """Where rows are many, a rival goes on while it lacks less than this multiple of its gain in four steps. Checked by
    `pytest tests/certificate/test_rival_activations.py`."""


RIVALS = RivalOptions()


class _Rival(NamedTuple):
    """An activation, its gain, and the gain from which it may be right."""

    name: str
    gain: float
    limit: float
    point: Point | None = None

    def among_dependent_rows(self, unknowns: int, design_effect: float) -> _Rival:
        """The same where rows count as fewer by this factor; the network has so many unknowns."""
        if self.point is None:
            return self
        penalty = RIVALS.penalty_per_parameter * (parameter_count(self.point) - unknowns)
        return self._replace(gain=(self.gain + penalty) / design_effect - penalty)


class Rivals(NamedTuple):
    """What the rivals say, if they were asked, and the networks by the names of their activations."""

    claims: tuple[Claim, ...] = ()
    points: tuple[tuple[str, Point], ...] = ()


def rival_activations(fitted: FittedNetwork, left: Alternative, more: Claim, design_effect: float = 1.0) -> Rivals:
    """Whether another activation fits better, where rows count as fewer by the `design_effect`; no claim where nothing is
    suspicious, where a unit is clearly missing (by the claim of one unit `more`), or where the network has no rival."""
    own = fitted.point.activation
    cheap = fitted.equations * fitted.unknowns**2 <= RIVALS.always_cost
    tried = cheap or (left.suspicious and not more.decisive)  # which refutes by itself
    if fitted.exact or not tried or own not in KINDS or not fitted.point.width:
        return Rivals()
    own_loss = fitted.loss_on_screening_rows
    of_kinds = fitted.run_parallel(*(partial(_fit_rival, fitted, kind, own_loss) for kind in KINDS if kind != own))
    found: list[_Rival] = list(chain.from_iterable(of_kinds))
    rivals = [one.among_dependent_rows(fitted.unknowns, design_effect) for one in found]
    best, clear = max(rivals, key=lambda one: one.gain - one.limit), any(one.gain >= RULES.clear_gain for one in rivals)
    best_of = {one.name: one.point for one in sorted(rivals, key=lambda one: one.gain) if one.point is not None}
    return Rivals((Claim(
        ClaimName.RIVAL_ACTIVATION, best.gain, best.limit, best.gain < best.limit, "tested",
        f"how much more likely {best.name} units in the same places make the used samples, less the penalty of their parameters; "
        f"more than the threshold means that the units may not be {own.name}.", decisive=clear),), tuple(best_of.items()))


def are_clearly_worse(claims: tuple[Claim, ...]) -> bool:
    """Whether rivals were asked, and every one is clearly worse."""
    return bool(claims) and all(claim.value <= -RULES.clear_gain for claim in claims)


def _fit_rival(fitted: FittedNetwork, kind: Activation, own_loss: float) -> list[_Rival]:
    """A rival fitted to the screening rows, where the network's loss is `own_loss`; and to the residual rows unless it is clearly
    worse there."""
    free = sign_free_model(kind, biases=fitted.point.biases)
    start = _rival_start(fitted.point, free, fitted.used.outputs)
    if fitted.equations <= 2 * parameter_count(start):
        return [_Rival(kind.name, -np.inf, _gain_limit(fitted.point, start))]
    if fitted.screening_rows is fitted.used:
        refit = fitted.refit(start, _effort(fitted.used, start))
        rival = _score_rival(fitted, fitted.used, own_loss, refit)
        return [rival, *_pruned_rival(fitted, own_loss, refit), *_without_linear_part(fitted, own_loss, free)]
    screened, rows = _screen_rival(fitted, start, own_loss), fitted.residual_rows
    rival = _score_rival(fitted, fitted.screening_rows, own_loss, screened)
    if rival.gain > -RULES.clear_gain:
        refit = fitted.refit(screened.point, _effort(rows, start), rows)
        rival = _score_rival(fitted, rows, fitted.loss_on_residual_rows, refit)
    return [rival]


def _screen_rival(fitted: FittedNetwork, start: Point, own: float) -> FittedPoint:
    """A rival fitted to the screening rows, for as long as its steps may make up for what it lacks there."""
    rows, spare = fitted.screening_rows, _degrees_of_freedom(fitted.screening_rows, start)
    penalty = RIVALS.penalty_per_parameter * (parameter_count(start) - fitted.unknowns)

    def missing_gain(loss: float) -> float:
        return spare * float(np.log(loss / own)) + penalty - RULES.clear_gain

    before = float(rows.sum(FitStatistic(start), stage="certificate")[2])
    while True:
        refit = fitted.refit(start, _effort(rows, start, missing_gain(before) / RIVALS.reach), rows)
        losses = [row.loss for row in refit.trace.rows]
        gained = spare * float(np.log(losses[max(0, len(losses) - 5)]) - np.log(losses[-1]))
        open_still = 0.0 < missing_gain(refit.loss) < RIVALS.reach * gained
        if refit.trace.reason != "stalled" or gained <= RIVALS.min_gain_in_four_steps or not open_still:
            return refit
        start, before = refit.point, refit.loss


def _without_linear_part(fitted: FittedNetwork, own: float, free: Model) -> list[_Rival]:
    """A smooth rival with the signs of the found units, without the penalty of a linear part; both signs of odd units."""
    if fitted.point.linear or not free.linear or free.activation.degree is not None:
        return []
    start = _rival_start(fitted.point, free._replace(linear=False), fitted.used.outputs)
    sides = (start,) if fitted.point.activation.centre is None else (start, start.moved(-start.units, start.coefficients))
    return [_score_rival(fitted, fitted.used, own, fitted.refit(one, _effort(fitted.used, one))) for one in sides]


def _pruned_rival(fitted: FittedNetwork, own: float, rival: FittedPoint) -> list[_Rival]:
    """A rival that fits about as well, without the units that it does not need: one GELU looks like six ReLUs."""
    if rival.point.width < 2 or rival.loss > own * np.exp(RULES.clear_gain / fitted.degrees_of_freedom):
        return []
    pruned = prune(fitted.used, rival, fitted.variation, effort=_effort(fitted.used, rival.point))
    return [_score_rival(fitted, fitted.used, own, pruned)] if pruned.point.width < rival.point.width else []


def _effort(rows: Source, point: Point, min_gain: float = 0.0) -> Effort:
    """Until a step is far below the noise, or four gain no more than `min_gain`, or than the least that counts."""
    share = max(RIVALS.min_gain_in_four_steps, min_gain) / _degrees_of_freedom(rows, point)
    return Effort(max_steps=40, gain_tol=0.01, kink_tol=0.01, stall_steps=4, stall_gain=min(0.1, share))


def _degrees_of_freedom(rows: Source, point: Point) -> int:
    return max(1, rows.size * rows.outputs - parameter_count(point))


def _score_rival(fitted: FittedNetwork, rows: Source, own: float, rival: FittedPoint) -> _Rival:
    """Gain on the given rows; one pass.

    The rival's residuals are added up: what least squares predicts is rounding where nearly straight units have huge readouts.
    """
    name, limit = rival.point.activation.name, _gain_limit(fitted.point, rival.point)
    loss = float(rows.sum(FitStatistic(rival.point), stage="certificate")[2])
    if not np.isfinite(loss):
        return _Rival(name, -np.inf, limit)
    equations, unknowns = rows.size * rows.outputs, parameter_count(rival.point)
    floor, spare = fitted.rounding_variance * equations, max(1, equations - max(unknowns, fitted.unknowns))
    gain = spare * float(np.log((own + floor) / (loss + floor)))
    return _Rival(name, gain - RIVALS.penalty_per_parameter * (unknowns - fitted.unknowns), limit, rival.point)


def _gain_limit(own: Point, rival: Point) -> float:
    """The gain from which a rival may be right: larger for one that may contain the network as a limit, which takes homogeneous
    units and more parameters."""
    nested = own.activation.degree is not None and parameter_count(rival) > parameter_count(own)
    return RIVALS.min_gain if nested else RIVALS.min_gain_apart


def _lengths(point: Point) -> Array:
    """Lengths of the rows without biases: standard deviations of the units' sums on white inputs."""
    return np.asarray(np.linalg.norm(point.units[:, : point.units.shape[1] - point.biases], axis=1))


def _rival_start(point: Point, model: Model, outputs: int) -> Point:
    """The rows that were found, as rows of other units."""
    lengths = _lengths(point)[:, None]
    rows = point.units / np.where(lengths > 0.0, lengths, 1.0)
    if model.activation.degree is None:
        steep = RIVALS.start_length * BEND_WIDTHS.get(model.activation.name, 1.0)
        rows = rows * (steep if point.activation.degree is not None else lengths)
    return model.start(rows, outputs)
