"""Defences before planted networks: after how many queries is there a copy all the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from laybare.auditing import audit
from laybare.auditing.defences import STANDARD
from laybare.networks import Layer, Network
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, table


class AuditCell(NamedTuple):
    """Inputs and hidden units of every layer, and the budgets."""

    shape: tuple[int, ...]
    budgets: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)


class DefenceCell(NamedTuple):
    """A network behind a defence."""

    network: str
    defence: str


class DefenceRun(NamedTuple):
    """Queries to 1 % and to 1e-6, infinite if the budgets were not enough, and the quota under which that takes a year."""

    defence: str
    near: float
    exact: float
    quota: int


def planted(shape: Sequence[int], seed: int) -> Network:
    """A network of one output: rows of length about 1, biases 0.3 N(0,1), readout N(0,1)."""
    rng = np.random.default_rng([seed, *shape])
    layers = tuple(
        Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out))
        for into, out in pairwise(shape))
    return Network(layers, rng.standard_normal(shape[-1]), 0.1)


def audit_once(cell: AuditCell, seed: int) -> list[DefenceRun]:
    """One audit with the standard defences that change answers; the first run is the model without any."""
    chosen = [name for name in STANDARD if not name.startswith(("cap", "label"))]
    found = audit(planted(cell.shape, seed), cell.budgets, defences=chosen, rng=seed)
    runs = [DefenceRun("none", _or_inf(found.near), _or_inf(found.exact), found.quota)]
    return runs + [DefenceRun(row.name, _or_inf(row.near), _or_inf(row.exact), row.quota) for row in found.defences]


def _or_inf(queries: int | None) -> float:
    return inf if queries is None else float(queries)


def _by_defence(grid: Any, runs: Mapping[AuditCell, Sequence[list[DefenceRun]]]) -> dict[DefenceCell, list[DefenceRun]]:
    rows: dict[DefenceCell, list[DefenceRun]] = {}
    for cell, audits in runs.items():
        for run in (run for each in audits for run in each):
            rows.setdefault(DefenceCell(f"{'-'.join(map(str, cell.shape))}-1", run.defence), []).append(run)
    return rows


def _sentence(m: StudyMeasurement) -> str:
    parts = [
        f"{row.network} behind {row.defence}: {row.copied}/{row.runs} copied" for row in m.rows if row.defence != "none"]
    return f"{'; '.join(parts)}."


DEFENCES = Study(
    "defences", "Queries to a copy of planted networks behind defences",
    "One hidden layer: rounding and noise make a copy dearer and do not prevent it. Two: they prevent it within 10,000 queries.",
    quick=((10, 16),), full=((10, 16), (30, 20, 10)), cells=lambda shapes: [AuditCell(shape) for shape in shapes],
    run_cell=audit_once, group=_by_defence,
    table=table(
        "network", "defence", copied=col.total(lambda run: run.near < inf), exact=col.total(lambda run: run.exact < inf),
        runs=col.count, median_queries=lambda cell, runs: float(median(run.near for run in runs)),
        largest_queries=lambda cell, runs: max(run.near for run in runs),
        median_quota=lambda cell, runs: float(median(run.quota for run in runs))),
    sentence=_sentence)
"""What helps against extraction? Audits with the standard defences of planted ReLU networks, 10-16-1 and, with `--full`,
30-20-10-1, within 10,000 queries. "copied" counts networks with a copy within one per cent of the spread of the answers on 99 %
of inputs, at 95 % confidence; queries are infinite where there was none."""
