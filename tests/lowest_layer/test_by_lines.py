"""The lowest layer of a deep ReLU network behind a black box, none of whose units is rarely active."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.errors import InvalidInput


@pytest.mark.parametrize("method", [None, lb.Lines(depth=None)])
def test_the_lowest_layer_is_read_whatever_lies_above(method: lb.Lines | None) -> None:
    truth = lb.random_network(12, widths=(9, 6, 5), rng=2)
    oracle = lb.Oracle(truth, dim=12, budget=20_000)
    found = lb.recover_layer(oracle, method, rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    rows = truth.layer.weights / np.linalg.norm(truth.layer.weights, axis=1)[:, None]
    biases = np.asarray(truth.layer.biases) / np.linalg.norm(truth.layer.weights, axis=1)
    pairs = (found.layer.weights @ rows.T).argmax(axis=1)
    assert sorted(pairs) == list(range(9))
    assert np.abs(found.layer.weights - rows[pairs]).max() < 1e-7
    assert np.abs(found.thresholds + biases[pairs]).max() < 1e-7
    assert sum(found.queries.values()) == found.samples_used < 2500
    x = np.random.default_rng(1).standard_normal((20, 12))
    assert np.abs(found(x).ravel() - truth(x)).max() < 1e-6  # the top is the black box itself


def test_a_layer_wider_than_its_input_is_doubtful() -> None:
    truth = lb.random_network(5, widths=(9, 4), rng=0)
    found = lb.recover_layer(lb.Oracle(truth, dim=5, budget=20_000), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "doubtful"
    assert "wider" in found.certificate.explain()
    assert found.top is None


def test_what_is_not_a_black_box_or_not_any_depth_is_refused() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.raises(InvalidInput, match="points of their choice"):
        lb.recover_layer(lb.Samples(x, x[:, 0]), lb.Lines(depth=None))
    with pytest.raises(InvalidInput, match="whatever lies above"):
        lb.recover_layer(lb.Oracle(lambda x: x[:, 0], dim=3, budget=100), lb.Lines())
