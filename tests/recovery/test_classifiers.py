"""Classifiers that nobody planted, from their probabilities: every unit that bends, within 4 queries per parameter plus 500."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import laybare as lb

DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


class Outcome(NamedTuple):
    """Of one classifier: the largest difference of log-odds relative to their spread, and queries, few enough or not."""

    verdict: str
    width: int
    error: float
    queries: int
    few: bool


def extracted(name: str, width: int, seed: int) -> Outcome:
    x, labels = DATA[name](return_X_y=True)
    x = StandardScaler().fit_transform(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((width,), max_iter=300, random_state=seed).fit(x, labels)
    asked = []

    def box(points: np.ndarray) -> np.ndarray:
        asked.append(len(points))
        return model.predict_proba(points)

    found = lb.recover(lb.Oracle(box, x.shape[1], rng=seed), rng=seed)
    odds = len(model.classes_) - 1
    parameters = width * (x.shape[1] + 1) + (width + 1) * odds
    inside = np.random.default_rng(seed).uniform(-0.5, 0.5, (500, x.shape[1]))
    p = model.predict_proba(inside)
    truth = np.log(p[:, 1:]) - np.log(p[:, :1])
    error = float(np.abs(found(inside).reshape(truth.shape) - truth).max() / truth.std())
    assert sum(asked) == sum(found.queries.values())
    read = sum(asked) - found.queries.get("assurance", 0)
    return Outcome(found.certificate.verdict, found.network.width, error, read, read <= 4 * parameters + 500)


@pytest.mark.parametrize("name", DATA)
def test_classifier_is_read_from_probabilities(name: str, seed: int) -> None:
    found = extracted(name, 8, seed)
    assert found.verdict == "verified" and found.width == 8 and found.error < 1e-6 and found.few


def test_a_book_that_line_after_line_contradicts_is_given_up() -> None:
    """A kink was mistaken on the first line; a thousand lines said so before it was begun anew."""
    assert extracted("iris", 16, 62_008).few


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 12, 16])
@pytest.mark.parametrize("name", DATA)
def test_classifiers_of_ten_seeds(name: str, width: int) -> None:
    """All units that bend, exact and with few queries, verified."""
    found = [extracted(name, width, seed) for seed in range(66_000, 66_010)]
    print(f"\n{name}, {width} units: {sum(one.verdict == 'verified' for one in found)}/10 verified, widths "
          f"{sorted({one.width for one in found})}, log-odds to {max(one.error for one in found):.0e}, "
          f"{np.mean([one.queries for one in found]):.0f} queries", flush=True)
    for one in found:
        assert one.verdict == "verified" and one.width <= width and one.error < 1e-6 and one.few
