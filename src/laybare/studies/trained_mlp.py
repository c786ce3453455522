"""A network that nobody planted: scikit-learn's MLPRegressor, trained on its bundled diabetes data, recovered from queries.

The recovery sees a callable and nothing else. Queries are standard normal, on the scale of the standardised training inputs.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from laybare.export import from_sklearn
from laybare.networks import Match, Network, compare
from laybare.numerics.shapes import Array, Event, Progress
from laybare.pipeline import Recovery, recover
from laybare.report import pair_units
from laybare.source import Oracle


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
