"""NetworkRecovery answers where `recover` refuses: with a warning, and a certificate that says so."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

import laybare as lb
from laybare.estimator import always_answer

HIDDEN_UNITS = "hidden units that the rows support"
COLUMNS_LEFT_OUT = "columns left out"


def rows(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng


def failed(model):
    return {claim.name for claim in model.certificate_.checks if not claim.passed}


@pytest.mark.parametrize(("n", "dim"), [(3, 1), (9, 3), (10, 30), (40, 10)])
def test_few_rows_give_a_linear_part(n, dim):
    x, rng = rows(n, dim)
    with pytest.warns(ConvergenceWarning, match="without hidden units"):
        model = lb.NetworkRecovery(random_state=0).fit(x, x[:, 0] + 0.1 * rng.normal(size=n))
    assert model.network_.width == 0
    assert model.certificate_.verdict == "doubtful"
    assert failed(model) == {HIDDEN_UNITS}
    assert np.isfinite(model.predict(x)).all()
    with pytest.raises(lb.errors.TooFewSamples):
        lb.recover(x, x[:, 0] + rng.normal(size=n))


@pytest.mark.parametrize("width", [None, 1, 3])
@pytest.mark.parametrize("seed", [14, 15, 22])
def test_units_that_follow_single_rows_are_left_out(seed, width):
    """A line among outliers: units that follow some of them fit the rows better, and miss the line by far beside them. A width
    that is given is the largest one; `recover` keeps it."""
    x, rng = rows(150, 3, seed)
    y = x[:, 0] + rng.standard_t(2, 150)
    fresh = rng.normal(size=(5000, 3))
    with pytest.warns(ConvergenceWarning, match=r"do not support \d hidden units?: .* without hidden units was fitted") as said:
        model = lb.NetworkRecovery(width=width, random_state=0).fit(x, y)
    assert len(said) == 1  # however many widths were tried
    assert model.network_.width == 0 and failed(model) == {HIDDEN_UNITS}
    strict = lb.recover(x, y, width=1, activation="relu", rng=0)
    assert strict.network.width == 1
    apart, far = (np.mean((one(fresh) - fresh[:, 0]) ** 2) for one in (model.recovery_, strict))
    assert apart < 1.0 and far > 3.0 * apart


def test_a_width_that_is_too_large_gives_the_network_that_rows_support():
    """Two units behind the rows, five allowed: one warning, and the certificate of the two."""
    truth = lb.random_network(3, 2, rng=5)
    x, rng = rows(1500, 3)
    y = truth(x) + 0.1 * rng.normal(size=1500)
    with pytest.warns(ConvergenceWarning, match="do not support 5 hidden units: .* 2 units, as many as they support") as said:
        model = lb.NetworkRecovery(width=5, random_state=0).fit(x, y)
    assert len(said) == 1
    assert model.network_.width == 2 and model.certificate_.verdict == "verified"
    assert lb.compare(model.network_, truth).max_error < 0.1


def test_constant_outputs_give_a_constant():
    x, _ = rows(200, 3)
    with pytest.warns(ConvergenceWarning, match="same outputs"):
        model = lb.NetworkRecovery().fit(x, np.full(200, 7.0))
    assert_allclose(model.predict(x), 7.0)


def test_noise_in_few_rows_gives_about_a_constant():
    """The ridge is chosen by generalised cross-validation: what does not predict is shrunk away."""
    x, rng = rows(12, 8)
    with pytest.warns(ConvergenceWarning):
        model = lb.NetworkRecovery().fit(x, 5.0 + rng.normal(size=12))
    assert np.std(model.predict(rows(500, 8, seed=1)[0])) < 1.0


def test_exact_lines_are_found_from_few_rows():
    x, _ = rows(12, 3)
    with pytest.warns(ConvergenceWarning):
        model = lb.NetworkRecovery().fit(x, x @ [1.0, -2.0, 3.0] + 4.0)
    assert_allclose(model.network_.linear, [1.0, -2.0, 3.0], atol=1e-4)
    assert_allclose(model.network_.offset, 4.0, atol=1e-4)


def test_rows_too_few_to_look_for_the_width_give_a_narrow_network():
    x, _ = rows(40, 1)
    y = np.abs(x[:, 0])
    width = 7
    with pytest.warns(ConvergenceWarning, match="as many as they support, was fitted"):
        model = lb.NetworkRecovery(width=width * 3, random_state=0).fit(x, y)
    assert 0 < model.network_.width <= 3
    assert HIDDEN_UNITS in failed(model)


def test_columns_that_follow_from_others_are_left_out():
    truth = lb.random_network(3, 2, rng=0)
    x, _ = rows(300, 3)
    wide = np.column_stack([x[:, 0], np.ones(300), x[:, 1:], x[:, 0] + x[:, 1]])
    with pytest.warns(ConvergenceWarning, match="left out"):
        model = lb.NetworkRecovery(random_state=0).fit(wide, truth(x))
    assert_allclose(model.predict(wide), truth(x), atol=1e-8)
    assert model.network_.dim == model.n_features_in_ == 5
    assert failed(model) == {COLUMNS_LEFT_OUT}
    assert np.isinf(model.certificate_.standard_errors.weights).sum() == 2 * model.network_.width


def test_standard_errors_of_predictions():
    truth = lb.random_network(3, 2, rng=1)
    x, rng = rows(2000, 3)
    model = lb.NetworkRecovery(width=2, random_state=0).fit(x, truth(x) + 0.2 * rng.normal(size=2000))
    new = rows(500, 3, seed=5)[0]
    mean, errors = model.predict(new, return_std=True)
    apart = np.abs(mean - truth(new)) / errors
    assert np.mean(apart < 2.0) > 0.8  # one network: its errors are correlated over the inputs
    assert mean.shape == errors.shape == (500,)
    with pytest.warns(ConvergenceWarning):
        few = lb.NetworkRecovery().fit(x[:9], truth(x[:9]))
    assert (few.predict(new, return_std=True)[1] > 0).all()


def test_misuse_is_still_refused():
    x, rng = rows(9, 3)
    with pytest.raises(lb.errors.InvalidInput, match="width"):
        lb.NetworkRecovery(width=-1).fit(x, rng.normal(size=9))


def test_names_of_columns_reach_the_summary():
    frame = load_diabetes(as_frame=True).frame.iloc[:, [2, 8, 10]]
    model = lb.NetworkRecovery(width=1, random_state=0).fit(frame[["bmi", "s5"]], frame["target"])
    assert "bmi" in str(model.recovery_.summary())
    assert model.recovery_.columns.outputs == ("target",)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_real_data_are_predicted_in_cross_validation():
    x, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(lb.NetworkRecovery(random_state=0), x, y, cv=3)
    assert scores.mean() > 0.4


def test_columns_that_are_left_out_are_named_and_predictions_keep_their_errors():
    """Beside columns that say nothing, standard errors and intervals are those of the fit without them."""
    x, rng = rows(600, 2)
    y = 2.0 * np.maximum(x[:, 0] + x[:, 1], 0.0) + 0.3 * x[:, 1] + 0.2 * rng.normal(size=600)
    wide = np.column_stack([np.ones(600), x[:, 0], x[:, 0] - 2.0 * x[:, 1], x[:, 1]])
    with pytest.warns(ConvergenceWarning, match="2 of 4 columns are constant, or follow"):
        model = lb.NetworkRecovery(random_state=0).fit(wide, y)
    kept = np.flatnonzero(np.isfinite(model.certificate_.standard_errors.weights[0]))
    plain = lb.NetworkRecovery(random_state=0).fit(wide[:, kept], y)
    for found, alone in zip(model.predict(wide, return_std=True), plain.predict(wide[:, kept], return_std=True), strict=True):
        assert_allclose(found, alone, rtol=1e-9)
    unit, alone = model.recovery_.summary().units[0], plain.recovery_.summary().units[0]
    assert_allclose([unit.location.value, unit.location.se], [alone.location.value, alone.location.se], rtol=1e-9)
    assert {term.column: term.direction.value for term in unit.terms}["x0"] == 0.0


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_left_out_columns_of_a_linear_part_keep_its_errors(loss):
    x, rng = rows(10, 3)
    y = rng.poisson(np.exp(1.0 + x[:, 1])).astype(float)
    wide = np.column_stack([np.full(10, 4.0), x, -x[:, :1]])
    with pytest.warns(ConvergenceWarning):
        model = lb.NetworkRecovery(loss=loss).fit(wide, y)
    kept = np.flatnonzero(model.network_.linear)
    with pytest.warns(ConvergenceWarning):
        plain = lb.NetworkRecovery(loss=loss).fit(wide[:, kept], y)
    assert len(kept) == 3
    assert_allclose(model.predict(wide, return_std=True)[1], plain.predict(wide[:, kept], return_std=True)[1], rtol=1e-9)


def test_intervals_of_new_answers_cover_where_no_row_was_held_out():
    """30 rows, 6 columns, no hidden unit: 200 fits of 90 %, whose binomial error is 2 %; residuals of the fit itself would cover
    about 83 %."""
    covered = []
    for seed in range(200):
        x, rng = rows(230, 6, seed)
        y = x[:, 0] + 0.5 * rng.normal(size=230)
        with pytest.warns(ConvergenceWarning):
            model = lb.NetworkRecovery(random_state=0).fit(x[:30], y[:30])
        assert model.network_.width == 0
        p = model.recovery_.predict(x[30:], interval=0.9)
        covered.append(np.mean((p.new_lower <= y[30:]) & (y[30:] <= p.new_upper)))
    assert 0.86 < np.mean(covered) < 0.95


def test_too_few_rows_for_an_interval_say_so_by_an_infinite_one():
    x, _ = rows(12, 2)
    with pytest.warns(ConvergenceWarning):
        found = lb.NetworkRecovery().fit(x, x[:, 0] ** 2).recovery_
    assert np.isinf(found.predict(x).new_upper).all()
    assert np.isfinite(found.predict(x, interval=0.8).new_upper).all()
    assert len(found.plot(kind="effects")) == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_line_among_outliers_is_fitted_by_the_loss_that_was_asked_for():
    """60 rows, noise of Student's t with 1.5 degrees of freedom, whose variance is infinite: the medians of 20 fits."""
    missed = {"squared": [], "huber": []}
    for seed in range(20):
        x, rng = rows(60, 4, seed)
        y = 2.0 * x[:, 0] + 0.5 * rng.standard_t(1.5, 60)
        for loss, errors in missed.items():
            model = lb.NetworkRecovery(loss=loss, width=1, random_state=0).fit(x, y)
            errors.append(np.mean((model.predict(x) - 2.0 * x[:, 0]) ** 2))
    assert np.median(missed["huber"]) < 0.1 < np.median(missed["squared"])


def test_all_widths_that_are_tried_spend_one_level(monkeypatch):
    """A narrower network that is verified after wider ones were not had had chances of its own at the whole level."""
    spent, inner = [], always_answer.recover

    def recover(*given, assurance, **further):
        if further["width"] is not None:  # else it is asked for the width alone, and its verdict is not used
            spent.append(sum(assurance.level_of_look(look) for look in range(50)))
        return inner(*given, assurance=assurance, **further)

    monkeypatch.setattr(always_answer, "recover", recover)
    truth = lb.random_network(3, 2, rng=5)
    x, rng = rows(400, 3)
    with pytest.warns(ConvergenceWarning):
        model = lb.NetworkRecovery(width=5, random_state=0).fit(x, truth(x) + 0.1 * rng.normal(size=400))
    assert model.network_.width < 5 and len(spent) >= 2
    assert spent == sorted(spent, reverse=True) and spent[0] > 4.0 * spent[1]
    assert sum(spent) <= 0.05 < sum(spent) / (1.0 - 0.2 ** len(spent)) * 1.0001
    assert model.certificate_.resolution.level == 0.05
