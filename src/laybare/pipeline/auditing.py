"""How much of a model can be read from how many queries: a recovery for every budget, each answer paid for once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from laybare.activations import as_activation
from laybare.errors import Interrupted, InvalidInput, LaybareError
from laybare.networks.storage import write_atomically
from laybare.numerics.checks import check_sizes, check_whole
from laybare.numerics.progress import resolve_progress
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.pipeline.arguments import as_method
from laybare.pipeline.main_loop import recover
from laybare.pipeline.recovery import Recovery
from laybare.source import Gaussian, Law, Oracle, Target, as_target
from laybare.source.arrays import row_keys

BUDGETS = (100, 300, 1000, 3000)
"""Queries granted to the recoveries of an audit. Convention: steps of about √10."""

CHECK_QUERIES = 200
"""Queries, beside the budgets, at inputs that no recovery sees. Derived: the functional error is known to 1/√400, a twentieth."""


class AuditRow(NamedTuple):
    """The result of one budget.

    `verdict` is that of the certificate, or "refused", and then `sentence` says why; `units` that were recovered, of
    `activation`; `error_bar`, the largest standard error of a weight relative to the length of its row; `functional_error`, root
    mean square difference at inputs that were not used, relative to the spread of the outputs. NaN where there is no network.
    """

    budget: int
    queries: int
    verdict: str
    units: int
    activation: str
    error_bar: float
    functional_error: float
    seconds: float
    sentence: str = ""


@dataclass(frozen=True)
class Audit:
    """Recovered units, errors and verdicts against queries; `paid` counts every query, `checked` those of the check among them.

    `found` is the recovery with the largest budget that gave one.
    """

    model: str
    dim: int
    rows: tuple[AuditRow, ...]
    paid: int
    checked: int
    found: Recovery | None

    def __str__(self) -> str:
        from laybare.report.page import audit_text

        return audit_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import audit_html

        return audit_html(self)

    def figure(self) -> str:
        """Units, error bars and functional error against queries, as SVG text."""
        from laybare.report.page import audit_figure

        return audit_figure(self).svg()

    def report(self, path: str | PathLike[str]) -> None:
        """Write a self-contained HTML page."""
        from laybare.report.page import audit_html

        write_atomically(path, audit_html(self).encode())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text; what is not there is None."""
        rows = [{name: None if value != value else value for name, value in row._asdict().items()} for row in self.rows]
        return {"model": self.model, "dim": self.dim, "paid": self.paid, "checked": self.checked, "rows": rows}

    def json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict())


class CachedBlackBox:
    """A black box that is asked each query once. After `rewind` the answers are given again in the order in which they came.

    So a point that was asked twice, to measure noise, has its two answers again.
    """

    def __init__(self, ask: Callable[[Array], Array]) -> None:
        self._ask = ask
        self._answers: dict[bytes, list[Array]] = {}
        self._given: Counter[bytes] = Counter()

    def rewind(self) -> None:
        """A new run begins."""
        self._given.clear()

    def __call__(self, x: Array) -> Array:
        numbers, keys = [], row_keys(x)
        given = self._given.copy()
        for key in keys:
            numbers.append(given[key])
            given[key] += 1
        new = [i for i, key in enumerate(keys) if numbers[i] >= len(self._answers.get(key, ()))]
        if new:
            for i, answer in zip(new, self._ask(x[new]), strict=True):
                self._answers.setdefault(keys[i], []).append(answer)
        self._given = given
        return np.array([self._answers[key][number] for key, number in zip(keys, numbers, strict=True)])


@dataclass(frozen=True)
class _AuditSetting:
    """A black box, and how it is asked in every run."""

    cached: CachedBlackBox
    target: Target
    dim: int
    options: dict[str, Any]

    def oracle(self, budget: int, seed: int) -> Oracle:
        target = replace(self.target, ask=self.cached, dim=self.dim)
        return Oracle(target, budget=budget, rng=np.random.default_rng([seed, 0]), **self.options)


@np.errstate(all="ignore")
def audit(
    target: Any, budgets: Sequence[int] = BUDGETS, *, dim: int | None = None, law: Law = Gaussian(), link: str | None = None,
    box: Any = None, inputs: Any = None, log: str | PathLike[str] | None = None, method: Any = None, activation: Any = None,
    rng: int = 0, progress: Any = None,
) -> Audit:
    """How much of a model can be read from how many queries.

    Parameters
    ----------
    target, dim, law, link, box, inputs, log : as for Oracle
    budgets : queries granted, from few to many
    method, activation : as for recover
    rng : seed; the runs differ in their budgets alone
    progress : callable or True, as for recover; the detail of every event names the budget

    One run's answers serve the others: all of them cost about the largest budget, and CHECK_QUERIES more for the functional
    error. A run that is verified with queries to spare stands for the larger budgets too. An interrupt (Ctrl-C) ends the audit
    with the budgets that are done; before the first is, it is raised.
    """
    if isinstance(target, Oracle):
        raise InvalidInput(
            "The audit was given an Oracle.", "It makes one for every budget.", "Give the model itself: audit(model, dim=...).")
    sizes, rng = _check_budgets(budgets), check_whole("rng", rng, 0)
    activation = None if activation is None else as_activation(activation)
    method = as_method(method, activation)
    payer = Oracle(
        target, dim, law=law, budget=sum(sizes) + CHECK_QUERIES, log=log, link="identity", box=box, inputs=inputs, rng=rng)
    setting = _AuditSetting(
        CachedBlackBox(lambda x: payer.ask(x, gaps=True)), as_target(target), payer.dim,
        {"law": law, "link": link, "box": box, "inputs": inputs})
    check = _check_rows(setting, rng)
    with resolve_progress(progress) as listener:
        options = {"method": method, "activation": activation, "rng": rng, "progress": listener}
        rows, found = _recover_all(setting, sizes, check, options)
    return Audit(payer.name, payer.dim, tuple(rows), payer.spent, len(check[0]), found)


def _recover_all(
    setting: _AuditSetting, sizes: Sequence[int], check: tuple[Array, Array], options: dict[str, Any]
) -> tuple[list[AuditRow], Recovery | None]:
    """A row for every budget, and the last recovery that there was."""
    found: Recovery | None = None
    rows: list[AuditRow] = []
    for number, budget in enumerate(sizes):
        listener = _with_budget(options["progress"], f"budget {budget:,} ({number + 1} of {len(sizes)})")
        if rows and rows[-1].verdict == "verified" and options["method"] is None:
            rows.append(rows[-1]._replace(budget=budget))
            continue
        try:
            report_progress(listener, "audit", number, len(sizes))
            row, recovery = _recover_with_budget(setting, budget, check, options | {"progress": listener})
        except KeyboardInterrupt:
            if not rows:
                raise
            break
        rows.append(row)
        found = recovery or found
        if recovery is not None and recovery.interrupted:
            break
    return rows, found


def _with_budget(progress: Progress | None, budget: str) -> Progress | None:
    """Events of one run with its budget in their detail."""
    if progress is None:
        return None
    return lambda event: progress(event._replace(detail="; ".join(filter(None, (event.detail, budget)))))


def _recover_with_budget(
    setting: _AuditSetting, budget: int, check: tuple[Array, Array], options: dict[str, Any]
) -> tuple[AuditRow, Recovery | None]:
    setting.cached.rewind()
    oracle, begun, nan = setting.oracle(budget, options["rng"]), time.perf_counter(), float("nan")
    try:
        found = recover(oracle, **options)
    except LaybareError as error:
        if oracle.ended:  # a black box that answers nothing any more has refused nothing
            raise Interrupted(str(error)) from None
        seconds = time.perf_counter() - begun
        return AuditRow(budget, oracle.spent, "refused", 0, "", nan, nan, seconds, str(error)), None
    seconds, network = time.perf_counter() - begun, found.network
    return AuditRow(
        budget, oracle.spent, found.certificate.verdict, network.width, network.activations, _error_bar(found),
        _functional_error(found, *check), seconds), found


def _check_rows(setting: _AuditSetting, seed: int) -> tuple[Array, Array]:
    """Inputs that no run draws, and the answers there, as outputs; those that cannot be used are left out."""
    oracle = setting.oracle(CHECK_QUERIES, seed + 1)
    x = oracle.typical(CHECK_QUERIES)
    y = oracle.ask(x, gaps=True)
    usable = np.isfinite(y).all(axis=1)
    return x[usable], y[usable]


def _functional_error(found: Recovery, x: Array, y: Array) -> float:
    if not len(x):
        return float("nan")
    spread = float(np.sqrt(y.var(axis=0).mean())) or 1.0
    return float(np.sqrt(((found(x).reshape(y.shape) - y) ** 2).mean())) / spread


def _error_bar(found: Recovery) -> float:
    errors, weights = found.certificate.standard_errors.weights, np.asarray(found.network.layer.weights)
    if errors.shape != weights.shape or not errors.size:
        return float("nan")
    return float((errors / np.maximum(np.linalg.norm(weights, axis=1), np.finfo(float).tiny)[:, None]).max())


def _check_budgets(budgets: Sequence[int]) -> list[int]:
    return sorted(set(check_sizes("budgets", budgets, 2, "(100, 300, 1000)")))
