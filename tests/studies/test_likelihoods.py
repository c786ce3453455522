"""The studies of losses and of real data: what is planted, what is counted, what is compared."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies.real_data import (
    DATA,
    KINDS,
    LIKELIHOODS,
    REAL_DATA,
    LikelihoodCell,
    LikelihoodRun,
    RealRun,
    estimators,
    judge,
    load,
    plant,
)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_rows_have_the_spread_of_their_kind(kind):
    network, x, y = plant(LikelihoodCell(kind, 4000), 3)
    assert np.isclose(network(x).std(), KINDS[kind].spread)
    assert np.isclose(network(x).mean(), KINDS[kind].level)
    residual = y - {"poisson": np.exp, "bernoulli": lambda eta: 1 / (1 + np.exp(-eta)), "t3": lambda eta: eta}[kind](network(x))
    assert abs(residual.mean()) < 5 * residual.std() / np.sqrt(len(y))


def test_table_counts_right_and_wrong_ones():
    runs = [LikelihoodRun(True, "verified", True, 1.0), LikelihoodRun(True, "doubtful", False, 2.0),
            LikelihoodRun(False, "verified", False, 3.0, admitted=True), LikelihoodRun(False, "verified", False, 3.0)]
    cells = LIKELIHOODS.cells(LIKELIHOODS.quick)
    result = LIKELIHOODS.summary(LIKELIHOODS.quick, dict.fromkeys(cells, runs))
    assert tuple(result.rows[0])[2:8] == (4, 2, 1, 2, 1, 1)
    assert "poisson: 2 of 4 right, 1 of these verified, 2 wrong ones verified, 1 of which lack" in result.sentence


def test_a_missing_unit_is_admitted_where_the_outputs_hardly_need_it():
    """Labels: the scale is that of the log odds, not of the labels."""
    run = judge(LikelihoodCell("bernoulli", 8000), 3001)
    assert run.wrong_as_far_as_seen


def test_real_data_are_ten_and_all_estimators_are_tuned_alike():
    assert len(DATA) == len(set(DATA)) == 10
    x, y = load("diabetes")
    assert x.shape == (442, 10)
    assert y.shape == (442,)
    models = estimators(0)
    assert set(models) - {"mars"} == {"network", "mlp", "boosting", "ridge"}
    for model, grid in models.values():
        ((name, values),) = grid.items()
        assert name in model.get_params()
        assert len(values) == 3


@pytest.mark.parametrize(("mars", "sentence"), [(np.nan, "boosting 10, ridge 0."), (0.6, "boosting 0, ridge 0, mars 10.")])
def test_real_data_table_names_the_best(mars, sentence):
    run = RealRun(0.4, 0.2, 0.5, 0.3, mars, 100, 0.1)
    result = REAL_DATA.summary(REAL_DATA.quick, {cell: [run] for cell in REAL_DATA.cells(REAL_DATA.quick)})
    assert result.sentence.endswith(sentence)
    assert len(result.rows) == 10
