"""Classifiers that nobody planted, from their probabilities: every unit that bends, within 4 queries per parameter plus 500."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import laybare as lb

DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def check(name: str, width: int, seed: int) -> None:
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
    assert np.abs(found(inside).reshape(truth.shape) - truth).max() < 1e-6 * truth.std()
    assert found.certificate.verdict == "verified" and found.network.width <= width
    assert sum(asked) == sum(found.queries.values()) <= 4 * parameters + 500


@pytest.mark.parametrize("name", DATA)
def test_classifier_is_read_from_probabilities(name: str, seed: int) -> None:
    check(name, 8, seed)


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 12, 16])
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("seed", range(10))
def test_classifiers_of_many_seeds(name: str, width: int, seed: int) -> None:
    check(name, width, seed)
