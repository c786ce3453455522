"""A network that nobody planted: scikit-learn's MLPRegressor, trained on its bundled diabetes data, recovered from queries.

The recovery sees a callable and nothing else. Queries are standard normal, on the scale of the standardised training inputs.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from laybare.export import from_sklearn
from laybare.networks import Match, Network, compare
from laybare.pipeline import Recovery, recover
from laybare.shapes import Array, Event, Progress
from laybare.source import Oracle

WIDTH, QUERIES, TRAINING_STEPS = 16, 3000, 500


class TrainedCase(NamedTuple):
    """The hidden network, what was recovered, and how they compare."""

    truth: Network
    found: Recovery
    match: Match


def train(width: int = WIDTH, seed: int = 0) -> Network:
    """Hidden layer and readout of an MLPRegressor fitted to the standardised diabetes data (442 rows, 10 inputs)."""
    from sklearn.datasets import load_diabetes
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    x, y = load_diabetes(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (y - y.mean()) / y.std()
    mlp = MLPRegressor(hidden_layer_sizes=(width,), activation="relu", solver="adam", max_iter=TRAINING_STEPS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # how well it predicts is not the question here
        mlp.fit(x, y)
    return from_sklearn(mlp)


def extract(truth: Network, queries: int = QUERIES, seed: int = 0, progress: Progress | None = None) -> TrainedCase:
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
