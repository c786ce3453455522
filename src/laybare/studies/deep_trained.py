"""Trained networks of two hidden layers read out of scikit-learn: digits 64-32-16, breast cancer 30-20-10, diabetes 10-10-8.

MLPRegressor with its defaults on standardised inputs and targets (the number of the class for the two classifications), one
network for each seed. Training leaves units that are hardly ever active, or hardly read: what no input shows does not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import LaybareError
from laybare.export import from_sklearn
from laybare.methods import Lines
from laybare.pipeline import recover
from laybare.source import Oracle
from laybare.studies.deep_agreement import agreement
from laybare.studies.study import Study, StudyResult, headings, over

BUDGET, RIGHT = 2**18, 1e-8
WIDTHS = {"digits": (32, 16), "breast_cancer": (20, 10), "diabetes": (10, 8)}


class TrainedGrid(NamedTuple):
    """Data sets."""

    sets: tuple[str, ...]


class TrainedRun(NamedTuple):
    """Queries, seconds, the largest error of a number, and whether it was verified."""

    queries: int
    seconds: float
    error: float
    verified: bool


class TrainedRow(NamedTuple):
    """One data set over all seeds."""

    data: str
    right: str
    verified_but_wrong: int
    log2_queries: float
    median_error: float
    largest_seconds: float


def trained(name: str, seed: int) -> Any:
    """The network that scikit-learn trains."""
    from sklearn import datasets
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(hidden_layer_sizes=WIDTHS[name], max_iter=300, random_state=seed).fit(
            StandardScaler().fit_transform(x), (y - y.mean()) / y.std())


def _run(name: str, seed: int) -> TrainedRun:
    model = trained(name, seed)
    oracle = Oracle(model, budget=BUDGET, rng=seed)
    try:
        found = recover(oracle, Lines(depth=None), rng=seed)
    except LaybareError:
        return TrainedRun(oracle.spent, np.nan, np.inf, False)
    told = agreement(found.network, from_sklearn(model))
    return TrainedRun(oracle.spent, found.seconds, max(told), found.certificate.verdict == "verified")


def _row(name: str, runs: Sequence[TrainedRun]) -> TrainedRow:
    return TrainedRow(
        name, f"{sum(run.error <= RIGHT for run in runs)}/{len(runs)}", sum(run.verified and run.error > RIGHT for run in runs),
        float(np.log2(np.mean([run.queries for run in runs]))), float(np.median([run.error for run in runs])),
        float(np.nanmax([run.seconds for run in runs])))


def _summary(grid: TrainedGrid, runs: Mapping[str, Sequence[TrainedRun]]) -> StudyResult:
    every = [run for name in grid.sets for run in runs[name]]
    right = sum(run.error <= RIGHT for run in every)
    return StudyResult(
        headings(TrainedRow), [_row(name, runs[name]) for name in grid.sets],
        f"{right} of {len(every)} trained networks are read to 1e-8 in every number that an input shows.")


DEEP_TRAINED = Study(
    "deep-trained", "trained networks of two hidden layers read out of scikit-learn",
    "Nothing is published on these; trained networks have units that are hardly ever active.",
    TrainedGrid(("diabetes",)), TrainedGrid(tuple(WIDTHS)), over(lambda grid: grid.sets, _run), _summary)
