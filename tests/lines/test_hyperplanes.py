"""Hyperplanes from located kinks: one hidden layer whose answers are coarse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.lines.hyperplanes import HyperplaneSearch, LocatedReader
from laybare.lines.query import QueryBox, QueryContext, QueryCounter
from laybare.lines.read import read_network
from laybare.lines.single_layer import ReaderOptions

SINGLE = np.float32


def in_single_precision(network: lb.Network) -> Any:
    """The network computed in float32."""
    layers = [(layer.weights.T.astype(SINGLE), layer.biases.astype(SINGLE)) for layer in network.layers]
    readout, offset = network.readout.astype(SINGLE), SINGLE(network.offset)

    def answer(x: Any) -> Any:
        h = np.asarray(x, dtype=SINGLE)
        for weights, biases in layers:
            h = np.maximum(h @ weights + biases, SINGLE(0.0))
        return h @ readout + offset

    return answer


def searched(network: lb.Network, seed: int) -> HyperplaneSearch:
    """The search after its last line."""
    queries = QueryCounter(in_single_precision(network))
    reader = LocatedReader(queries, network.dim, ReaderOptions(), np.random.default_rng(seed))
    reader.read()
    return reader.search


@pytest.mark.parametrize("seed", range(3))
def test_every_hyperplane_is_located_to_rounding(seed):
    truth = lb.random_network(8, 12, biases=0.5, rng=100 + seed)
    search = searched(truth, seed)
    sizes = np.linalg.norm(truth.layer.weights, axis=1)
    normals, offsets = truth.layer.weights / sizes[:, None], -truth.layer.biases / sizes
    found, where = np.array([p.normal for p in search.planes]), np.array([p.offset for p in search.planes])
    assert len(found) == truth.width
    cosines = normals @ found.T
    partner = np.abs(cosines).argmax(axis=1)
    side = np.sign(cosines[np.arange(truth.width), partner])
    assert sorted(partner) == list(range(truth.width))
    assert np.abs(side[:, None] * found[partner] - normals).max() < 1e-4
    assert np.abs(side * where[partner] - offsets).max() < 1e-4
    errors = np.linalg.norm(side[:, None] * found[partner] - normals, axis=1)
    bars = np.array([search.planes[i].normal_sd for i in partner])
    assert np.median(errors / bars) < 10.0  # the promise follows from the rounding


def test_kinks_whose_jump_changes_say_that_there_is_more_than_one_layer():
    truth = lb.random_network(6, widths=(5, 5), rng=3)
    reader = LocatedReader(QueryCounter(in_single_precision(truth)), 6, ReaderOptions(), np.random.default_rng(0))
    with pytest.raises(lb.errors.AssumptionViolated, match="more than one layer") as refused:
        reader.read()
    assert refused.value.values["kind"] == "deep"


@pytest.mark.parametrize("seed", range(2))
def test_the_lowest_of_two_wide_layers_in_float32_is_located_and_nothing_else(seed):
    truth = lb.random_network(4, widths=(12, 12), biases=0.5, rng=300 + seed)
    oracle = lb.Oracle(in_single_precision(truth), 4, rng=seed)
    found = lb.Lines(depth=None).read_deep(oracle, rng=np.random.default_rng(seed))
    sizes = np.linalg.norm(truth.layer.weights, axis=1)
    normals = truth.layer.weights / sizes[:, None]
    lowest = found.layers[0]
    near = np.abs(lowest.weights @ normals.T).max(axis=1)
    assert len(lowest.biases) >= 11
    assert (1.0 - near).max() < 1e-6  # nothing that is no unit of the lowest layer


@pytest.mark.parametrize("seed", range(3))
def test_a_sigmoid_classifier_in_float32_is_read_though_most_of_its_answers_are_certain(seed):
    truth = lb.random_network(8, 16, biases=1.0, rng=200 + seed)
    logits = in_single_precision(lb.Network(truth.layer, 6.0 * truth.readout, 6.0 * float(truth.offset)))

    def probability(x: Any) -> Any:
        return SINGLE(1.0) / (SINGLE(1.0) + np.exp(-np.asarray(logits(x), dtype=SINGLE)))

    found = lb.recover(lb.Oracle(probability, 8, link="logit", rng=seed), rng=seed)
    assert found.certificate.verdict == "verified"
    assert found.network.width == 16
    x = np.random.default_rng(seed).standard_normal((500, 8))
    true = 6.0 * np.asarray(truth(x))
    assert np.abs(np.asarray(found.network(x)) - true).max() < 1e-3 * np.abs(true).max()


def test_a_search_in_a_box_asks_nothing_outside():
    truth, asked = lb.random_network(5, 6, biases=0.5, rng=5), []
    answer = in_single_precision(truth)

    def watched(x: Any) -> Any:
        asked.append(np.abs(x).max())
        return answer(x)

    queries = QueryCounter(watched, box=QueryBox(np.full(5, -2.0), np.full(5, 2.0)))
    LocatedReader(queries, 5, ReaderOptions(), np.random.default_rng(1)).read()
    assert max(asked) <= 2.0


def test_the_rounding_of_small_probabilities_is_looked_at_again():
    truth = lb.random_network(4, 4, biases=0.5, rng=7)
    context = QueryContext(QueryCounter(truth), lb.Oracle(truth, 4).rounding, np.random.default_rng(0))
    search = HyperplaneSearch(context, 4, 1.0)
    search.search()
    assert len(search.planes) == 4


def test_a_weak_unit_is_found_among_many_where_the_others_leave_room():
    truth = lb.random_network(8, 40, biases=0.5, rng=9)
    readout = truth.readout.copy()
    readout[3] *= 2e-3
    weak = lb.Network(truth.layer, readout, truth.offset)
    found = read_network(in_single_precision(weak), 8, budget=12_000, rng=np.random.default_rng(2))
    assert found.complete
    assert found.width == 40
    assert lb.compare(found.network, weak).max_error < 1e-2
