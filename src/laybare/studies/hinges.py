"""Planted hinges: do intervals of kinks and of predictions cover the truth, is the number of kinks right, and what does it cost
beside an MLP?

A problem is y = Σ aⱼ relu(wⱼ·z + bⱼ) + noise with z the columns in standard units; the recovery sees columns with means and
spreads of their own. Dimension, rows and noise are drawn with the seed, the number of kinks is the cell.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import relu
from laybare.errors import LaybareError
from laybare.networks import Layer, Network, compare
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.certificates import lacks_only_unseen
from laybare.studies.study import Study, StudyMeasurement, table


@dataclass(frozen=True, kw_only=True)
class HingeProblems:
    """From what problems are drawn, and how intervals are counted."""

    kinks: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    dims: tuple[int, int] = (2, 10)
    rows: tuple[int, int] = (300, 20_000)
    noise: tuple[float, float] = (0.05, 0.5)
    interval: float = 0.95  # Of all intervals. Convention: what papers print.
    level: float = 1.959963984540054  # Standard errors either side. Derived: the normal quantile of 97.5 %.
    fresh_rows: int = 20_000  # Rows without noise on which errors are measured. Convention: a share of 1 % is seen to 10 %.


GRID = HingeProblems()


class HingeProblem(NamedTuple):
    """Rows in the user's columns, the truth there, the columns' centres and scales, fresh rows, the true means and new answers
    at them."""

    x: Array
    y: Array
    truth: Network
    centres: Array
    scales: Array
    fresh: Array
    means: Array
    answers: Array


class HingeRun(NamedTuple):
    """One problem: verdict, whether the number of kinks is right, or else whether what is missing is less than the summary says
    can be seen; intervals that cover and their numbers, of locations and of directions (nothing where the number of kinks is
    wrong), of means and of new answers at fresh rows; processor seconds and relative squared errors of ours and of an MLP."""

    verdict: str
    right: bool
    admitted: bool
    locations: tuple[int, int]
    directions: tuple[int, int]
    means: tuple[int, int]
    answers: tuple[int, int]
    seconds: float
    mlp_seconds: float
    error: float
    mlp_error: float


def draw_problem(kinks: int, seed: int) -> HingeProblem:
    """Columns are normal or uniform by turns, in units of their own; readouts ±(0.5 to 1.5), noise of 5-50 % of the signal."""
    rng = np.random.default_rng([seed, kinks])
    dim = int(rng.integers(GRID.dims[0], GRID.dims[1] + 1))
    rows = round(float(np.exp(rng.uniform(*np.log(GRID.rows)))))
    plain = random_network(dim, kinks, readout="random", rng=rng)
    centres, scales = rng.uniform(-50.0, 50.0, dim), np.exp(rng.uniform(-2.0, 4.0, dim))
    z = rng.standard_normal((rows + GRID.fresh_rows, dim))
    z[:, 1::2] = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), z[:, 1::2].shape)
    signal = plain(z)
    noise = float(np.exp(rng.uniform(*np.log(GRID.noise)))) * float(signal.std())
    y, x = signal + noise * rng.standard_normal(len(z)), centres + scales * z
    weights = plain.layer.weights / scales
    truth = Network(Layer(weights, np.asarray(plain.layer.biases) - weights @ centres), plain.readout, plain.offset)
    return HingeProblem(x[:rows], y[:rows], truth, centres, scales, x[rows:], signal[rows:], y[rows:])


def run_problem(kinks: int, seed: int) -> HingeRun:
    """Recover it as a network of hinges, count what its summary covers, and fit an MLP to the same rows."""
    problem = draw_problem(kinks, seed)
    begun = time.process_time()
    try:
        found = recover(problem.x, problem.y, activation=relu, rng=seed)
    except LaybareError:
        found = None
    seconds = time.process_time() - begun
    mlp_seconds, mlp_error = _train_mlp(problem, seed)
    none = (0, 0)
    if found is None:
        return HingeRun("refused", False, False, none, none, none, none, seconds, mlp_seconds, np.nan, mlp_error)
    right = found.network.width == kinks
    locations, directions = count_covered(found, problem) if right else (none, none)
    admitted = right or lacks_only_unseen(found, problem.truth, Samples(problem.x, problem.y))
    return HingeRun(
        found.certificate.verdict, right, admitted, locations, directions,
        *count_predicted(found, problem), seconds, mlp_seconds, _relative_error(found.network(problem.fresh), problem), mlp_error)


def count_predicted(found: Recovery, problem: HingeProblem) -> tuple[tuple[int, int], tuple[int, int]]:
    """Intervals at fresh rows that cover, and their number: of means, and of new answers."""
    p = found.predict(problem.fresh, interval=GRID.interval)
    means = (p.lower <= problem.means) & (problem.means <= p.upper)
    answers = (p.new_lower <= problem.answers) & (problem.answers <= p.new_upper)
    return (int(means.sum()), len(means)), (int(answers.sum()), len(answers))


def count_covered(found: Recovery, problem: HingeProblem) -> tuple[tuple[int, int], tuple[int, int]]:
    """Intervals of the summary that cover, and their number: of locations, and of the components of directions."""
    names = [f"x{i}" for i in range(found.network.dim)]
    profile, units = found.profile, found.summary().units
    assert profile is not None
    inside = np.zeros(2, dtype=int)
    for mine, its in compare(_standard(found.network, problem), _standard(problem.truth, problem)).pairs:
        unit, w, b = units[mine], problem.truth.layer.weights[its], np.asarray(problem.truth.layer.biases)[its]
        lead = names.index(unit.leading)
        others = np.delete(np.arange(len(w)), lead)
        place = -(b + w[others] @ profile.means[others]) / w[lead]
        true = profile.spreads * w / np.linalg.norm(profile.spreads * w)
        terms = {term.column: term.direction for term in unit.terms}
        found_direction = [terms[name] for name in names]
        sign = np.sign(sum(term.value * part for term, part in zip(found_direction, true, strict=True)))
        inside += (
            abs(unit.location.value - place) <= GRID.level * unit.location.se,
            sum(abs(term.value - sign * part) <= GRID.level * term.se for term, part in zip(found_direction, true, strict=True)))
    width, dim = found.network.layer.weights.shape
    return (int(inside[0]), width), (int(inside[1]), width * dim)


def _standard(network: Network, problem: HingeProblem) -> Network:
    """The same network on columns in standard units."""
    weights = network.layer.weights * problem.scales
    biases = network.layer.biases + network.layer.weights @ problem.centres
    linear = None if network.linear is None else network.linear * problem.scales
    return Network(Layer(weights, biases, network.activation), network.readout, network.offset, linear)


def _train_mlp(problem: HingeProblem, seed: int) -> tuple[float, float]:
    """Seconds and relative error of scikit-learn's MLPRegressor with its defaults, on standardised columns."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    def standard(x: Array) -> Array:
        return np.asarray((x - problem.centres) / problem.scales)

    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its default number of steps is part of its defaults
        mlp = MLPRegressor(random_state=seed).fit(standard(problem.x), problem.y)
    return time.process_time() - begun, _relative_error(mlp.predict(standard(problem.fresh)), problem)


def _relative_error(answers: Array, problem: HingeProblem) -> float:
    return float(np.mean((answers - problem.means) ** 2) / problem.means.var())


def _share(name: str, *, verified: bool) -> col.Column:
    """Intervals that cover, as a share; of verified networks, or of all with the right number of kinks."""
    def column(kinks: object, runs: Sequence[HingeRun]) -> float:
        counted = [getattr(run, name) for run in runs if run.verdict == "verified" or not verified]
        return float(sum(one for one, _ in counted) / max(1, sum(of for _, of in counted)))

    return column


def _is_verified(run: HingeRun) -> bool:
    return run.verdict == "verified"


def _hinges_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    verified = [run for run in runs if _is_verified(run)]
    right, admitted = sum(run.right for run in verified), sum(run.admitted and not run.right for run in verified)
    places, ways, means, answers = (
        _share(name, verified=True)(None, runs) for name in ("locations", "directions", "means", "answers"))
    ratio = np.median([run.mlp_seconds / run.seconds for run in runs])
    better = np.median([run.mlp_error / run.error for run in verified]) if verified else np.nan
    return (
        f"{len(verified)} of {len(runs)} problems verified, with the right number of kinks in {right} of them; "
        f"{admitted} lack what is smaller than their summary says can be seen. Intervals of 95 % "
        f"of verified networks cover {places:.1%} of {sum(run.locations[1] for run in verified)} locations and {ways:.1%} of "
        f"{sum(run.directions[1] for run in verified)} components of directions, {means:.1%} of the means and {answers:.1%} of "
        f"new answers at fresh rows. MLPRegressor takes {ratio:.2g} times as long (median, processor time), "
        f"and its squared error is {better:.2g} times that of verified networks.")


HINGES = Study(
    "hinges", "Planted hinges in 2 to 10 columns, 300 to 20,000 rows, noise of 5 to 50 %: kinks, their intervals, and time",
    "Intervals of locations, directions, means and new answers cover 93 to 97 %; the number of kinks is right where the summary "
    "says so.",
    quick=GRID.kinks, full=GRID.kinks, run_cell=run_problem, in_turns=True, seeds=200,
    table=table(
        kinks=col.itself, problems=col.count, verified=col.total(_is_verified),
        verified_with_right_number=col.total(lambda run: _is_verified(run) and run.right),
        verified_as_far_as_seen=col.total(lambda run: _is_verified(run) and run.admitted), right_number=col.total("right"),
        locations_covered=_share("locations", verified=True), directions_covered=_share("directions", verified=True),
        all_locations_covered=_share("locations", verified=False), all_directions_covered=_share("directions", verified=False),
        means_covered=_share("means", verified=True), answers_covered=_share("answers", verified=True),
        all_means_covered=_share("means", verified=False), all_answers_covered=_share("answers", verified=False),
        median_s=col.median("seconds"), MLP_s=col.median("mlp_seconds"),
        median_error=col.reduced(np.nanmedian, "error"), MLP_error=col.median("mlp_error")),
    sentence=_hinges_sentence)
"""Problems of people who fit hinges. Nothing is given to the recovery but rows, answers, and that units are hinges. Coverage is
counted over verified networks with the right number of kinks, and over all with the right number; a kink that is missing or too
many has no interval to count. Means are the noiseless truth and new answers the truth with noise at 20,000 rows that nobody saw.
The MLP is scikit-learn's with its defaults (100 units, Adam, 200 epochs) on columns in standard units."""
