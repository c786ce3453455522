"""Would units of another kind fit better? The network is refitted with other activations: where that costs little, or where the
residual looks suspicious.

Score tests against everything need rows; a test against the right kind needs few: with as many units and a free linear part it
explains what is left. It begins at the rows that were found. Rivals that contain the told activation as a limit (GELU of large
rows is ReLU) fit as well without being better, so only a clear gain counts, after the price of the numbers that a rival has more:
two each (Akaike 1974), which is what noise grants them, since here a false alarm costs less than a wrong network. It costs more
where the rival is *sharp*: where most of its units bend within a small part of the inputs, so that they are nearly ReLUs. Noise
makes such rivals of every ReLU network, and other networks hardly ever are: the sums in their units have standard deviations of
one to three. A sharp rival must be better than noise makes it. One that fits about as well is tried without the units that it
does not need, too. Of many rows few are asked first: a rival that is clearly worse there need not be fitted to more, and the
others are judged on as many as the residual was looked at.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, gelu, relu, softplus, tanh
from laybare.certificate.alternatives import Alternative
from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.certificate.starts import MET
from laybare.certificate.worth import price_of_a_unit
from laybare.damping import Effort
from laybare.refinement.levenberg import Refined
from laybare.refinement.normal import FitStatistic, Model, Point
from laybare.refinement.pruning import parameter_count, prune
from laybare.refinement.sign_free import sign_free_model
from laybare.shapes import Array
from laybare.source import Source

GAIN = "gain of another activation"

KINDS = (relu, tanh, softplus, gelu)
"""Activations that are told apart; others are close to one of these."""

CHEAP = 1e7
"""n·P² up to which rivals are always tried. A ReLU fitted to 36 rows of a GELU left a residual of which one right network in
three leaves more, though GELU made the rows e^40 times as likely; a GELU fitted to 1,200 rows of softplus units one that looked
like any other."""

BETTER, SHARPER, CLEARLY, AS_WELL = 0.0, 8.0, 16.0, -9.0
"""Doubled log-likelihood ratio, after the price of its numbers, from which a rival may be right, from which one that is sharp may
be, and from which it is. χ² with k degrees of freedom is beyond 2k + 8 in no more than three of a thousand cases, whatever k is,
and beyond 2k + 3 in thirty. A smooth unit has no rival that contains it: one that fits about as well leaves open which of them it
is, unless it is worse by three standard deviations (softplus told GELU stood at 1.0 twice, softplus told tanh at -4.2 on 40
rows)."""

SHARP = 3.5
"""Standard deviations of a unit's sum, in widths of its bend, from which it is sharp."""

NEARLY = 0.85
"""Share of the price of a unit from which the gain of one more is suspicious. Right networks beside sharp rivals that gain more
than 3 stood at .8 or below (thirty of them), a function that is no network at .97."""

BENDS = {gelu.name: 1.0, softplus.name: np.pi / np.sqrt(3.0)}
"""Width of the bend of units that become ReLUs where their rows are long: the standard deviation of the law that their slope is
the distribution function of, or nearly is."""

PRICE = 2.0
"""What a free number gains from noise, twice over."""

STEEP = 2.0
"""Length of the rows that smooth rivals begin with, in widths of their bend, if those that were found have none of their own."""

HOPELESS, REACH = 1.0, 20.0
"""Doubled log-likelihood ratio that a rival must gain in four steps to go on; and where there are many rows, times what it gained
in four steps that must make up for what it lacks."""


class _Rival(NamedTuple):
    """An activation, how much more likely it makes the samples, and from which gain on it may be right."""

    name: str
    gain: float
    limit: float


def other_activations(state: State, left: Alternative, more: Claim) -> tuple[Claim, ...]:
    """Whether another activation fits better; nothing where nothing is suspicious, where many rows say already that a unit is
    missing, or where the network knows no rival.

    A sharp rival has to be no better than others where one unit `more` is nearly called for: noise seldom grants both.
    """
    own = state.point.activation
    cheap = state.equations * state.unknowns**2 <= CHEAP
    tried = cheap or (left.suspicious and not more.decisive)  # which refutes by itself
    if state.exact or not tried or own not in KINDS or not state.point.width:
        return ()
    own_loss = state.own_on_few
    of_kinds = state.at_once(*(partial(_tried, state, kind, own_loss) for kind in KINDS if kind != own))
    rivals: list[_Rival] = list(chain.from_iterable(of_kinds))
    if more.value > NEARLY * price_of_a_unit(state):
        rivals = [one._replace(limit=min(one.limit, BETTER)) for one in rivals]
    best, clear = max(rivals, key=lambda one: one.gain - one.limit), any(one.gain >= CLEARLY for one in rivals)
    return (Claim(
        GAIN, best.gain, best.limit, best.gain < best.limit, "tested",
        f"how much more likely {best.name} units in the same places make the used samples, after the price of their numbers; "
        f"more than the threshold means that the units may not be {own.name}.", decisive=clear),)


def unrivalled(claims: tuple[Claim, ...]) -> bool:
    """Whether two runs agree on a fit that every rival is clearly worse than: to look for others in other ways is in vain."""
    return any(one.name == GAIN and one.value <= -CLEARLY for one in claims) and any(
        one.name == MET and np.isfinite(one.value) for one in claims)


def _tried(state: State, kind: Activation, own_loss: float) -> list[_Rival]:
    """A rival fitted to few of the rows, of which the network leaves `own_loss`; and to many unless it is clearly worse there."""
    free = sign_free_model(kind, biases=state.point.biases)
    start = _start(state.point, free, state.view.outputs)
    if state.equations <= 2 * parameter_count(start):
        return [_Rival(kind.name, -np.inf, _limit(state.point, start))]
    if state.few is state.view:
        refit = state.refit(start, _effort(state.view, start))
        rival = _judged(state, state.view, own_loss, refit)
        return [rival, *_with_fewer(state, own_loss, refit), *_as_turned(state, own_loss, free)]
    few, many = _while_it_may_win(state, start, own_loss), state.many
    rival = _judged(state, state.few, own_loss, few)
    if rival.gain > -CLEARLY:
        rival = _judged(state, many, state.own_on_many, state.refit(few.point, _effort(many, start), many))
    return [rival]


def _while_it_may_win(state: State, start: Point, own: float) -> Refined:
    """A rival fitted to few of many rows, for as long as its steps may yet make up for what it lacks there."""
    rows, spare, price = state.few, _spare(state.few, start), PRICE * (parameter_count(start) - state.unknowns)

    def lacks(loss: float) -> float:
        return spare * float(np.log(loss / own)) + price - CLEARLY

    before = float(rows.sum(FitStatistic(start), stage="certificate")[2])
    while True:
        refit = state.refit(start, _effort(rows, start, lacks(before) / REACH), rows)
        losses = [row.loss for row in refit.trace.rows]
        gained = spare * float(np.log(losses[max(0, len(losses) - 5)]) - np.log(losses[-1]))
        if refit.trace.reason != "stalled" or gained <= HOPELESS or not 0.0 < lacks(refit.loss) < REACH * gained:
            return refit
        start, before = refit.point, refit.loss


def _as_turned(state: State, own: float, free: Model) -> list[_Rival]:
    """A smooth rival whose units are turned as those that were found, without a linear part to pay for.

    An odd unit that was found has no side of its own: both are tried.
    """
    if state.point.linear or not free.linear or free.activation.degree is not None:
        return []
    start = _start(state.point, free._replace(linear=False), state.view.outputs)
    sides = (start,) if state.point.activation.centre is None else (start, start.moved(-start.units, start.coefficients))
    return [_judged(state, state.view, own, state.refit(one, _effort(state.view, one))) for one in sides]


def _with_fewer(state: State, own: float, rival: Refined) -> list[_Rival]:
    """A rival that fits about as well, freed of units that it does not need: one GELU looks like six ReLUs."""
    if rival.point.width < 2 or rival.loss > own * np.exp(CLEARLY / state.spare):
        return []
    pruned = prune(state.view, rival, state.variation, effort=_effort(state.view, rival.point))
    pruned.trace.pass_on_interrupt()
    return [_judged(state, state.view, own, pruned)] if pruned.point.width < rival.point.width else []


def _effort(rows: Source, point: Point, hopeless: float = HOPELESS) -> Effort:
    """Until a step is far below the noise, or four gain no more than `hopeless`."""
    share = max(HOPELESS, hopeless) / _spare(rows, point)
    return Effort(max_steps=40, settled=0.01, rough=0.01, stall_steps=4, stall_gain=min(0.1, share))


def _spare(rows: Source, point: Point) -> int:
    return max(1, rows.size * rows.outputs - parameter_count(point))


def _judged(state: State, rows: Source, own: float, rival: Refined) -> _Rival:
    """Doubled log-likelihood ratio on those rows, after the price of the numbers that the rival has more; one pass.

    The rival's residuals are added up: what least squares foretells is rounding where units that are nearly straight have huge
    readouts.
    """
    name, limit = rival.point.activation.name, _limit(state.point, rival.point)
    loss = float(rows.sum(FitStatistic(rival.point), stage="certificate")[2])
    if not np.isfinite(loss):
        return _Rival(name, -np.inf, limit)
    equations, unknowns = rows.size * rows.outputs, parameter_count(rival.point)
    floor, spare = state.floor * equations, max(1, equations - max(unknowns, state.unknowns))
    gain = spare * float(np.log((own + floor) / (loss + floor)))
    return _Rival(name, gain - PRICE * (unknowns - state.unknowns), limit)


def _limit(own: Point, rival: Point) -> float:
    """The gain from which a rival may be right: little for smooth units, much for a ReLU's rival that is sharp itself."""
    if own.activation.degree is None:
        return AS_WELL
    sharp = rival.activation.name in BENDS and np.median(_lengths(rival)) >= SHARP * BENDS[rival.activation.name]
    return SHARPER if sharp else BETTER


def _lengths(point: Point) -> Array:
    """Of the rows without their biases: standard deviations of the units' sums, on white inputs."""
    return np.asarray(np.linalg.norm(point.units[:, : point.units.shape[1] - point.biases], axis=1))


def _start(point: Point, model: Model, outputs: int) -> Point:
    """The rows that were found, as rows of other units."""
    lengths = _lengths(point)[:, None]
    rows = point.units / np.where(lengths > 0.0, lengths, 1.0)
    if model.activation.degree is None:
        steep = STEEP * BENDS.get(model.activation.name, 1.0)
        rows = rows * (steep if point.activation.degree is not None else lengths)
    return model.start(rows, outputs)
