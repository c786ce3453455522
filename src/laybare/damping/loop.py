"""The damped loop: try a step, take it if the loss falls, ease or raise the damping, stop when nothing is left to gain.

A rule proposes, the loop disposes. At every point that was taken the rule sets up a system (normal equations, say); at a damping
μ the system gives a trial, (H + μD) δ = g; the rule judges where it leads. If the loss has not fallen, μ grows by 2, 4, 8, ...
and the same system gives a shorter step; if it has, μ shrinks by up to ten, the more the better the model foretold the gain.

Stopping is by progress, never by the size of the gradient: at the kinks of ReLU the empirical gradient of a stuck fit is of order
1/n. A run ends at the *floor* of rounding; *stalled*, if several steps gained too little; *settled*, if a step promises too
little; *flat*, if no step lowers the loss; or for want of *steps*. An interrupt returns the best so far, marked *interrupted*.

Settled: g'H⁻¹g is what an undamped step promises to gain, and σ²H⁻¹ is the covariance of the estimates, σ² = loss / (N - P) for P
unknowns in N equations. In units of σ² the promise is the squared length of the step in standard errors, summed over P
independent directions; at the truth its mean is P. A step that promises ε P σ² is therefore √ε of a standard error long, in the
mean over all directions, and raises the excess loss by ε of what noise makes anyway: `Effort.settled` is this ε. The loss of
kinked units is *rough*: short steps no longer gain what they promise, and two in a row that gain no more than ε P σ² settle it
too. (Of 840 runs from random starts, three in seven without noise, none fell to half its loss after two steps below ε = 0.01.)
Fits of noiseless data do not settle before their floor: near an exact fit a step promises all of the loss.
Source: Marquardt (1963); damping after Nielsen (1999), IMM-REP-1999-05, with the factor bounded below by 1/10.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.damping.trace import Trace, TraceRow
from laybare.errors import InvalidInput
from laybare.levels import FLOOR_LOSS, GRAM_LOSS, START_LOSS
from laybare.shapes import Event, Progress

DAMPING_FLOOR = 1e-14

@dataclass(frozen=True, kw_only=True)
class Effort:
    """When to stop. `floor` is the relative loss of rounding; `stall_gain` the least relative gain over `stall_steps` steps.

    `settled` is the least gain that a step must promise, and `rough` the least that two in a row must bring, in residual
    variances per unknown. Beyond `damping_limit` no step is tried.
    """

    max_steps: int = 150
    damping: float = 1e-2
    floor: float = FLOOR_LOSS
    stall_steps: int = 10
    stall_gain: float = 0.1
    settled: float = 1e-3
    rough: float = 1e-3
    damping_limit: float = 1e10


P = TypeVar("P")  # a point: parameters
K = TypeVar("K")  # what judging a point brought to light beside its loss: sums for the next system, or nothing
Y = TypeVar("Y")  # a system: what trials are made from


@dataclass(frozen=True, eq=False)
class Place(Generic[P, K]):
    """A point (the rule may have adjusted what is linear in it), its loss, and what the same pass told for the next system."""

    point: P
    loss: float
    sums: K


@dataclass(frozen=True, eq=False)
class Trial(Generic[P]):
    """Where a damped step leads, the gain that the model foretells, the largest change, and the passes that it took to find."""

    point: P
    predicted: float
    length: float = 0.0
    passes: int = 0


@runtime_checkable
class Proposals(Protocol[P, K, Y]):
    """A kind of step: where to go from a place that is known."""

    @property
    def passes(self) -> float:
        """Passes that `system` makes; a part of the data is a part of a pass."""

    def system(self, here: Place[P, K]) -> Y:
        """What trials from here are made of."""

    def trial(self, system: Y, damping: float) -> Trial[P]:
        """The step at a damping."""


@runtime_checkable
class Rule(Proposals[P, K, Y], Protocol[P, K, Y]):
    """A kind of step that can tell where it leads."""

    def judge(self, point: P) -> Place[P, K]:
        """The loss at a point, by one pass over the data; NaN if it has none."""


@dataclass(frozen=True, eq=False)
class Arrival(Generic[P, K]):
    """The best point with its loss and sums, and how the loop got there."""

    best: Place[P, K]
    trace: Trace


def damped_descent(
    rule: Rule[P, K, Y], start: P, scale: float, *,
    effort: Effort = Effort(), size: int = 1, overfit: float = 1.0, before: int = 0, progress: Progress | None = None,
) -> Arrival[P, K]:
    """Lower the loss from `start` until one of the reasons above; the loss never rises.

    `scale` is the unit of the relative loss; a pass touches `size` samples, and `before` passes were made already; `overfit`
    is P / (N - P), the share of the loss by which noise lowers it. Fails only if the loss is no number at the start, or where it
    was one before.
    """
    steps = descent(rule, start, scale, effort=effort, size=size, overfit=overfit, before=before, progress=progress)
    asked = next(steps)
    try:
        while True:
            try:
                there = rule.judge(asked)
            except KeyboardInterrupt as stop:
                asked = steps.throw(stop)
            else:
                asked = steps.send(there)
    except StopIteration as end:
        arrival: Arrival[P, K] = end.value
        return arrival


def descent(
    rule: Proposals[P, K, Y], start: P, scale: float, *,
    effort: Effort = Effort(), size: int = 1, overfit: float = 1.0, before: int = 0, progress: Progress | None = None,
) -> Generator[P, Place[P, K], Arrival[P, K]]:
    """The same, asking whoever runs it to judge one point after the other: several runs can then share their passes."""
    begun, reason = time.perf_counter(), ""
    here = yield start
    check_finite(here.loss)
    passes, damping = before + 1.0, effort.damping
    rows = [TraceRow(here.loss / scale, 0.0, damping, time.perf_counter() - begun, round(passes * size))]
    try:
        for step in range(effort.max_steps):
            reason = _finished(rows, effort, overfit)
            if reason:
                break
            tried = yield from _tried(rule, here, damping, effort, overfit, GRAM_LOSS * scale)
            passes += rule.passes + tried.passes
            if tried.there.loss < here.loss:
                trial, damping = tried.trial, eased(tried.damping, here.loss - tried.there.loss, tried.trial.predicted)
                here = tried.there
                rows.append(TraceRow(here.loss / scale, trial.length, damping, time.perf_counter() - begun, round(passes * size)))
                if progress is not None:
                    progress(Event("refining", step + 1, effort.max_steps, _detail(here.loss / scale, trial.passes)))
            reason = tried.reason
            if reason:
                break
    except KeyboardInterrupt:
        reason = "interrupted"
    return Arrival(here, Trace(tuple(rows), reason or "steps"))


@dataclass(frozen=True, eq=False)
class _Trials(Generic[P, K]):
    """Trials from one point: the last of them, where it led, its damping, the passes of all, and a reason to stop or nothing."""

    trial: Trial[P]
    there: Place[P, K]
    damping: float
    passes: float
    reason: str


def _tried(
    rule: Proposals[P, K, Y], here: Place[P, K], damping: float, effort: Effort, overfit: float, near: float
) -> Generator[P, Place[P, K], _Trials[P, K]]:
    system, passes, growth = rule.system(here), 0.0, 2.0
    while True:
        trial = rule.trial(system, damping)
        there = yield trial.point
        passes += trial.passes + 1
        if damping <= effort.damping and abs(trial.predicted) <= effort.settled * overfit * here.loss:
            return _Trials(trial, there, damping, passes, "settled")
        if there.loss < here.loss:  # NaN compares false: a non-finite trial is a rejected trial
            return _Trials(trial, there, damping, passes, "")
        if here.loss <= near and np.isfinite(there.loss):
            return _Trials(trial, there, damping, passes, "floor")
        if abs(trial.predicted) <= effort.settled * overfit * here.loss and np.isfinite(there.loss):
            return _Trials(trial, there, damping, passes, "flat")
        damping, growth = damping * growth, growth * 2.0
        if damping > effort.damping_limit:
            if not np.isfinite(there.loss):
                check_finite((yield here.point).loss)
            return _Trials(trial, there, damping, passes, "flat")


def eased(damping: float, gained: float, predicted: float) -> float:
    """Damping after an accepted step: less if the loss fell by half of what was predicted or more, else more (Nielsen 1999)."""
    ratio = 1.0 if gained >= predicted else gained / predicted
    return max(DAMPING_FLOOR, damping * max(0.1, 1.0 - (2.0 * ratio - 1.0) ** 3))


def _finished(rows: list[TraceRow], effort: Effort, overfit: float) -> str:
    """Why to stop here, or nothing: at the floor (also: next to it and no longer falling fast), settled, or without progress."""
    now = rows[-1].loss
    floor = max(effort.floor, START_LOSS) if len(rows) == 1 else effort.floor
    if now <= floor or (len(rows) > 1 and now <= GRAM_LOSS and now > 0.1 * rows[-2].loss):
        return "floor"
    least = effort.rough * overfit * now
    if len(rows) > 2 and max(rows[-3].loss - rows[-2].loss, rows[-2].loss - now) <= least:
        return "settled"
    back = effort.stall_steps
    return "stalled" if len(rows) > back and now > (1.0 - effort.stall_gain) * rows[-1 - back].loss else ""


def _detail(loss: float, passes: int) -> str:
    return f"relative loss {loss:.1e}" + (f", {passes} product{'s' * (passes != 1)}" if passes else "")


def check_finite(loss: float) -> None:
    """Refuse to go on from a loss that is no number."""
    if not np.isfinite(loss):
        raise InvalidInput(
            f"The squared error is {loss}.", "Some block of the data is no longer finite, or an output of the network overflows.",
            "Look for NaN in the data, for huge weights or targets, or rescale y.", loss=loss)
