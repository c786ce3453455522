"""The studies of deep networks run on small grids; what counts as right leaves out what no input shows."""

from __future__ import annotations

import time

import numpy as np
import pytest

import laybare as lb
from laybare.networks import Layer, Network
from laybare.studies.black_boxes import DEEP, DEEP_CASES, DEEP_TRAINED, DEEP_WIDE, agreement, units_that_agree
from laybare.studies.study import Settings


def test_deep_networks_are_right() -> None:
    result = DEEP.run(Settings((0,), ((8, 6, 5, 1),)))
    assert result.rows[0].right == "1/1"
    assert result.rows[0].right_and_verified == 1
    assert result.rows[0].verified_but_wrong == 0


def test_no_case_is_wrong_and_verified() -> None:
    result = DEEP_CASES.run(Settings((0,), ("contracting", "expanding", "asleep or always on")))
    assert sum(row.verified_but_wrong for row in result.rows) == 0
    assert result.rows[0].right_and_verified == 1


def test_a_layer_wider_than_its_input_is_right_and_the_control_is_not() -> None:
    row = DEEP_WIDE.run(Settings((10,), ((4, 6, 3, 1),))).rows[0]
    assert (row.function_right, row.right, row.verified_but_wrong) == (1, 1, 0)
    assert row.queries_per_parameter < 100.0
    assert row.smallest_control_error > 1e-8


def test_units_agree_up_to_scale_and_order_and_not_if_their_side_is_wrong() -> None:
    network = lb.random_network(4, widths=(5, 3), rng=0)
    first, second = network.layers
    bend, right = units_that_agree(network.canonical(), network)
    assert bend == right
    assert bend >= 6
    turned = Layer(np.vstack([-first.weights[:1], first.weights[1:]]), np.append(-first.biases[0], first.biases[1:]))
    assert units_that_agree(Network((turned, second), network.readout, network.offset), network)[1] < right


# What is promised of deep networks, with depth and widths unknown: networks that are right, log2 of the mean number of queries,
# and CPU seconds per network at most. What was measured stands in docs/deep.md.
PROMISED = [
    ((10, 10, 10, 1), range(60, 80), 18, 13.5, 5.0),
    ((20, 15, 10, 1), range(60, 80), 18, 14.0, 5.0),
    ((80, 40, 20, 1), range(60, 70), 9, 15.5, 20.0),
    ((40, 20, 10, 10, 1), range(60, 70), 8, 17.5, 20.0),
    ((784, 32, 16, 10), range(60, 62), 2, 20.0, 600.0),
    ((784, 128, 64, 1), range(60, 62), 2, 20.0, 600.0),
]


def _count(right: str) -> int:
    return int(right.split("/")[0])


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seeds", "least", "log2_queries", "seconds"), PROMISED)
def test_deep_networks_are_read_as_promised(
    shape: tuple[int, ...], seeds: range, least: int, log2_queries: float, seconds: float
) -> None:
    begun = time.process_time()
    row = DEEP.run(Settings(seeds, (shape,))).rows[0]
    print(row)
    assert time.process_time() - begun < seconds * len(seeds)
    assert _count(row.right) >= least
    assert row.right_and_verified >= least
    assert row.verified_but_wrong == 0
    assert row.log2_queries <= log2_queries
    assert row.median_error < 1e-11


@pytest.mark.slow
def test_no_case_of_200_is_wrong_and_verified() -> None:
    result = DEEP_CASES.run(DEEP_CASES.settings(range(100, 125), full=True))
    print(*result.rows, sep="\n")
    assert sum(row.cases for row in result.rows) == 200
    assert sum(row.verified_but_wrong for row in result.rows) == 0
    assert sum(row.right_and_verified for row in result.rows) >= 125


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", "breast_cancer", "diabetes"])
def test_trained_networks_are_read(data: str) -> None:
    row = DEEP_TRAINED.run(Settings(range(60, 70), (data,))).rows[0]
    print(row)
    assert _count(row.right) >= 8
    assert row.verified_but_wrong == 0
    assert row.median_error < 1e-11


def _with_a_unit(network: Network, row: np.ndarray, bias: float) -> Network:
    first, second = network.layers
    layer = Layer(np.vstack([second.weights, row]), np.append(second.biases, bias))
    return Network((first, layer), np.append(network.readout, 1.0), network.offset)


def test_a_unit_that_is_never_active_does_not_count_and_one_that_is_does() -> None:
    network = lb.random_network(8, widths=(6, 5), rng=1)
    asleep = _with_a_unit(network, -np.ones(6), -1.0)
    assert agreement(network, asleep).right(1e-12)
    awake = _with_a_unit(network, np.linspace(-1.0, 1.0, 6), 0.1)
    assert not agreement(network, awake).right(1e-2)


@pytest.mark.parametrize("further", [1.0, 40.0])  # pairs of other units may be as far apart as its biases are
def test_the_bias_of_a_unit_that_is_always_on_does_not_count_and_its_row_does(further: float) -> None:
    network = lb.random_network(8, widths=(6, 5), rng=1)
    one = _with_a_unit(network, np.ones(6), 1.0)
    other = _with_a_unit(network, np.ones(6), 1.0 + further)
    other = Network(other.layers, other.readout, other.offset - further)
    assert agreement(other, one).right(1e-12)
    assert not agreement(_with_a_unit(network, np.linspace(1.0, 2.0, 6), 1.0), one).right(1e-2)
