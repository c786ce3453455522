"""The studies of losses and of real data: what is planted, what is counted, what is compared."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies.likelihoods import KINDS, LIKELIHOODS, LikelihoodCell, LikelihoodRun, plant
from laybare.studies.real_data import DATA, REAL_DATA, RealRun, estimators, load


@pytest.mark.parametrize("kind", KINDS)
def test_planted_rows_have_the_spread_of_their_kind(kind):
    network, x, y = plant(LikelihoodCell(kind, 4000), 3)
    assert np.isclose(network(x).std(), KINDS[kind].spread)
    assert np.isclose(network(x).mean(), KINDS[kind].level)
    residual = y - {"poisson": np.exp, "bernoulli": lambda eta: 1 / (1 + np.exp(-eta)), "t3": lambda eta: eta}[kind](network(x))
    assert abs(residual.mean()) < 5 * residual.std() / np.sqrt(len(y))


def test_table_counts_right_and_wrong_ones():
    runs = [LikelihoodRun(True, "verified", True, 1.0), LikelihoodRun(True, "doubtful", False, 2.0),
            LikelihoodRun(False, "verified", False, 3.0)]
    cells = LIKELIHOODS.cells(LIKELIHOODS.quick)
    result = LIKELIHOODS.summary(LIKELIHOODS.quick, dict.fromkeys(cells, runs))
    assert tuple(result.rows[0])[2:7] == (3, 2, 1, 1, 1)
    assert "poisson: 2 of 3 right, 1 of these verified, 1 wrong" in result.sentence


def test_real_data_are_ten_and_all_estimators_are_tuned_alike():
    assert len(DATA) == len(set(DATA)) == 10
    x, y = load("diabetes")
    assert x.shape == (442, 10)
    assert y.shape == (442,)
    models = estimators(0)
    assert set(models) == {"network", "mlp", "boosting", "ridge"}
    for model, grid in models.values():
        ((name, values),) = grid.items()
        assert name in model.get_params()
        assert len(values) == 3


def test_real_data_table_names_the_best():
    run = RealRun(0.4, 0.2, 0.5, 0.3, 100, 0.1)
    result = REAL_DATA.summary(REAL_DATA.quick, {cell: [run] for cell in REAL_DATA.cells(REAL_DATA.quick)})
    assert "boosting 10" in result.sentence
    assert len(result.rows) == 10
