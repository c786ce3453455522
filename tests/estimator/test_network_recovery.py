"""NetworkRecovery: the weights themselves, whatever the inputs come in, and inside of pipelines and grids."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import laybare as lb

DIM, WIDTH, ROWS = 4, 3, 300
NAMES = ["age", "mass", "dose", "time"]
RIGHT = 1e-10


def teacher(seed=0, outputs=1):
    return lb.random_network(DIM, WIDTH, outputs=outputs, rng=seed)


def pairs(seed=0, outputs=1, rows=ROWS):
    x = np.random.default_rng(seed + 100).normal(size=(rows, DIM))
    return x, teacher(seed, outputs)(x)


@pytest.fixture(scope="module")
def fitted():
    return lb.NetworkRecovery(random_state=0).fit(*pairs())


def test_weights_are_those_of_the_teacher(fitted):
    x, y = pairs(rows=50)
    assert lb.compare(fitted.network_, teacher()).max_error < RIGHT
    assert fitted.certificate_.verdict == fitted.recovery_.certificate.verdict == "verified"
    assert fitted.score(x, y) > 1 - 1e-12
    assert fitted.n_features_in_ == DIM
    assert fitted.n_iter_ == len(fitted.recovery_.traces[0].rows) - 1 > 0
    assert_array_equal(fitted.predict(x), fitted.network_(x))


def same(one, other):
    parts = ((net.layer.weights, net.layer.biases, net.readout, net.offset) for net in (one.network_, other.network_))
    return all(np.array_equal(*pair) for pair in zip(*parts, strict=True))


def test_same_weights_on_two_runs_and_with_any_n_jobs(fitted):
    assert same(clone(fitted).fit(*pairs()), fitted)
    assert same(clone(fitted).set_params(n_jobs=2).fit(*pairs()), fitted)


def test_same_weights_on_one_and_two_threads():
    """Rows enough for three blocks, which threads share."""
    x, y = pairs(rows=3000)
    one, two = (
        lb.NetworkRecovery(width=WIDTH, random_state=0).fit(
            lb.Samples(x, y, schedule=lb.source.Schedule(workers=workers, block_bytes=1 << 15))) for workers in (1, 2))
    assert same(one, two)
    assert lb.compare(one.network_, teacher()).max_error < RIGHT


def test_several_outputs_agree_with_single_fits():
    x, y = pairs(outputs=2)
    both = lb.NetworkRecovery(random_state=0).fit(x, y)
    assert both.predict(x).shape == (ROWS, 2)
    assert lb.compare(both.network_, teacher(outputs=2)).max_error < RIGHT
    for output in range(2):
        single = lb.NetworkRecovery(random_state=0).fit(x, y[:, output])
        column = lb.Network(both.network_.layer, both.network_.readout[:, output], both.network_.offset[output])
        assert lb.compare(single.network_, column).max_error < RIGHT


def test_column_of_outputs_comes_back_as_a_column():
    x, y = pairs()
    assert lb.NetworkRecovery(random_state=0).fit(x, y[:, None]).predict(x).shape == (ROWS, 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_keep_their_names(frame, fitted):
    x, y = pairs()
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    column = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    model = lb.NetworkRecovery(random_state=0).fit(table, column)
    assert list(model.feature_names_in_) == NAMES
    assert_array_equal(model.network_.layer.weights, fitted.network_.layer.weights)
    assert_array_equal(model.predict(table), fitted.predict(x))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(dict(zip(NAMES[::-1], x.T, strict=True))))
    assert not hasattr(model.fit(x, y), "feature_names_in_")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_outputs_in_a_data_frame(frame):
    x, y = pairs(outputs=2)
    model = lb.NetworkRecovery(random_state=0).fit(x, frame(dict(zip("ab", y.T, strict=True))))
    assert_allclose(model.predict(x), y, atol=1e-9)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_hidden_units_are_features_with_names(kind, fitted):
    x, _ = pairs(rows=9)
    table = clone(fitted).set_output(transform=kind).fit(*pairs()).transform(x)
    assert type(table).__module__.startswith(kind)
    assert list(table.columns) == [f"networkrecovery{unit}" for unit in range(WIDTH)] == list(fitted.get_feature_names_out())
    assert_array_equal(table.to_numpy(), fitted.network_.layer(x))


def test_linear_model_on_the_hidden_units_is_the_readout(fitted):
    x, y = pairs()
    chain = make_pipeline(clone(fitted), LinearRegression()).fit(x, y)
    assert_allclose(chain[-1].coef_, fitted.network_.readout, atol=1e-8)


def test_pipeline_with_a_scaler_finds_the_teacher():
    x, y = pairs()
    chain = make_pipeline(StandardScaler(), lb.NetworkRecovery(random_state=0)).fit(x * [1, 10, 100, 1e3] + 5.0, y)
    scaler, network = chain[0], chain[1].network_
    weights = network.layer.weights / scaler.scale_ * [1, 10, 100, 1e3]
    own = lb.Network(lb.Layer(weights, network.layer.biases - weights @ ((scaler.mean_ - 5.0) / [1, 10, 100, 1e3])),
                     network.readout, network.offset)
    assert lb.compare(own, teacher()).max_error < 1e-8


def test_grid_over_width_takes_the_right_one():
    x, y = pairs()
    model = lb.NetworkRecovery(lb.RandomStart(search=lb.Search(hops=2)), random_state=0)
    grid = GridSearchCV(model, {"width": [1, WIDTH], "method__search__hops": [1]}, cv=2).fit(x, y)
    assert grid.best_params_ == {"width": WIDTH, "method__search__hops": 1}
    assert grid.best_estimator_.recovery_.method.search.hops == 1


def test_source_in_place_of_arrays(fitted):
    x, y = pairs()
    model = lb.NetworkRecovery(random_state=0).fit(lb.Samples(x, y))
    assert_array_equal(model.network_.layer.weights, fitted.network_.layer.weights)
    assert model.n_features_in_ == DIM
    box = lb.NetworkRecovery(random_state=0).fit(lb.Oracle(teacher(), budget=2000))
    assert lb.compare(box.network_, teacher()).max_error < 1e-8
    assert box.predict(x).shape == (ROWS,)
    with pytest.raises(lb.errors.InvalidInput, match="Samples was given, and outputs"):
        model.fit(lb.Samples(x, y), y)


def test_page_of_the_estimator_in_a_notebook(fitted):
    assert "NetworkRecovery" in fitted._repr_html_()


# Parameters

def test_parameters_reach_into_methods():
    model = lb.NetworkRecovery(lb.TensorInit())
    names = model.get_params()
    assert names["method__search__effort__max_steps"] == lb.solver.Effort().max_steps
    assert names["method__route__decompose"] == lb.TensorInit().route.decompose
    assert "method__activation__name" not in names
    assert set(model.get_params(deep=False)) == {
        "method", "width", "activation", "loss", "random_state", "law", "n_jobs", "progress"}
    method = model.method
    model.set_params(method__search__effort__max_steps=7, method__activation=lb.tanh, width=2)
    assert model.method == lb.TensorInit(
        activation=lb.tanh, search=lb.Search(spares=0, effort=lb.solver.Effort(max_steps=7)))
    assert method == lb.TensorInit()
    model.set_params(method__search__hops=1, method=lb.RandomStart())  # the method first, then what is in it
    assert model.method == lb.RandomStart(search=lb.Search(hops=1))
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(("name", "sentence"), [
    ("method__hops", "'method__hops'. RandomStart has activation, biases, search"),
    ("method__search__effort__floor__x", "has no parts"), ("law__mean", "None has no parts"),
    ("nothing", "Invalid parameter 'nothing'"), ("nothing__inside", "None has no parts")])
def test_unknown_parameters_are_refused(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        lb.NetworkRecovery(lb.RandomStart()).set_params(**{name: 1})


def test_method_brings_its_activation():
    x = pairs()[0]
    truth = lb.random_network(DIM, 2, lb.tanh, rng=1)
    found = lb.NetworkRecovery(lb.RandomStart(activation=lb.tanh), width=2, random_state=0).fit(x, truth(x))
    assert found.network_.activation == lb.tanh
    with pytest.raises(lb.errors.InvalidInput, match="contradict"):
        lb.NetworkRecovery(lb.RandomStart(), activation="tanh").fit(x, truth(x))


@pytest.mark.parametrize("state", [0, np.random.RandomState(3), None], ids=str)
def test_random_states_of_scikit_learn(state):
    assert lb.compare(lb.NetworkRecovery(random_state=state).fit(*pairs()).network_, teacher()).max_error < RIGHT


# Weights of samples

def test_weights_of_zero_leave_rows_out(fitted):
    x, y = pairs()
    spoilt = np.vstack([x, x[:20]]), np.append(y, np.full(20, 99.0))
    weights = np.append(np.full(ROWS, 2.0), np.zeros(20))
    model = lb.NetworkRecovery(random_state=0).fit(*spoilt, sample_weight=weights)
    assert_array_equal(model.network_.layer.weights, fitted.network_.layer.weights)


@pytest.mark.parametrize(("weights", "sentence"), [(np.zeros(ROWS), "at least one"), (-np.ones(ROWS), "egative")])
def test_weights_that_mean_nothing_are_refused(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        lb.NetworkRecovery().fit(*pairs(), sample_weight=weights)


# Persistence

def test_what_joblib_stores_is_the_same_model(fitted):
    x, _ = pairs(rows=9)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(x), fitted.predict(x))
    assert again.get_params() == fitted.get_params()


def test_network_is_kept_without_pickle(fitted, tmp_path):
    fitted.network_.save(tmp_path / "net.safetensors")
    assert lb.compare(lb.load(tmp_path / "net.safetensors"), fitted.network_).max_error == 0.0


def test_before_fit_there_is_nothing():
    model = lb.NetworkRecovery()
    for name in ("network_", "certificate_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_seed_finds_its_teacher(seed):
    model = lb.NetworkRecovery(random_state=seed).fit(*pairs(seed, rows=600))
    assert lb.compare(model.network_, teacher(seed)).max_error < 1e-8
