"""What a recovery keeps of its data: location and spread of the columns, rows beyond each kink, residuals of fresh rows.

The fresh rows had no part in the fit, so that their residuals are those of rows to come. If they are exchangeable with these, the
⌈(n + 1)·level⌉-th smallest of n scores is exceeded by a new one with a chance of at most 1 - level, whatever the noise is (split
conformal prediction: Vovk, Gammerman, Shafer 2005; Lei et al. 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from laybare.networks import Network
from laybare.numerics.shapes import Array, Sums
from laybare.source import Rows, Source
from laybare.source.losses import Loss
from laybare.source.problem import Problem


@dataclass(frozen=True, kw_only=True)
class DataProfileOptions:
    """How much is kept."""

    rows: int = 400  # Rows kept for plots. Convention: what a scatter plot shows.
    numbers: int = 1 << 16  # Numbers in them at most. Convention: half a megabyte.
    scores: int = 20_000  # Residuals of fresh rows kept. Derived: as many as are held out at most.


DATA_PROFILE = DataProfileOptions()


@dataclass(frozen=True, eq=False)
class DataProfile:
    """Columns' means and standard deviations; the share of used rows on the positive side of every unit of the lowest layer;
    sorted scores |residual| / √variance of fresh rows (n, outputs), or of rows left out in turn where none is fresh; some rows,
    fresh ones first; numbers of used and fresh rows; the deviance of fresh rows as a share of that of a constant."""

    means: Array
    spreads: Array
    beyond: Array
    scores: Array
    rows: Rows | None
    used: int
    fresh: int
    unexplained: float

    def __repr__(self) -> str:
        return f"DataProfile({self.used:,} used rows, {self.fresh:,} fresh, {self.unexplained:.2g} of y left unexplained)"

    def score_at(self, level: float) -> Array:
        """The score that a new row stays below with at least this chance, for each output; inf where fresh rows are too few."""
        n = len(self.scores)
        rank = ceil((n + 1) * level)
        return np.asarray(self.scores[rank - 1] if 1 <= rank <= n else np.full(self.scores.shape[1], np.inf))


def profile_data(
    network: Network, problem: Problem, loss: Loss = Loss(), labels: tuple[Source, Source] | None = None
) -> DataProfile:
    """One pass over the used rows, one over the fresh ones. `labels`: used and fresh rows with the outputs as they were given,
    where those of the problem were changed; both white."""
    used, fresh = labels or (problem.used, problem.fresh)
    white = problem.white(network)
    scores, unexplained = _fresh_scores(white, fresh, loss)
    inverse = np.linalg.inv(problem.transform.matrix)
    spreads = np.sqrt(np.sum(inverse**2, axis=0))
    means = problem.transform.mean if problem.biases else problem.transform.inverse().apply(_white_mean(used)[None])[0]
    return DataProfile(
        means, spreads, _shares_beyond(white, used), scores, _some_rows(problem, used, fresh), used.size, fresh.size, unexplained)


def _white_mean(used: Source) -> Array:
    (total,) = used.sum(lambda x, y: (x.sum(axis=0),), stage="profile")
    return np.asarray(total / used.size)


def _shares_beyond(white: Network, used: Source) -> Array:
    rows = white.layer.rows

    def crossed(x: Array, y: Array) -> Sums:
        return (np.count_nonzero(x @ rows[:, :-1].T + rows[:, -1] > 0.0, axis=0).astype(float),)

    (count,) = used.sum(crossed, stage="profile")
    return np.asarray(count / used.size)


def _fresh_scores(white: Network, fresh: Source, loss: Loss) -> tuple[Array, float]:
    x, y = fresh.read(0, min(fresh.size, DATA_PROFILE.scores))
    eta = np.asarray(white(x)).reshape(y.shape)
    mean = loss.mean(eta)
    scores = np.abs(y - mean) / np.sqrt(np.maximum(loss.variance(mean), np.finfo(float).tiny))
    constant = np.broadcast_to(loss.answer(y.mean(axis=0)), y.shape)
    total = float(loss.rows(constant, y).deviance.sum())
    return np.sort(scores, axis=0), float(loss.rows(eta, y).deviance.sum() / total) if total > 0.0 else np.nan


def _most_rows(numbers: int) -> int:
    """Rows of so many numbers each that are kept."""
    return max(2, min(DATA_PROFILE.rows, DATA_PROFILE.numbers // numbers))


def spaced_rows(count: int, numbers: int) -> Array:
    """Which of `count` rows of so many numbers each are kept, where none was held out."""
    return np.linspace(0, count - 1, min(count, _most_rows(numbers))).astype(int)


def _some_rows(problem: Problem, used: Source, fresh: Source) -> Rows:
    most = _most_rows(used.dim + used.outputs)
    first = min(fresh.size, most // 2)
    parts = [fresh.read(0, first), used.read(0, min(used.size, most - first))]
    x, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Rows(problem.transform.inverse().apply(x), y)


SHOWN_ROWS = 10
"""Numbers of each kind that a prediction shows. Convention: half a terminal."""


class Prediction(NamedTuple):
    """Mean of y at rows of x, its standard error, the interval of the mean, and the interval of new answers.

    All in the shape of y. The standard error is that of what the network answers: log means of counts, log odds of labels.
    """

    mean: Array
    se: Array
    lower: Array
    upper: Array
    new_lower: Array
    new_upper: Array

    def __repr__(self) -> str:
        columns = [np.ravel(part) for part in self]
        lines = ["Prediction" + "".join(f"{name:>12}" for name in self._fields)] + [
            " " * 10 + "".join(f"{value:>12.4g}" for value in row) for row in list(zip(*columns, strict=True))[:SHOWN_ROWS]]
        more = len(columns[0]) - SHOWN_ROWS
        return "\n".join(lines + [f"({more:,} more)"] * (more > 0))


def predict_rows(found: Any, x: Array, level: float) -> Prediction:
    """For a recovery: delta method for the mean, conformal scores of the fresh rows for new answers; NaN where unknown."""
    from scipy.stats import norm

    from laybare.certificate.prediction import prediction_errors

    network, certificate, loss = found.network, found.certificate, found.loss
    eta = np.asarray(network(x))
    flat = eta.reshape(len(eta), network.outputs)
    if certificate.covariance is None:
        errors = np.full_like(flat, np.nan)
    else:
        errors = prediction_errors(network, certificate.covariance, x)
    reach = norm.isf((1.0 - level) / 2.0) * errors
    mean = loss.mean(flat)
    score = np.full(network.outputs, np.nan) if found.profile is None else found.profile.score_at(level)
    apart = score * np.sqrt(loss.variance(mean))
    low, high = mean - apart, mean + apart
    if loss.linked:
        low = np.maximum(low, 0.0)
    if loss.name == "bernoulli":
        high = np.minimum(high, 1.0)
    parts = (mean, errors, loss.mean(flat - reach), loss.mean(flat + reach), low, high)
    return Prediction(*(part.reshape(eta.shape) for part in parts))
