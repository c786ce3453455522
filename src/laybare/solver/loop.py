"""The damped loop: try a step, accept it if the loss falls, adjust the damping, stop when nothing is left to gain.

At every accepted point the rule sets up a system (normal equations, say). At a damping μ the system gives a trial step,
(H + μD) δ = g, and the rule evaluates the loss there. If the loss has not fallen, μ grows by 2, 4, 8, ... and the same system
gives a shorter step. If it has, μ shrinks by up to ten, the more the better the model predicted the gain.

Stopping is by progress, not by the gradient: at the kinks of ReLU the empirical gradient of a stuck fit is of order 1/n. Reasons:
*floor* (of rounding), *stalled* (several steps gained too little), *settled* (a step promises too little), *flat* (no step
lowers the loss), *steps* (none left). An interrupt is raised as `FitInterrupt`, which carries the best point so far.

Settled: g'H⁻¹g is the gain that an undamped step promises, and σ²H⁻¹ is the covariance of the estimates, σ² = loss / (N - P) for
P unknowns in N equations. In units of σ² the promise is the squared length of the step in standard errors, summed over P
independent directions; at the truth its mean is P. A step that promises ε P σ² is therefore √ε of a standard error long, in the
mean over all directions, and raises the excess loss by a share ε: `Effort.gain_tol` is this ε. The loss of kinked units is rough:
short steps gain less than they promise. Two steps in a row that gain at most ε P σ² (`Effort.kink_tol`) settle the fit too.
Fits of noiseless data do not settle before the floor: near an exact fit a step promises all of the loss.
Source: Marquardt (1963); damping after Nielsen (1999), IMM-REP-1999-05, with the factor bounded below by 1/10.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.errors import Interrupted, InvalidInput
from laybare.numerics.checks import check_fields
from laybare.numerics.lazy import renamed_fields
from laybare.numerics.levels import FLOOR_LOSS, GRAM_LOSS, START_LOSS
from laybare.numerics.shapes import Event, Progress
from laybare.solver.options import work_of_step

FINISHED = ("floor", "settled", "stalled", "flat")
"""Reasons to stop that mean "nothing more to gain"."""


class TraceRow(NamedTuple):
    """One accepted point: relative loss, length of the step, damping, seconds since the start, samples touched so far."""

    loss: float
    step: float
    damping: float
    seconds: float
    samples: int


class Trace(NamedTuple):
    """The accepted points of a run and why it stopped: floor, settled, stalled, flat, steps, interrupted."""

    rows: tuple[TraceRow, ...]
    reason: str

    def __repr__(self) -> str:
        return f"Trace({len(self.rows)} points, {self.reason}, relative loss {self.loss:.1e})" if self.rows else "Trace()"

    @property
    def finished(self) -> bool:
        return self.reason in FINISHED

    @property
    def loss(self) -> float:
        """Relative loss at the end: residual sum of squares over the centred sum of squares of y."""
        return self.rows[-1].loss

    @property
    def samples(self) -> int:
        return self.rows[-1].samples

    def then(self, later: Trace) -> Trace:
        """Two runs, one after the other, as one."""
        last = self.rows[-1]
        moved = (row._replace(seconds=row.seconds + last.seconds, samples=row.samples + last.samples) for row in later.rows)
        return Trace(self.rows + tuple(moved), later.reason)

    @property
    def interrupted(self) -> bool:
        return self.reason == "interrupted"

    def __str__(self) -> str:
        lines = ["step  relative loss       step    damping   seconds"]
        lines += [f"{i:4d}  {r.loss:13.3e} {r.step:10.2e} {r.damping:10.1e} {r.seconds:9.2f}" for i, r in enumerate(self.rows)]
        return "\n".join([*lines, f"stopped: {self.reason}"])


@renamed_fields(settled="gain_tol", rough="kink_tol")
@dataclass(frozen=True, kw_only=True)
class Effort:
    """When to stop.

    `floor` is the relative loss of rounding; `stall_gain` the least relative gain over `stall_steps` steps. `gain_tol` is the
    least gain that a step must promise, `kink_tol` the least that two in a row must bring, both in residual variances per
    unknown. The damping stays above `damping_floor`; beyond `damping_limit` no step is tried.
    """

    max_steps: int = 150
    damping: float = 1e-2
    floor: float = FLOOR_LOSS
    stall_steps: int = 10
    stall_gain: float = 0.1
    gain_tol: float = 1e-3
    kink_tol: float = 1e-3
    damping_limit: float = 1e10
    damping_floor: float = 1e-14

    def __post_init__(self) -> None:
        check_fields(self)


P = TypeVar("P")  # a point: parameters
K = TypeVar("K")  # what the pass that gave the loss also gave: sums for the next system, or None
Y = TypeVar("Y")  # a system: what trial steps are computed from


@dataclass(frozen=True, eq=False)
class Iterate(Generic[P, K]):
    """Where a fit is, or ended: a point, its loss, sums of the same pass for the next system, and the steps that led there.

    A rule may have fitted the linear part of the point. `rows` is how many a pass of the fit touched, `runs` the number of runs
    after which two had ended here; 0: no two did.
    """

    point: P
    loss: float
    sums: K
    trace: Trace = Trace((), "")
    rows: int = 0
    runs: int = 0

    @property
    def agreed(self) -> bool:
        return self.runs > 0


@dataclass(frozen=True, eq=False)
class Trial(Generic[P]):
    """Where a damped step leads, its predicted gain, its largest change, and the passes that it took."""

    point: P
    predicted: float
    length: float = 0.0
    passes: int = 0


@runtime_checkable
class Proposals(Protocol[P, K, Y]):
    """How steps are proposed from a known iterate."""

    @property
    def passes(self) -> float:
        """Passes that `system` makes; a part of the rows counts as that part of a pass."""

    def system(self, here: Iterate[P, K]) -> Y:
        """What trial steps from here are computed from."""

    def trial(self, system: Y, damping: float) -> Trial[P]:
        """The step at a damping."""


@runtime_checkable
class Rule(Proposals[P, K, Y], Protocol[P, K, Y]):
    """A kind of step, and the loss where it leads."""

    def evaluate(self, point: P) -> Iterate[P, K]:
        """The loss at a point, by one pass over the data; NaN if it overflows."""


class FitInterrupt(Interrupted):
    """Somebody wants to stop, and `best` is the best so far."""

    def __init__(self, best: Any, stop: KeyboardInterrupt) -> None:
        super().__init__(*stop.args)
        self.best = best


@contextmanager
def best_so_far(known: Any = None, view: Callable[[Any], Any] = lambda best: best) -> Iterator[None]:
    """An interrupt inside carries the better of `known` and of what it carried before, seen by `view`.

    `known` is a fit, or a function that gives one when it is needed.
    Losses are compared as shares of the variation of y, so that fits to some of the rows and to all compare.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        fits = [known() if callable(known) else known, view(stop.best) if isinstance(stop, FitInterrupt) else None]
        best = min((fit for fit in fits if fit is not None), key=lambda fit: fit.trace.loss, default=None)
        if best is None:
            raise
        raise FitInterrupt(best, stop) from stop


class FitScale(NamedTuple):
    """Units of a fit: of the relative `loss`; `rows` that a pass touches; `passes` that were made before.

    `overfit` is P / (N - P) for P unknowns in N equations, the share by which fitting noise lowers the loss. For what a step
    costs, `unknowns` is their number, and `normal` says how many normal equations of all rows it forms.
    """

    loss: float
    rows: int = 1
    overfit: float = 1.0
    passes: int = 0
    unknowns: int = 0
    normal: int = 0


def damped_descent(
    rule: Rule[P, K, Y], start: P, scale: FitScale, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Iterate[P, K]:
    """Lower the loss from `start` until one of the reasons above.

    Raises if the loss at an accepted point is not finite, and FitInterrupt with the result so far.
    """
    steps = damped_steps(rule, start, scale, effort=effort, progress=progress)
    asked = next(steps)
    try:
        while True:
            try:
                there = rule.evaluate(asked)
            except KeyboardInterrupt as stop:
                asked = steps.throw(stop)
            else:
                asked = steps.send(there)
    except StopIteration as end:
        result: Iterate[P, K] = end.value
        return result


def damped_steps(
    rule: Proposals[P, K, Y], start: P, scale: FitScale, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Generator[P, Iterate[P, K], Iterate[P, K]]:
    """The same as a generator that yields points and is sent their iterates: several runs can then share their passes."""
    begun, reason, work = time.perf_counter(), "", 0.0
    here = yield start
    check_finite(here.loss)
    passes, damping = scale.passes + 1.0, effort.damping

    def row(step: float) -> TraceRow:
        return TraceRow(here.loss / scale.loss, step, damping, time.perf_counter() - begun, round(passes * scale.rows))

    rows = [row(0.0)]
    try:
        for step in range(effort.max_steps):
            reason = _reason_to_stop(rows, effort, scale.overfit)
            if reason:
                break
            tried = yield from _try_dampings(rule, here, damping, effort, scale)
            passes += rule.passes + tried.passes
            work += work_of_step(scale.rows, scale.unknowns, scale.normal, rule.passes + tried.passes)
            if tried.there.loss < here.loss:
                trial, gained, here = tried.trial, here.loss - tried.there.loss, tried.there
                damping = next_damping(tried.damping, gained, trial.predicted, effort.damping_floor)
                rows.append(row(trial.length))
                if progress is not None:
                    progress(Event("refining", step + 1, effort.max_steps, _detail(here.loss / scale.loss, trial.passes), work))
                work = 0.0
            reason = tried.reason
            if reason:
                break
    except KeyboardInterrupt as stop:
        raise FitInterrupt(replace(here, trace=Trace(tuple(rows), "interrupted"), rows=scale.rows), stop) from stop
    return replace(here, trace=Trace(tuple(rows), reason or "steps"), rows=scale.rows)


@dataclass(frozen=True, eq=False)
class _Trials(Generic[P, K]):
    """Trials from one point: the last one, where it led, its damping; the passes of all; a reason to stop, or ""."""

    trial: Trial[P]
    there: Iterate[P, K]
    damping: float
    passes: float
    reason: str


def _try_dampings(
    rule: Proposals[P, K, Y], here: Iterate[P, K], damping: float, effort: Effort, scale: FitScale
) -> Generator[P, Iterate[P, K], _Trials[P, K]]:
    system, passes, growth = rule.system(here), 0.0, 2.0
    small = effort.gain_tol * scale.overfit * here.loss
    while True:
        trial = rule.trial(system, damping)
        there = yield trial.point
        passes += trial.passes + 1
        if damping <= effort.damping and abs(trial.predicted) <= small:
            return _Trials(trial, there, damping, passes, "settled")
        if there.loss < here.loss:  # NaN compares false: a non-finite trial is a rejected trial
            return _Trials(trial, there, damping, passes, "")
        if here.loss <= GRAM_LOSS * scale.loss and np.isfinite(there.loss):
            return _Trials(trial, there, damping, passes, "floor")
        if abs(trial.predicted) <= small and np.isfinite(there.loss):
            return _Trials(trial, there, damping, passes, "flat")
        damping, growth = damping * growth, growth * 2.0
        if damping > effort.damping_limit:
            if not np.isfinite(there.loss):
                check_finite((yield here.point).loss)
            return _Trials(trial, there, damping, passes, "flat")


def next_damping(damping: float, gained: float, predicted: float, floor: float) -> float:
    """Damping after an accepted step: less if the loss fell by at least half of what was predicted, else more (Nielsen 1999)."""
    ratio = 1.0 if gained >= predicted else gained / predicted
    return max(floor, damping * max(0.1, 1.0 - (2.0 * ratio - 1.0) ** 3))


def _reason_to_stop(rows: list[TraceRow], effort: Effort, overfit: float) -> str:
    """Why to stop here, or "": at the floor (or near it and not falling fast), settled, or stalled."""
    now = rows[-1].loss
    floor = max(effort.floor, START_LOSS) if len(rows) == 1 else effort.floor
    if now <= floor or (len(rows) > 1 and now <= GRAM_LOSS and now > 0.1 * rows[-2].loss):
        return "floor"
    least = effort.kink_tol * overfit * now
    if len(rows) > 2 and max(rows[-3].loss - rows[-2].loss, rows[-2].loss - now) <= least:
        return "settled"
    back = effort.stall_steps
    return "stalled" if len(rows) > back and now > (1.0 - effort.stall_gain) * rows[-1 - back].loss else ""


def _detail(loss: float, passes: int) -> str:
    return f"relative loss {loss:.1e}" + (f", {passes} product{'s' * (passes != 1)}" if passes else "")


def check_finite(loss: float) -> None:
    """Raise where the loss is not finite."""
    if not np.isfinite(loss):
        raise InvalidInput(
            f"The squared error is {loss}.", "Some block of the data is no longer finite, or an output of the network overflows.",
            "Look for NaN in the data, for huge weights or targets, or rescale y.", loss=loss)
