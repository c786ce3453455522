"""NetworkClassifier: probabilities of a planted network, several classes, and what scikit-learn's users do with it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import laybare as lb

QUICK = lb.RandomStart(search=lb.Search(hops=0))


def log_odds(x):
    return 3.0 * np.maximum(x[:, 0] - x[:, 1], 0.0) - 1.0


def labelled(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds(x))), "well", "ill")


@pytest.fixture(scope="module")
def fitted():
    return lb.NetworkClassifier(QUICK, random_state=0).fit(*labelled())


def test_log_odds_are_those_of_the_network(fitted):
    x = labelled(500, seed=1)[0]
    assert fitted.classes_.tolist() == ["ill", "well"]
    assert fitted.network_.width == 1
    assert np.sqrt(np.mean((fitted.decision_function(x) - log_odds(x)) ** 2)) < 0.3
    chances = fitted.predict_proba(x)
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_allclose(fitted.predict_log_proba(x), np.log(chances))
    far = fitted.predict_log_proba(np.vstack([1e3 * np.eye(x.shape[1]), -1e3 * np.eye(x.shape[1])]))
    assert np.isfinite(far).all() and far.min() < -40.0  # where the probability itself is 0 or 1 to rounding
    assert_array_equal(fitted.predict(x) == "well", chances[:, 1] > 0.5)
    assert fitted.recovery_.loss.name == "bernoulli"


def test_several_classes_share_their_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    bend = np.maximum(x[:, 0] - x[:, 1], 0.0)
    odds = np.column_stack([3.0 - 4.0 * bend, 2.0 * bend - 2.0 * x[:, 1], np.zeros(2000)])
    y = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)
    model = lb.NetworkClassifier(QUICK, width=1, random_state=0).fit(x, y)
    assert model.network_.width == 1
    assert model.network_.outputs == model.predict_proba(x).shape[1] == 3
    assert_allclose(model.predict_proba(x).sum(axis=1), 1.0)
    assert_allclose(model.predict_log_proba(x), np.log(model.predict_proba(x)))
    assert model.score(x, y) > np.mean(np.argmax(odds, axis=1) == y) - 0.02


def test_units_that_separate_single_rows_are_left_out():
    """A linear part predicts better than a unit that makes some of its chances zero and one: held-out rows say so."""
    x, y = load_wine(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="rows that are left out are predicted better without any"):
        model = lb.NetworkClassifier(QUICK, random_state=0).fit(x[::2], y[::2])
    assert model.network_.width == 0
    assert model.score(x[1::2], y[1::2]) > 0.95


def test_few_rows_and_one_class():
    x, y = labelled(12)
    with pytest.warns(ConvergenceWarning, match="without hidden units"):
        model = lb.NetworkClassifier().fit(x, y)
    assert model.network_.width == 0
    assert np.isfinite(model.predict_proba(x)).all()
    with pytest.warns(ConvergenceWarning, match="same outputs"):
        assert set(lb.NetworkClassifier().fit(x, ["a"] * 12).predict(x)) == {"a"}


def test_grids_folds_clones_and_pickles(fitted):
    x, y = labelled(600)
    with pytest.warns(ConvergenceWarning, match="do not support 2 hidden units"):
        grid = GridSearchCV(lb.NetworkClassifier(QUICK, random_state=0), {"width": [1, 2]}, cv=2).fit(x, y)
    assert grid.best_score_ > 0.6
    narrow = lb.NetworkClassifier(QUICK, width=1, random_state=0)
    assert cross_val_score(narrow, x, y, cv=2, scoring="neg_log_loss").mean() > -0.69
    assert clone(fitted).get_params() == fitted.get_params()
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(x), fitted.predict_proba(x))


def test_weights_names_and_groups():
    x, y = labelled(900)
    frame = pd.DataFrame(x, columns=["dose", "age"])
    model = lb.NetworkClassifier(QUICK, width=1, random_state=0).fit(
        frame, pd.Series(y, name="state"), sample_weight=np.linspace(0.0, 2.0, 900), groups=np.arange(900) // 3)
    assert "dose" in str(model.recovery_.summary())
    assert model.recovery_.columns.outputs == ("state",)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["age", "dose"]])
