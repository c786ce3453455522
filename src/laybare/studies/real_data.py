"""Data as statisticians have them: real ones, counts, labels and heavy tails.

Real data that ship with scikit-learn and statsmodels: R² in three folds, of networks and of what people use instead.

All with their default arguments (inputs standardised for those that want it, for the MLP the outcome too), or with `--full` each
with three values of the parameter that matters most, chosen by cross-validation inside of the folds. The data sets were chosen
before any was fitted, for a numeric outcome and at least 50 rows. statsmodels must be installed; MARS is in the table if `pip
install mars-earth` was run.

Counts, labels and heavy tails from planted networks: how many are found, how many of these are verified, and none wrongly.

Networks of one to three ReLU units on two to five white inputs, from `random_network`. Their outputs, scaled to the standard
deviation of the kind, are logarithms of means of Poisson counts, log odds of labels, or means with t₃ noise; `loss` is given,
width and all else are not. Right: every parameter within six of its standard errors, as in `plain-noise`. Of the wrong ones those
are counted that lack no more than the summary says can be seen, relative to the network's outputs. The control is one random
start at the true width, by the same likelihood: what a single fit does.

`laybare demo` recovers a network that nobody planted from queries: an MLPRegressor, trained on the diabetes data. The recovery
sees a callable and nothing else. Queries are standard normal, on the scale of the standardised training inputs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.export import from_sklearn
from laybare.methods import RandomStart
from laybare.networks import Match, Network, compare
from laybare.numerics.shapes import Array, Event, Progress
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.report import pair_units
from laybare.search.settings import Search
from laybare.source import Oracle, Samples
from laybare.studies import columns as col
from laybare.studies.certificates import lacks_only_unseen, largest_miss, right_and_verified, wrong_and_verified
from laybare.studies.study import Study, StudyMeasurement, refused_as, table


@dataclass(frozen=True, kw_only=True)
class LikelihoodStudyRules:
    """The planted problems."""

    max_dim: int = 5  # Inputs, from two. Convention: small enough that labels can tell.
    max_width: int = 3  # Units, from one. Convention: as the inputs.
    degrees_of_freedom: float = 3.0  # Of the heavy tails. Convention: the smallest whole number with a variance.


PLANTED = LikelihoodStudyRules()


class Kind(NamedTuple):
    """A kind of rows: its loss, the standard deviation and mean of the outputs, how rows are drawn from them."""

    loss: str
    spread: float
    level: float
    draw: Callable[[Array, Generator], Array]


KINDS = {
    "poisson": Kind("poisson", 0.7, 0.5, lambda eta, rng: rng.poisson(np.exp(eta)).astype(float)),
    "bernoulli": Kind("bernoulli", 2.0, 0.0, lambda eta, rng: (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)),
    "t3": Kind("huber", 1.0, 0.0, lambda eta, rng: eta + 0.3 * rng.standard_t(PLANTED.degrees_of_freedom, size=len(eta)))}


class LikelihoodGrid(NamedTuple):
    """Kinds, and rows of each."""

    rows: tuple[tuple[str, int], ...]


class LikelihoodCell(NamedTuple):
    """A kind and its number of rows."""

    kind: str
    rows: int


class LikelihoodRun(NamedTuple):
    """Whether the network is right, its verdict, whether the control is right, the seconds, and whether a wrong one lacks only
    what cannot be seen."""

    right: bool
    verdict: str
    control: bool
    seconds: float
    admitted: bool = False

    @property
    def wrong_as_far_as_seen(self) -> bool:
        return wrong_and_verified(self) and self.admitted


def plant(cell: LikelihoodCell, seed: int) -> tuple[Network, Array, Array]:
    """A network and rows of its kind."""
    kind, rng = KINDS[cell.kind], np.random.default_rng([seed, sum(map(ord, cell.kind))])
    dim, width = int(rng.integers(2, PLANTED.max_dim + 1)), int(rng.integers(1, PLANTED.max_width + 1))
    raw, x = random_network(dim, width, rng=rng), rng.standard_normal((cell.rows, dim))
    outputs = raw(x)
    scale = kind.spread / float(outputs.std())
    offset = kind.level + scale * (float(np.asarray(raw.offset)) - float(outputs.mean()))
    network = Network(raw.layer, scale * np.asarray(raw.readout), offset)
    return network, x, kind.draw(network(x), rng)


def judge(cell: LikelihoodCell, seed: int) -> LikelihoodRun:
    """Plant, recover, judge; and the control."""
    truth, x, y = plant(cell, seed)
    loss, begun = KINDS[cell.kind].loss, time.process_time()
    found = _recovered(x, y, loss, seed)
    seconds = time.process_time() - begun
    control = _recovered(x, y, loss, seed, method=RandomStart(search=Search(spares=0, hops=0)), width=truth.width)
    if found is None:
        return LikelihoodRun(False, "refused", _is_right(control, truth), seconds)
    admitted = lacks_only_unseen(found, truth, Samples(x, truth(x)))
    return LikelihoodRun(_is_right(found, truth), found.certificate.verdict, _is_right(control, truth), seconds, admitted)


@refused_as(None)
def _recovered(
    x: Array, y: Array, loss: str, seed: int, *, method: RandomStart | None = None, width: int | None = None
) -> Recovery | None:
    return recover(x, y, method=method, width=width, loss=loss, rng=seed)


def _is_right(found: Recovery | None, truth: Network) -> bool:
    return found is not None and largest_miss(found.network, truth, found.certificate.standard_errors) <= 1.0


def _likelihood_cells(grid: LikelihoodGrid) -> list[LikelihoodCell]:
    return [LikelihoodCell(*one) for one in grid.rows]


def _likelihood_sentence(m: StudyMeasurement) -> str:
    parts = (
        f"{row.kind}: {row.right} of {row.runs} right, {row.right_and_verified} of these verified, {row.wrong_and_verified} "
        f"wrong ones verified, {row.wrong_as_far_as_seen} of which lack only what cannot be seen, one random start "
        f"{row.control} right" for row in m.rows)
    return "; ".join(parts) + "."


LIKELIHOODS = Study(
    "likelihoods", "Planted networks behind counts, labels and heavy tails, by their own likelihood",
    "At least four in five of the right ones are verified.",
    quick=LikelihoodGrid((("poisson", 4000), ("bernoulli", 8000), ("t3", 2000))),
    full=LikelihoodGrid((("poisson", 4000), ("poisson", 16_000), ("bernoulli", 8000), ("bernoulli", 32_000), ("t3", 2000),
                         ("t3", 8000))), seeds=50,
    cells=_likelihood_cells, run_cell=judge,
    table=table(
        "kind", "rows", runs=col.count, right=col.total("right"), right_and_verified=col.total(right_and_verified),
        wrong_and_verified=col.total(wrong_and_verified),
        wrong_as_far_as_seen=col.total("wrong_as_far_as_seen"), control=col.total("control"), median_s=col.median("seconds")),
    sentence=_likelihood_sentence)


MOST_ROWS = 2000
"""Rows of a data set that are drawn at most. Convention: seconds per fit."""

FOLDS = 3
"""Folds of the outer and of the inner cross-validation. Convention: as the first table that was published."""

LAGS = 9
"""Past years of the sunspots. Convention: the order of the classical autoregressions of the series."""

KNOT_SPACING = 0.05
"""The alpha of the distance between knots of MARS, and from the ends. Convention: Friedman (1991), section 3.8, and py-earth."""

TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "engel": ("foodexp", ("income",)),
    "cancer": ("cancer", ("population",)),
    "ccard": ("AVGEXP", ("AGE", "INCOME", "OWNRENT")),
    "grunfeld": ("invest", ("value", "capital")),
    "macrodata": ("unemp", ("realgdp", "infl", "tbilrate", "pop")),
    "statecrime": ("violent", ("hs_grad", "poverty", "single", "white", "urban")),
    "fair": ("affairs", ("rate_marriage", "age", "yrs_married", "children", "religious", "educ", "occupation",
                         "occupation_husb"))}
"""Data sets of statsmodels: the outcome and the inputs."""

SCHOOLS = (
    "LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE", "AVYRSEXP", "AVSALK", "PERSPENK", "PTRATIO", "PCTAF", "PCTCHRT",
    "PCTYRRND")
"""Inputs of star98; the outcome is the share of pupils above the median."""

DATA = ("diabetes", *TABLES, "star98", "sunspots")


def load(name: str) -> tuple[Array, Array]:
    """Inputs and outcome."""
    from sklearn.datasets import load_diabetes

    if name == "diabetes":
        x, y = load_diabetes(return_X_y=True)
        return np.asarray(x), np.asarray(y)
    from importlib import import_module

    frame: Any = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    if name == "sunspots":
        series = np.asarray(frame["SUNACTIVITY"], dtype=float)
        past = np.lib.stride_tricks.sliding_window_view(series, LAGS + 1)
        return past[:, :-1].copy(), past[:, -1].copy()
    if name == "star98":
        above, below = (np.asarray(frame[column], dtype=float) for column in ("NABOVE", "NBELOW"))
        return np.asarray(frame[list(SCHOOLS)], dtype=float), above / (above + below)
    outcome, inputs = TABLES[name]
    x, y = np.asarray(frame[list(inputs)], dtype=float), np.asarray(frame[outcome], dtype=float)
    chosen = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    return x[chosen], y[chosen]


class RealGrid(NamedTuple):
    """Data sets, and whether parameters are tuned."""

    data: tuple[str, ...]
    tuned: bool


class RealCell(NamedTuple):
    """A data set, and whether parameters are tuned."""

    data: str
    tuned: bool


class RealRun(NamedTuple):
    """R² of every estimator, the mean of the folds, and the seconds per fit of a network."""

    network: float
    mlp: float
    boosting: float
    ridge: float
    mars: float
    rows: int
    seconds: float


def estimators(seed: int) -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Every estimator, and three values of the parameter that matters most."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from laybare.estimator import NetworkRecovery

    chosen: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        "network": (NetworkRecovery(random_state=seed), {"width": [None, 1, 2]}),
        "mlp": (
            TransformedTargetRegressor(
                make_pipeline(StandardScaler(), MLPRegressor(random_state=seed)), transformer=StandardScaler()),
            {"regressor__mlpregressor__alpha": [1e-4, 1e-1, 10.0]}),
        "boosting": (HistGradientBoostingRegressor(random_state=seed), {"learning_rate": [0.02, 0.05, 0.1]}),
        "ridge": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0, 10.0]})}
    return chosen | ({"mars": (_mars(), {"penalty": [2.0, 3.0, 4.0]})} if find_spec("pymars") else {})


def _mars() -> Any:
    """Friedman's splines as the package mars-earth has them, with knots as far apart as he advises."""
    from importlib import import_module

    return import_module("pymars").EarthRegressor(minspan_alpha=KNOT_SPACING, endspan_alpha=KNOT_SPACING)


def compare_in_folds(cell: RealCell, seed: int) -> RealRun:
    """Mean R² of the folds of one split."""
    from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

    x, y = load(cell.data)
    folds, scores, seconds = KFold(FOLDS, shuffle=True, random_state=seed), {}, {}
    for name, (plain, grid) in estimators(seed).items():
        model = GridSearchCV(plain, grid, cv=FOLDS) if cell.tuned else plain
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that end early: their scores say the same
            scores[name] = float(cross_val_score(model, x, y, cv=folds, scoring="r2", error_score="raise").mean())
        seconds[name] = (time.process_time() - begun) / FOLDS
    return RealRun(**{"mars": nan} | scores, rows=len(x), seconds=seconds["network"])


def _cells(grid: RealGrid) -> list[RealCell]:
    return [RealCell(name, grid.tuned) for name in grid.data]


def _mean(name: str) -> Callable[[Any, Any], Any]:
    return col.reduced(lambda numbers: float(np.mean(numbers)), name)


def _sentence(m: StudyMeasurement) -> str:
    names = ("network", "mlp", "boosting", "ridge", "mars")
    measured = [name for name in names if all(isfinite(getattr(row, name)) for row in m.rows)]
    winners = [max((getattr(row, name), name) for name in measured)[1] for row in m.rows]
    firsts = ", ".join(f"{name} {winners.count(name)}" for name in measured)
    return f"Of {len(m.rows)} data sets, the number on which each has the largest mean R²: {firsts}."


REAL_DATA = Study(
    "real-data", "R² in three folds on data sets that ship with scikit-learn and statsmodels",
    "A network of few units whose kinks have standard errors predicts about as well as what people use instead.",
    quick=RealGrid(DATA, tuned=False), full=RealGrid(DATA, tuned=True), seeds=5,
    cells=_cells, run_cell=compare_in_folds,
    table=table(
        "data", rows=col.median("rows"), runs=col.count, network=_mean("network"),
        sd=col.reduced(lambda numbers: float(np.std(numbers)), "network"), mlp=_mean("mlp"), boosting=_mean("boosting"),
        ridge=_mean("ridge"), mars=_mean("mars"), seconds=col.median("seconds")),
    sentence=_sentence)


class TrainedCase(NamedTuple):
    """The hidden network, what was recovered, and how they compare."""

    truth: Network
    found: Recovery
    match: Match


def train(width: int = 16, seed: int = 0, steps: int = 500) -> Network:
    """Hidden layer and readout of an MLPRegressor fitted to the standardised diabetes data (442 rows, 10 inputs)."""
    from sklearn.datasets import load_diabetes
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    x, y = load_diabetes(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (y - y.mean()) / y.std()
    mlp = MLPRegressor(hidden_layer_sizes=(width,), activation="relu", solver="adam", max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # how well it predicts is not the question here
        mlp.fit(x, y)
    return from_sklearn(mlp)


class Student(NamedTuple):
    """What training from samples of the black box came to: error on fresh inputs, and units of the truth that it has."""

    samples: int
    network: Network
    test_error: float
    right: int


def retrain(
    truth: Network, samples: int = 3000, seed: int = 0, progress: Progress | None = None, *, starts: int = 10, steps: int = 500
) -> Student:
    """scikit-learn's L-BFGS on standard normal samples of `truth`, its width given; the start with the lowest loss."""
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng([seed, samples])
    x, fresh = rng.standard_normal((samples, truth.dim)), rng.standard_normal((samples, truth.dim))
    fits = []
    for start in range(starts):
        mlp = MLPRegressor(
            hidden_layer_sizes=(truth.width,), solver="lbfgs", alpha=0.0, tol=1e-10, max_iter=steps, random_state=start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether it converged is what the test error shows
            fits.append(mlp.fit(x, truth(x)))
        if progress is not None:
            progress(Event("training", start + 1, starts, f"loss {min(float(fit.loss_) for fit in fits):.1e}"))
    network = from_sklearn(min(fits, key=lambda fit: float(fit.loss_)))
    wrong = network(fresh) - truth(fresh)
    return Student(samples, network, float(np.std(wrong) / np.std(truth(fresh))), _right_units(network, truth))


def _right_units(network: Network, truth: Network) -> int:
    """Units of the truth of which every number is right to one per cent, rows scaled to length 1."""
    return sum(pair.difference < 0.01 for pair in pair_units(network, truth))


def extract(truth: Network, queries: int = 3000, seed: int = 0, progress: Progress | None = None) -> TrainedCase:
    """Recover `truth` through a callable, the width unknown."""
    calls = 0

    def black_box(x: Array) -> Array:
        nonlocal calls
        calls += len(x)
        if progress is not None:
            progress(Event("querying", calls, queries))
        return np.asarray(truth(x))

    oracle = Oracle(black_box, dim=truth.dim, budget=queries, rng=seed)
    found = recover(oracle, rng=seed, progress=progress)
    return TrainedCase(truth, found, compare(found.network, truth))
