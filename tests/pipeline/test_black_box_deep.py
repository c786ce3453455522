"""recover on black boxes with several hidden layers."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.errors import AssumptionViolated, InvalidInput


def test_recover_goes_deep_where_one_layer_is_refuted() -> None:
    network = lb.random_network(12, widths=(10, 8), rng=3)
    found = lb.recover(lb.Oracle(network, dim=12, budget=20_000), rng=0)
    assert found.certificate.verdict == "verified"
    assert found.network.widths == (10, 8)
    assert lb.compare(found.network, network).max_error < 1e-10


def test_one_layer_by_name_refuses_a_deep_network_and_says_what_to_use() -> None:
    network = lb.random_network(12, widths=(10, 8), rng=3)
    with pytest.raises(AssumptionViolated, match="depth=None"):
        lb.recover(lb.Oracle(network, dim=12, budget=20_000), lb.Lines(), rng=0)


def test_depth_none_reads_a_single_layer_too_even_a_wide_one() -> None:
    for width in (5, 30):
        network = lb.random_network(10, widths=(width,), rng=1)
        found = lb.recover(lb.Oracle(network, dim=10, budget=20_000), lb.Lines(depth=None), rng=0)
        assert found.certificate.verdict == "verified"
        assert lb.compare(found.network, network).max_error < 1e-9


def test_a_layer_wider_than_its_input_is_read_by_folds() -> None:
    network = lb.random_network(10, widths=(20, 8), rng=1)
    found = lb.recover(lb.Oracle(network, dim=10, budget=200_000), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert found.certificate.assurance is not None
    assert lb.compare(found.network, network).max_error < 1e-8


def test_an_incomplete_network_is_doubtful_with_the_layer_and_the_reason() -> None:
    network = lb.random_network(10, widths=(20, 8), rng=1)
    found = lb.recover(lb.Oracle(network, dim=10, budget=9_000), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "doubtful"
    assert "layer 1" in found.certificate.explain()
    assert found.network.width > 10


def test_a_told_depth_that_is_too_small_is_doubtful() -> None:
    network = lb.random_network(12, widths=(10, 9, 7), rng=3)
    found = lb.recover(lb.Oracle(network, dim=12, budget=50_000), lb.Lines(depth=2), rng=0)
    assert found.certificate.verdict == "doubtful"
    assert found.network.top is not None


def test_several_layers_need_relu_units_and_no_box() -> None:
    network = lb.random_network(6, widths=(5, 4), rng=0)
    with pytest.raises(InvalidInput):
        lb.recover(lb.Oracle(network, dim=6, budget=9_000, box=(np.zeros(6), np.ones(6))), lb.Lines(depth=None), rng=0)
