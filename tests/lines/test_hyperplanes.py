"""Hyperplanes from located kinks: one hidden layer whose answers are coarse."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.errors import AssumptionViolated
from laybare.lines.feature_space import input_space
from laybare.lines.hyperplanes import Hyperplane, HyperplaneSearch, LocatedReader, _PlaneFit, measure_hyperplane
from laybare.lines.query import QueryBox, QueryContext, QueryCounter
from laybare.lines.read import read_deep, read_network
from laybare.lines.single_layer import ReaderOptions
from laybare.source.rounding import Rounding

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


def drawn(sizes: tuple[int, ...], seed: int) -> lb.Network:
    """Rows N(0, 2 / fan-in), one output."""
    rng = np.random.default_rng(seed)
    layers = [
        lb.Layer(rng.normal(size=(width, below)) * np.sqrt(2.0 / below), 0.5 * rng.normal(size=width), lb.relu)
        for below, width in pairwise(sizes)]
    return lb.Network(layers, rng.normal(size=sizes[-1]) / np.sqrt(sizes[-1]), float(rng.normal()))


@pytest.mark.parametrize("seed", range(1000, 1003))
def test_both_layers_of_a_square_network_are_read_from_float32_answers(seed):
    truth = drawn((6, 6, 6), seed)
    found = read_deep(column(in_single_precision(truth)), 6, rng=np.random.default_rng(seed))
    assert found.complete, found.failure
    match = lb.compare(found.network, truth.canonical())
    assert match.max_error < 1e-3


def test_a_hyperplane_of_a_feature_space_is_measured_from_places_far_apart():
    truth = drawn((6, 6, 4), 7)
    (first, second), rng = truth.layers, np.random.default_rng(7)
    space = input_space(6, 1.0).with_layer(first.weights, first.biases)
    queries = QueryCounter(column(in_single_precision(truth)))
    context = QueryContext(queries, Rounding("float32", 2.0**-24, 2.0**-24, inner=2.0**-24, steepness=1.0), rng)
    row = second.weights[0] / np.linalg.norm(second.weights[0])
    offset = -float(second.biases[0] / np.linalg.norm(second.weights[0]))
    on = next(x for x in (foot(space, row, offset, rng) for _ in range(1000)) if (space.slack(x) > 0.05).all())
    rough = row + 1e-3 * rng.standard_normal(6)
    rough /= np.linalg.norm(rough)
    plane = Hyperplane(rough, float(rough @ space.features(on[None])[0]), np.ones(1), 1e-3, 1e-6, 1.0)
    found = measure_hyperplane(context, plane, on, space, deep=True).plane
    assert found is not None
    assert np.abs(found.normal - row).max() < 2e-5  # fifty times better than the rough one
    assert abs(found.offset - offset) < 2e-5


def test_a_place_that_the_others_contradict_is_dropped():
    rng = np.random.default_rng(0)
    normal = np.array([1.0, 0.0, 0.0])
    plane = _PlaneFit(Hyperplane(normal, 0.0, np.ones(1), 1e-2, 1e-3, 0.1), np.zeros(3), input_space(3, 1.0), (), rng)
    for _ in range(8):
        plane.add(np.append(1e-6 * rng.standard_normal(), rng.standard_normal(2)), 1e-6)
    assert not plane.drop_worst()
    plane.add(np.array([1e-3, 0.7, -0.4]), 1e-6)
    assert plane.drop_worst()
    assert len(plane.places) == 8
    assert not plane.drop_worst()
    assert np.abs(plane.normal - normal).max() < 1e-5


def test_a_deep_network_is_recognised_by_kinks_that_leave_their_hyperplanes():
    truth = drawn((6, 8, 8), 3)
    with pytest.raises(AssumptionViolated, match="more than one layer"):
        searched(truth, 3)


def test_layer_one_of_an_expanding_float32_network_takes_few_queries():
    truth = drawn((4, 20, 20), 5)
    found = read_deep(column(in_single_precision(truth)), 4, rng=np.random.default_rng(5), budget=30_000)
    rows = np.column_stack([truth.layers[0].weights, truth.layers[0].biases])
    rows /= np.linalg.norm(rows[:, :4], axis=1)[:, None]
    planes = np.column_stack([found.layers[0].weights, found.layers[0].biases])
    errors = np.array([min(np.abs(row - s * plane).max() for plane in planes for s in (1.0, -1.0)) for row in rows])
    assert (errors < 1e-3).sum() >= 18
    assert len(planes) <= 22  # nothing that is no unit
    assert sum(found.queries.values()) < 30_000


def column(answer: Any) -> Any:
    """The same with one column."""
    return lambda x: np.asarray(answer(x), dtype=float).reshape(len(x), -1)


def foot(space: Any, row: Any, offset: float, rng: Any) -> Any:
    """A random input of a space on a hyperplane of its features."""
    x = space.random_point(rng)
    return x - (space.features(x[None])[0] @ row - offset) * (space.inverse @ row)


def test_a_search_for_one_layer_hands_over_the_hyperplanes_of_the_lowest_of_several():
    truth = drawn((8, 8, 8), 5)
    with pytest.raises(AssumptionViolated, match="more than one layer") as refused:
        searched(truth, 5)
    located = refused.value.values["located"]
    rows = truth.layers[0].weights / np.linalg.norm(truth.layers[0].weights, axis=1)[:, None]
    assert len(located) >= 2
    assert (1.0 - np.abs(np.array([one.normal for one in located]) @ rows.T).max(axis=1)).max() < 1e-6
    box = column(in_single_precision(truth))
    found = read_deep(box, 8, budget=60, located=located, rng=np.random.default_rng(5))  # ends on the first line
    assert len(found.layers[0].weights) >= len(located)
    assert found.ended
    assert "budget" in found.failure


def test_hyperplanes_of_a_line_on_which_the_budget_ends_are_the_result():
    truth = drawn((8, 8, 8), 5)
    found = read_deep(column(in_single_precision(truth)), 8, budget=700, rng=np.random.default_rng(5))
    rows = truth.layers[0].weights / np.linalg.norm(truth.layers[0].weights, axis=1)[:, None]
    assert found.ended
    assert found.layers[0].observed.lines == 1
    assert (1.0 - np.abs(found.layers[0].weights @ rows.T).max(axis=1)).max() < 1e-6
