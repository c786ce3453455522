"""Random deep networks of every kind that is hard: is a result ever wrong and verified?

Contracting, square and expanding layers, three and four of them, units that are never or always active, answers in float32.
What is right, what is only the lower layers under the black box, and what the certificate says, counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from laybare.errors import LaybareError
from laybare.methods import Lines
from laybare.networks import Layer, Network
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.shapes import Array
from laybare.source import Oracle
from laybare.studies.deep_agreement import agreement
from laybare.studies.study import Study, StudyResult, headings, over

BUDGET = 100_000
FIRST_SEED = 2000

SHAPES: dict[str, tuple[int, ...]] = {
    "contracting": (16, 10, 6), "square": (8, 8, 8), "expanding": (5, 9, 4), "wide at the end": (8, 6, 10),
    "three layers": (16, 12, 8, 6), "four layers": (20, 14, 10, 8, 6), "asleep or always on": (14, 10, 8),
    "float32": (10, 8, 6)}


class CaseGrid(NamedTuple):
    """Kinds of networks."""

    kinds: tuple[str, ...]


class CaseRun(NamedTuple):
    """Right in every number; verified; under a black box (only lower layers known); refused; its largest error."""

    right: bool
    verified: bool
    partial: bool
    refused: bool
    error: float


class CaseRow(NamedTuple):
    """One kind over all seeds."""

    kind: str
    cases: int
    right: int
    right_and_verified: int
    lower_layers_only: int
    refused: int
    verified_but_wrong: int


def _planted(kind: str, seed: int) -> Network:
    shape = SHAPES[kind]
    network = random_network(shape[0], widths=shape[1:], rng=FIRST_SEED + seed)
    return _asleep(network) if kind == "asleep or always on" else network


def _asleep(network: Network) -> Network:
    """With a unit that is always off and one that is always on in the second layer."""
    first, second = network.layers
    weights, biases = np.array(second.weights), np.array(second.biases)
    weights[0], biases[0] = -np.abs(weights[0]), -0.3
    weights[1], biases[1] = np.abs(weights[1]), 0.3
    return Network((first, Layer(weights, biases)), network.readout, network.offset)


def _single(network: Network) -> Callable[[Array], Array]:
    return lambda x: network(x).astype(np.float32)


def _run(kind: str, seed: int) -> CaseRun:
    truth = _planted(kind, seed)
    tol = 1e-2 if kind == "float32" else 1e-8
    oracle = Oracle(_single(truth) if kind == "float32" else truth, dim=truth.dim, budget=BUDGET, rng=seed)
    try:
        found = recover(oracle, Lines(depth=None), rng=seed)
    except LaybareError:
        return CaseRun(False, False, False, True, np.inf)
    told = agreement(found.network, truth)
    verified = found.certificate.verdict == "verified"
    return CaseRun(told.right(tol), verified, found.network.top is not None, False, told.error)


def _summary(grid: CaseGrid, runs: Mapping[str, Sequence[CaseRun]]) -> StudyResult:
    rows = [
        CaseRow(
            kind, len(runs[kind]), sum(run.right for run in runs[kind]), sum(run.right and run.verified for run in runs[kind]),
            sum(run.partial for run in runs[kind]), sum(run.refused for run in runs[kind]),
            sum(run.verified and not run.right for run in runs[kind]))
        for kind in grid.kinds]
    total, wrong = sum(row.cases for row in rows), sum(row.verified_but_wrong for row in rows)
    right = sum(row.right for row in rows)
    return StudyResult(
        headings(CaseRow), rows, f"{total} deep networks: {right} are right in every number; verified but wrong: {wrong}.")


DEEP_CASES = Study(
    "deep-cases", "deep networks of every hard kind: right, partial, verified but wrong",
    "What lines cannot read is said: a wrong or incomplete network is never verified.",
    CaseGrid(("contracting", "square", "asleep or always on")), CaseGrid(tuple(SHAPES)), over(lambda grid: grid.kinds, _run),
    _summary)
