"""After how many queries does an outsider hold a copy? Every budget and every defence, each answer paid for once.

The attack that was best so far goes first with a larger budget; the others are tried while no copy is within one per cent. What
a smaller budget gave is kept. A defence makes no attack easier: budgets that did not do without it are not tried behind it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import nan
from os import PathLike
from typing import Any

import numpy as np

from laybare.activations import as_activation
from laybare.auditing.attacks import ATTACK, AttackResult, AttackSetting, CachedBlackBox, run_attack, ways_against
from laybare.auditing.copy_error import CHECK, NO_COPY, CheckOptions, CheckRows
from laybare.auditing.defences import Defence, parse_defence
from laybare.auditing.outcome import Audit, AuditOrigin, AuditRow, DefenceRow, largest_failure, queries_to, yearly_quota
from laybare.errors import InvalidInput, LaybareError, Unidentifiable
from laybare.numerics.checks import check_instance, check_memory, check_sizes, check_whole, show_value
from laybare.numerics.levels import EPS
from laybare.numerics.progress import resolve_progress
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.pipeline.arguments import as_method
from laybare.pipeline.recovery import Recovery
from laybare.source import Gaussian, Law, Oracle, as_target
from laybare.source.oracle.links import are_probabilities
from laybare.source.oracle.regions import check_inputs, read_rows
from laybare.version import __version__

BUDGETS = (100, 300, 1000, 3000, 10_000)
"""Queries granted to the attacks of an audit. Convention: steps of about √10."""

LARGEST_DOUBT = 0.1
"""A verified network whose copy is off by more, at more than one input in a hundred, is called doubtful. Convention: ten per
cent of the spread; weights that are verified are better known."""

CONSTANT = 8.0 * EPS
"""Spread of answers, relative to their size, that is rounding. Derived: a sum of a few terms rounds as often."""

MOST_LABELS = 50
"""Different whole numbers that are taken for classes. Convention: more are counts."""


@np.errstate(all="ignore")
def audit(
    target: Any, budgets: Sequence[int] = BUDGETS, *, dim: int | None = None, law: Law = Gaussian(), link: str | None = None,
    box: Any = None, inputs: Any = None, log: str | PathLike[str] | None = None, method: Any = None, activation: Any = None,
    defences: Sequence[str] = (), check: int = CHECK.queries, rng: int = 0, progress: Any = None, command: str = "",
) -> Audit:
    """After how many queries an outsider holds a copy of a model that answers like it.

    Parameters
    ----------
    target, dim, law, link, box, inputs, log : as for Oracle
    budgets : queries granted, from few to many
    method, activation : as for recover
    defences : names of defences to put before the model, such as "round:3", "float16", "label", "noise:0.01", "cap:100"
    check : queries, beside the budgets, at inputs that no attack sees; they bound the error of every copy
    rng : seed; the runs differ in their budgets alone
    progress : callable or True, as for recover; the detail of every event names the budget
    command : what was typed, for the report

    Three attacks are tried (`laybare.auditing.attacks`). One run's answers serve the others: without defences all
    budgets together cost at most twice the largest, and the check. Every defence is asked anew where its answers lead
    elsewhere. An interrupt (Ctrl-C) ends the audit with the rows that are done, and so does a model that answers no more.
    """
    if isinstance(target, Oracle):
        raise InvalidInput(
            "The audit was given an Oracle.", "It makes one for every budget.", "Give the model itself: audit(model, dim=...).")
    sizes, rng = _check_budgets(budgets), check_whole("rng", rng, 0)
    check_instance("command", command, str, "Give what was typed, or leave it out.")
    chosen = tuple(parse_defence(text) for text in _as_names(defences))
    activation = None if activation is None else as_activation(activation)
    choices = {"method": as_method(method, activation), "activation": activation}
    options = replace(CHECK, queries=check_whole("check", check, 2))
    most = (2 + 2 * len(chosen)) * sum(sizes) + options.queries
    known = as_target(target)
    _check_memory(known.dim if dim is None else dim, sizes[-1], options)
    payer = Oracle(known, dim, law=law, budget=most, log=log, link="identity", box=box, inputs=inputs, rng=rng)
    shared = CachedBlackBox(lambda x: payer.ask(x, gaps=True))
    asking = {"law": law, "link": link, "box": box, "inputs": inputs}
    setting = AttackSetting(shared, known, payer.dim, "outputs", 1, asking, choices, rng)
    answers = _check_rows(setting, inputs, options)
    _check_that_answers_differ(answers[1], _inputs_in_words(payer))
    with resolve_progress(progress) as listener:
        run = _AuditRun(setting, sizes, chosen, options, answers, listener)
        run.measure()
    origin = AuditOrigin(
        datetime.now(UTC).isoformat(timespec="seconds"), command, rng, __version__, _versions(), _inputs_in_words(payer),
        shared.fingerprint)
    return Audit(
        payer.name, payer.dim, tuple(run.rows), payer.spent, len(run.check.x), run.found, run.check.kind, tuple(run.defended),
        origin, run.interrupted, run.failure, options)


class _AuditRun:
    """Rows as they come; an interrupt leaves those that are done."""

    def __init__(
        self, setting: AttackSetting, sizes: Sequence[int], defences: Sequence[Defence], options: CheckOptions,
        answers: tuple[Array, Array], progress: Progress | None,
    ) -> None:
        x, y = answers
        kind = _kind_of(y, setting.asking["link"] or setting.target.link)
        ways = len(ways_against(kind))
        self.check = CheckRows(x, y, kind, options, looks=ways * len(sizes))
        self.check.check_size()
        self.setting = replace(setting, kind=kind, columns=y.shape[1])
        self.sizes, self.defences = sizes, list(defences)
        self.rows: list[AuditRow] = []
        self.defended: list[DefenceRow] = []
        self.found: Recovery | None = None
        self.interrupted, self.failure = False, ""
        self._steps = _StepClock(len(sizes) + len(sizes) * len(self.defences), progress)

    def measure(self) -> None:
        """All budgets, then all defences."""
        try:
            attack = _BudgetSeries(self.setting, self.check, self._steps)
            for budget in self.sizes:
                self.rows.append(attack.extend(budget, f"budget {budget:,}"))
                self.found = attack.found or self.found
            for defence in self.defences:
                self.defended.append(self._behind(defence))
        except KeyboardInterrupt:
            self.interrupted = True
        except LaybareError as failure:  # the black box answers no more
            if not self.rows:
                raise
            self.failure = str(failure)

    def _behind(self, defence: Defence) -> DefenceRow:
        """Queries to a copy behind a defence."""
        begun, rows = time.perf_counter(), tuple(self.rows)
        options, within, sentence = self.check.options, self.sizes[-1], ""
        near = queries_to(rows, options.near)
        if not defence.applies(self.check.kind):
            sentence = f"it changes nothing about {self.check.kind}" if defence.form != "label" else "the model gives no classes"
        elif near is None and defence.form != "label":
            sentence = "no copy was shown without a defence either"
        elif defence.daily is None:
            rows = self._attack_behind(defence)
        best = rows[-1] if rows else None
        near, exact = queries_to(rows, options.near), queries_to(rows, options.exact)
        bare = tuple(self.rows) if defence.kind(self.check.kind) == self.check.kind else ()
        failed = max(largest_failure(bare, options.near), largest_failure(rows, options.near))
        low, high, same = (nan, nan, nan) if best is None else (best.error_low, best.error_high, best.agreement)
        days = nan if defence.daily is None else (near or within) / defence.daily
        return DefenceRow(
            defence.name, defence.description, near, exact, failed, within, yearly_quota(near, failed), days,
            low, high, same, time.perf_counter() - begun, sentence, any(row.late for row in (*self.rows, *rows)))

    def _attack_behind(self, defence: Defence) -> tuple[AuditRow, ...]:
        """Rows behind a defence, from the first budget that did without it. Once there is a copy, the largest says how exact."""
        rng = np.random.default_rng([self.setting.seed, 1])
        kind = defence.kind(self.check.kind)
        box = CachedBlackBox(defence.guard(self._ask_again, self.check, rng))
        labels = kind == "labels"
        setting = replace(self.setting, cached=box, kind=kind, columns=1 if labels else self.setting.columns)
        check = self.check
        if labels:
            answers = defence.guard(lambda _: self.check.answers, check, rng)(check.x)
            check = CheckRows(check.x, answers, kind, check.options, check.looks)
        attack, rows = _BudgetSeries(setting, check, self._steps), list[AuditRow]()
        for row in self.rows:
            last, needed = row is self.rows[-1], row.error_high <= check.options.near or labels
            if last or (needed and not (rows and rows[-1].error_high <= check.options.near)):
                rows.append(attack.extend(row.budget, f"{defence.name}, budget {row.budget:,}"))
            else:
                self._steps.skip()
        return tuple(rows)

    def _ask_again(self, x: Array) -> Array:
        """The model's own answers: a point that any run has asked is not asked again."""
        self.setting.cached.rewind()
        return self.setting.cached(x)


class _BudgetSeries:
    """Attacks on one black box with growing budgets. The best copy so far is kept."""

    def __init__(self, setting: AttackSetting, check: CheckRows, steps: _StepClock) -> None:
        self.setting, self.check, self.steps = setting, check, steps
        self.best: AttackResult | None = None
        self.found: Recovery | None = None
        self.late = False
        """Whether the wall clock ended an attack: what was tried after that may depend on it as well."""
        self.deep = False
        """Whether lines have met a second layer: a search on samples has one."""

    def extend(self, budget: int, said: str) -> AuditRow:
        """The row of the next budget."""
        attempts: list[AttackResult] = []
        listener = self.steps.begin(said)
        for way in () if self.complete else self._order():
            attempts.append(run_attack(way, self.setting, budget, self.check, listener))
            self._keep(attempts[-1])
            if self.best is not None and self.best.error.high <= self.check.options.near:
                break
        self.steps.end()
        self.late = self.late or any(one.late for one in attempts)
        return _row(budget, self.best, attempts, self.found)._replace(late=self.late)

    @property
    def complete(self) -> bool:
        """Whether more queries have nothing to add: the copy is exact, and its weights, if it has any, are verified."""
        best = self.best
        exact = best is not None and best.error.high <= self.check.options.exact
        return exact and (best.found is None or best.found.certificate.verdict == "verified")  # type: ignore[union-attr]

    def _order(self) -> Iterator[str]:
        """Attacks, that which was best first."""
        first = None if self.best is None else self.best.way
        given = self.setting.choices.get("method") is not None
        ways = ("lines",) if given and self.setting.kind != "labels" else ways_against(self.setting.kind)
        for way in sorted(ways, key=lambda way: way != first):
            if way != "samples" or not self.deep:
                yield way

    def _keep(self, attempt: AttackResult) -> None:
        if attempt.found is not None and attempt.way == "lines":
            self.deep = attempt.found.network.depth > 1 or attempt.found.network.top is not None
            self.found = attempt.found
        before = NO_COPY if self.best is None else self.best.error
        if self._certain(attempt) or max(attempt.error.high, self.check.options.exact) < before.high:
            self.best, self.found = attempt, attempt.found or self.found


    def _certain(self, attempt: AttackResult) -> bool:
        """Whether it is as exact, and verified."""
        exact = attempt.error.high <= self.check.options.exact
        return exact and attempt.found is not None and attempt.found.certificate.verdict == "verified"


def _row(budget: int, best: AttackResult | None, attempts: Sequence[AttackResult], read: Recovery | None) -> AuditRow:
    """The best copy; weights of its recovery, or of what was read in part."""
    shown = best or attempts[0]
    error, found = shown.error, shown.found or read
    refusals = " ".join(f"{one.way}: {one.sentence}" for one in attempts if one.sentence) if best is None else ""
    seconds = sum(one.seconds for one in attempts)
    copied = (
        budget, shown.queries, "none" if best is None else best.way, error.error, error.low, error.high, error.rms,
        error.agreement, error.agreement_low)
    if found is None:
        verdict = "none" if best is not None else "refused"
        return AuditRow(*copied, verdict, 0, (), "", nan, seconds, refusals)
    network, verdict = found.network, found.certificate.verdict
    if verdict == "verified" and shown.found is found and error.low > LARGEST_DOUBT:
        verdict, refusals = "doubtful", "its certificate was passed, and inputs of the check contradict it"
    return AuditRow(
        *copied, verdict, sum(network.widths), tuple(network.widths), network.activations, _error_bar(found), seconds, refusals)


@dataclass
class _StepClock:
    """How far the audit is, and about how long it will take."""

    total: int
    progress: Progress | None
    done: int = 0
    measured: int = 0
    begun: float = 0.0

    def begin(self, said: str) -> Progress | None:
        """Events of one step, with its name and the time left in their detail."""
        self.begun = self.begun or time.monotonic()
        spent, left = time.monotonic() - self.begun, self.total - self.done
        words = f"{said} ({self.done + 1} of {self.total})"
        if self.measured:
            words += f", about {_duration(spent / self.measured * left)} left"
        report_progress(self.progress, "audit", self.done, self.total, words)
        progress = self.progress
        if progress is None:
            return None
        return lambda event: progress(event._replace(detail="; ".join(filter(None, (event.detail, words)))))

    def end(self) -> None:
        """A step was measured."""
        self.done, self.measured = self.done + 1, self.measured + 1

    def skip(self) -> None:
        """A step need not be measured."""
        self.total -= 1


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


def _check_memory(dim: Any, budget: int, options: CheckOptions) -> None:
    """Refuse, before anything is drawn, what attacks with the largest budget would have no memory for."""
    if dim is not None:
        inputs = check_whole("dim", dim)
        rows = ATTACK.row_copies * budget + options.queries + ATTACK.student_copies * ATTACK.surrogate_units[0]
        check_memory(
            f"An audit of {inputs:,} inputs with {budget:,} queries", rows * inputs, "Give smaller budgets, or fewer inputs.")


def _check_rows(setting: AttackSetting, inputs: Any, options: CheckOptions) -> tuple[Array, Array]:
    """Inputs that no attack draws, and the answers there; rows of the user where there are enough of them."""
    oracle = setting.oracle(max(2, options.queries), setting.seed + 1)
    x = oracle.typical(options.queries)
    rows = None if check_inputs(inputs) else read_rows(inputs, setting.dim)
    if rows is not None and oracle.box is None and len(rows.x) >= options.queries:
        x = np.random.default_rng([setting.seed, 2]).permutation(rows.x)[: options.queries]
    y = setting.cached(np.ascontiguousarray(x))
    usable = np.isfinite(y).all(axis=1)
    return x[usable], y[usable]


def _check_that_answers_differ(y: Array, where: str) -> None:
    """Refuse a model that is constant where it is asked: every constant would be a perfect copy of it there."""
    if len(y) > 1 and np.ptp(y, axis=0).max() <= CONSTANT * np.abs(y).max():
        raise Unidentifiable(
            f"All {len(y):,} answers at {where} are {float(y[0, 0]):.6g}.",
            "A copy is judged by how it follows the model's answers, and these do not move.",
            "Say where the model's inputs lie: rows of them as inputs=, or their range as box=.")


def _kind_of(answers: Array, link: str | None) -> str:
    if link in ("logit", "softmax") or (link is None and are_probabilities(answers)):
        return "probabilities"
    whole = link is None and answers.shape[1] == 1 and np.array_equal(answers, np.round(answers))
    return "labels" if whole and 1 < len(np.unique(answers)) <= min(MOST_LABELS, len(answers) // 2) else "outputs"


def _error_bar(found: Recovery) -> float:
    errors, weights = found.certificate.standard_errors.weights, np.asarray(found.network.layer.weights)
    if errors.shape != weights.shape or not errors.size:
        return nan
    return float((errors / np.maximum(np.linalg.norm(weights, axis=1), np.finfo(float).tiny)[:, None]).max())


def _inputs_in_words(oracle: Oracle) -> str:
    if oracle.region is not None:
        return f"inputs {oracle.region.said}"
    return "inputs in the box" if oracle.box is not None else "standard normal inputs"


def _versions() -> str:
    import scipy

    return f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.system()}"


def _as_names(defences: Any) -> tuple[str, ...]:
    try:
        names = None if isinstance(defences, str) else tuple(defences)
    except Exception:  # whatever an object does when it is taken apart
        names = None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            f"defences is {show_value(defences)}.", "It is a list of names.",
            "Give a list, such as defences=['round:3', 'label'].")
    return tuple(dict.fromkeys(names))


def _check_budgets(budgets: Sequence[int]) -> list[int]:
    return sorted(set(check_sizes("budgets", budgets, 2, "(100, 300, 1000)")))
