"""UnionOfHalfSpaces: the half-spaces behind labels of any kind, in either order."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import laybare as lb
from laybare.networks import max_angle
from laybare.planted import threshold_layer

METHOD = lb.HighThreshold(activation=lb.step, baseline=0.0, top=None)
ROWS, NEAR = 4000, 0.1
"""About 0.8 (d + 1)/(n φ(t)) rad are expected: 0.006; the slow test prints what there is from 20,000 rows."""


def labelled(seed, rows=ROWS):
    layer = threshold_layer(4, 2, lb.step, 1.5, rng=seed)
    x = np.random.default_rng(seed + 100).normal(size=(rows, 4))
    return layer, x, layer(x).any(axis=1)


@pytest.fixture(scope="module")
def fitted():
    _, x, inside = labelled(0)
    return lb.UnionOfHalfSpaces(width=2, random_state=0).fit(x, inside)


def test_half_spaces_are_those_behind_the_labels(fitted):
    layer, x, _ = labelled(0)
    fresh = np.random.default_rng(7).normal(size=(2000, 4))
    assert max_angle(fitted.weights_, layer.weights) < NEAR
    assert fitted.thresholds_ == pytest.approx([1.5, 1.5], abs=NEAR)
    assert fitted.certificate_.verdict == "verified", fitted.certificate_.explain()
    assert fitted.score(fresh, layer(fresh).any(axis=1)) > 0.99
    assert_array_equal(fitted.predict(x), fitted.decision_function(x) > 0)
    assert list(fitted.classes_) == [False, True]


def test_words_as_labels_and_the_rarer_class_inside(fitted):
    _, x, inside = labelled(0)
    model = clone(fitted).fit(x, np.where(inside, "accept", "reject"))
    assert list(model.classes_) == ["accept", "reject"]
    assert_array_equal(model.weights_, fitted.weights_)
    assert_array_equal(model.predict(x) == "accept", fitted.predict(x))
    assert_array_equal(model.decision_function(x), -fitted.decision_function(x))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames(frame, fitted):
    _, x, inside = labelled(0)
    model = clone(fitted).fit(frame(dict(zip("abcd", x.T, strict=True))), inside)
    assert list(model.feature_names_in_) == list("abcd")
    assert_array_equal(model.weights_, fitted.weights_)


def test_choices_of_the_method_are_parameters(fitted):
    model = clone(fitted).set_params(method=METHOD, method__annealing__rows=2000)
    assert model.get_params()["method__annealing__rows"] == 2000
    _, x, inside = labelled(0)
    assert max_angle(model.fit(x, inside).weights_, labelled(0)[0].weights) < NEAR


def test_rows_of_weight_zero_are_left_out(fitted):
    _, x, inside = labelled(0)
    weights = np.append(np.ones(ROWS), np.zeros(50))
    model = clone(fitted).fit(np.vstack([x, x[:50]]), np.append(inside, ~inside[:50]), sample_weight=weights)
    assert_array_equal(model.weights_, fitted.weights_)


def test_other_labels_are_refused(fitted):
    _, x, inside = labelled(0)
    with pytest.raises(lb.errors.InvalidInput, match=r"3 classes.*binary"):
        clone(fitted).fit(x, np.arange(ROWS) % 3)
    with pytest.raises(lb.errors.InvalidInput, match=r"inside is 2. The labels are"):
        clone(fitted).set_params(inside=2).fit(x, inside)


def test_what_is_no_union_is_not_verified(fitted):
    _, x, inside = labelled(0)
    model = lb.UnionOfHalfSpaces(2, False, METHOD, random_state=0).set_params(method__repairs=0)
    assert model.fit(x, inside).certificate_.verdict != "verified"


def test_union_that_holds_most_rows():
    """More than half inside: beyond the theory, and the labels still say which side is which."""
    layer = lb.Layer(np.eye(2, 3), np.array([0.2, 0.3]), lb.step)
    x = np.random.default_rng(5).normal(size=(ROWS, 3))
    inside = layer(x).any(axis=1)
    assert inside.mean() > 0.8
    model = lb.UnionOfHalfSpaces(width=2, inside=True, random_state=0).fit(x, inside)
    assert max_angle(model.weights_, layer.weights) < NEAR
    assert model.score(x, inside) > 0.995


def test_what_joblib_stores_is_the_same_model(fitted):
    _, x, _ = labelled(0)
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(x), fitted.predict(x))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_seed_finds_its_half_spaces(seed):
    layer, x, inside = labelled(seed, 20_000)
    model = lb.UnionOfHalfSpaces(random_state=seed).fit(x, inside)
    angle = max_angle(model.weights_, layer.weights)
    print(f"seed {seed}: {len(model.weights_)} half-spaces, largest angle {angle:.4f}, {model.certificate_.verdict}")
    assert angle < 0.02
