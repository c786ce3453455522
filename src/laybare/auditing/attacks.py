"""What an outsider can do with a number of queries: three attacks, each of which gives a copy or a reason.

    lines       the weights are read along lines (`laybare.methods.Lines`), or fitted in rounds where lines do not apply
    samples     inputs are drawn, and the network behind the pairs is recovered: slower, and rounding is only noise to it
    surrogate   a network of scikit-learn is trained on the same pairs: no weights, and all that labels allow

A copy answers as the model does: probabilities where the model gives probabilities, labels where it gives labels.

Searches end by work, which is counted from sizes, and run on one thread: what an attack brings depends on the seed and not on
what else the machine does. Time is a limit too, for machines that are very slow; a row that it ended says so.

All runs of an audit have one log: no query is asked twice, and its fingerprint says which answers the audit rests on.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from laybare.auditing.copy_error import NO_COPY, CheckRows, CopyError
from laybare.certificate import ClaimName
from laybare.errors import Interrupted, LaybareError
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.pipeline.main_loop import recover
from laybare.pipeline.monitor import SearchLimit
from laybare.pipeline.recovery import Recovery
from laybare.source import Gaussian, Oracle, Samples, Schedule, Target, Unknown
from laybare.source.oracle.links import link_named
from laybare.source.samples import row_keys


class CachedBlackBox:
    """A black box that is asked each query once. After `rewind` the answers are given again in the order in which they came.

    So a point that was asked twice, to measure noise, has its two answers again.
    """

    def __init__(self, ask: Callable[[Array], Array]) -> None:
        self._ask = ask
        self._answers: dict[bytes, list[Array]] = {}
        self._given: Counter[bytes] = Counter()
        self._hash = blake2b(digest_size=16)
        self.failure: LaybareError | None = None
        """Why the black box did not answer, once it did not."""

    def rewind(self) -> None:
        """A new run begins."""
        self._given.clear()

    @property
    def fingerprint(self) -> str:
        """Hash of all queries and answers so far, in their order; 32 hex digits."""
        return self._hash.hexdigest()

    def __call__(self, x: Array) -> Array:
        numbers, keys = [], row_keys(x)
        given = self._given.copy()
        for key in keys:
            numbers.append(given[key])
            given[key] += 1
        new = [i for i, key in enumerate(keys) if numbers[i] >= len(self._answers.get(key, ()))]
        if new:
            try:
                answers = self._ask(x[new])
            except LaybareError as error:
                self.failure = error
                raise
            self._hash.update(np.ascontiguousarray(x[new]).tobytes() + np.ascontiguousarray(answers).tobytes())
            for i, answer in zip(new, answers, strict=True):
                self._answers.setdefault(keys[i], []).append(answer)
        self._given = given
        return np.array([self._answers[key][number] for key, number in zip(keys, numbers, strict=True)])


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """How much work an attack does."""

    limit: SearchLimit = SearchLimit(600.0, work=5.0)  # of a search on samples. Convention: five budgets take minutes.
    student_copies: int = 6  # of its first weights. Derived: weights, gradient, two moments of Adam, the best so far, one spare.
    surrogate_units: tuple[int, int] = (128, 64)  # Convention: two layers, wider than most networks that are asked.
    surrogate_steps: int = 200  # passes over the pairs. Convention: the default of scikit-learn.
    surrogate_patience: int = 20  # passes without progress. Convention: twice the default of scikit-learn.
    row_copies: int = 6  # of all rows that an attack holds. Derived: drawn, usable, standardised, split in two, one block.
    least_rows: int = 20  # pairs from which a surrogate is trained. Derived: a tenth is held out, and that is two.


ATTACK = AttackOptions()

ONE_THREAD = Schedule(workers=1)
"""Two runs that go on at once tell of their work in an order that depends on the machine."""


@dataclass(frozen=True)
class AttackSetting:
    """A black box, how it is asked in every run, and what recoveries are told."""

    cached: CachedBlackBox
    target: Target
    dim: int
    kind: str
    columns: int
    asking: dict[str, Any]
    choices: dict[str, Any]
    seed: int

    def oracle(self, budget: int, seed: int | None = None) -> Oracle:
        """A new run: the answers so far are given again."""
        self.cached.rewind()
        target = replace(self.target, ask=self.cached, dim=self.dim)
        rng = np.random.default_rng([self.seed if seed is None else seed, 0])
        return Oracle(target, budget=budget, rng=rng, schedule=ONE_THREAD, **self.asking)


class AttackResult(NamedTuple):
    """One attack with one budget: the error of its copy, the queries it took, what was recovered, or why there is none."""

    way: str
    error: CopyError
    queries: int
    seconds: float
    found: Recovery | None = None
    sentence: str = ""

    @property
    def late(self) -> bool:
        """Whether the wall clock ended it: on another machine it may bring something else."""
        return self.found is not None and any(claim.name == ClaimName.TIME_LIMIT for claim in self.found.certificate.checks)


Copy = Callable[[Array], Array]
"""x (n, dim) -> answers (n, columns), as the model gives them."""


class CopyFromAttack(NamedTuple):
    """What an attack brought: a copy if there is one, the recovery behind it, and the queries that it needed."""

    copy: Copy | None
    found: Recovery | None
    queries: int


def run_attack(
    way: str, setting: AttackSetting, budget: int, check: CheckRows, progress: Progress | None
) -> AttackResult:
    """Carry out one attack and judge its copy. A refusal is an attempt without a copy; interrupts and failures of the black
    box are raised."""
    begun, oracle = time.perf_counter(), setting.oracle(budget)
    brought, error, refusal = CopyFromAttack(None, None, 0), NO_COPY, ""
    try:
        brought = WAYS[way](setting, oracle, progress)
        error = NO_COPY if brought.copy is None else check.judge(brought.copy)
    except LaybareError as refused:
        brought, refusal = brought._replace(queries=oracle.spent), str(refused)
    if oracle.ended or (brought.found is not None and brought.found.interrupted):
        raise Interrupted("the budget under way is left out")
    if setting.cached.failure is not None:  # a black box that answers no more has refused no attack
        raise setting.cached.failure
    return AttackResult(way, error, brought.queries, time.perf_counter() - begun, brought.found, refusal)


def read_along_lines(setting: AttackSetting, oracle: Oracle, progress: Progress | None) -> CopyFromAttack:
    """Recover with all that the library has; layers under a black box are not a copy."""
    found = recover(oracle, rng=setting.seed, progress=progress, seconds=ATTACK.limit, **setting.choices)
    copy = _copy_of(found, oracle, setting.columns) if found.network.top is None else None
    return CopyFromAttack(copy, found, found.reading_queries or oracle.spent)


def fit_samples(setting: AttackSetting, oracle: Oracle, progress: Progress | None) -> CopyFromAttack:
    """Recover from pairs alone, within a limit of work."""
    x, y = _usable_pairs(oracle)
    law = oracle.law if isinstance(oracle.law, Gaussian) else Unknown()
    choices = setting.choices if setting.choices.get("method") is None else {}
    pairs = Samples(x, y, law=law, schedule=ONE_THREAD)
    found = recover(pairs, rng=setting.seed, progress=progress, seconds=ATTACK.limit, **choices)
    return CopyFromAttack(_copy_of(found, oracle, setting.columns), found, oracle.spent)


def train_surrogate(setting: AttackSetting, oracle: Oracle, progress: Progress | None) -> CopyFromAttack:
    """A student of scikit-learn. Labels are learnt as classes, everything else as numbers."""
    report_progress(progress, "surrogate", 0, 0, f"{oracle.budget:,} answers")
    x = oracle.typical(oracle.budget)
    y = setting.cached(x)
    usable = np.isfinite(y).all(axis=1)
    if usable.sum() < ATTACK.least_rows:
        return CopyFromAttack(None, None, len(x))
    return CopyFromAttack(_student(x[usable], y[usable], setting.kind, setting.seed), None, len(x))


WAYS: dict[str, Callable[[AttackSetting, Oracle, Progress | None], CopyFromAttack]] = {
    "lines": read_along_lines, "samples": fit_samples, "surrogate": train_surrogate}
"""Attacks, those that give most first."""


def ways_against(kind: str) -> tuple[str, ...]:
    """The attacks that answers of this kind allow."""
    return ("surrogate",) if kind == "labels" else tuple(WAYS)


def _copy_of(found: Recovery, oracle: Oracle, columns: int) -> Copy:
    """Answers from outputs: probabilities of all columns where the link makes log-odds of them."""
    link = link_named(oracle.link_in_use)

    def answer(x: Array) -> Array:
        outputs = np.asarray(found(x)).reshape(len(x), -1)
        given = link.inverse(outputs)
        missing = columns > given.shape[1]
        return np.column_stack([1.0 - given.sum(axis=1), given]) if missing else given

    return answer


def _usable_pairs(oracle: Oracle) -> tuple[Array, Array]:
    x = oracle.typical(oracle.budget)
    y = oracle.ask(x, gaps=True)
    usable = np.isfinite(y).all(axis=1)
    return x[usable], y[usable]


def _student(x: Array, y: Array, kind: str, seed: int) -> Copy:
    """A network of scikit-learn on standardised pairs."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    given = {
        "hidden_layer_sizes": ATTACK.surrogate_units, "max_iter": ATTACK.surrogate_steps,
        "random_state": seed % (1 << 32),  # scikit-learn takes no larger seeds
        "n_iter_no_change": ATTACK.surrogate_patience}
    if kind == "labels":
        if (y == y[0]).all():
            return lambda points: np.full((len(points), 1), y[0, 0])
        predict = _fitted(MLPClassifier(**given), x, y[:, 0])
        return lambda points: np.asarray(predict(points), dtype=float)[:, None]
    mean, scale = y.mean(axis=0), np.where(y.std(axis=0) > 0.0, y.std(axis=0), 1.0)
    told = (y - mean) / scale
    predict = _fitted(MLPRegressor(**given, early_stopping=True), x, told[:, 0] if told.shape[1] == 1 else told)
    return lambda points: np.asarray(predict(points)).reshape(len(points), -1) * scale + mean


def _fitted(model: Any, x: Array, y: Array) -> Callable[[Array], Any]:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    chosen = make_pipeline(StandardScaler(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not have converged
        warnings.filterwarnings("error", message="Training interrupted")
        try:
            chosen.fit(x, y)
        except UserWarning:
            raise Interrupted("a surrogate was being trained") from None
    return chosen.predict  # type: ignore[no-any-return]
