"""A black box read to the last digit: exact, laws, refusals, budgets."""

from __future__ import annotations

import numpy as np
import pytest
from lines_boxes import Counted, float32_inside, parameters, teacher
from numpy.testing import assert_allclose

import laybare as lb
from laybare.errors import AssumptionViolated, BudgetExhausted
from laybare.lines.query import QueryCounter
from laybare.lines.read import read_network
from laybare.lines.single_layer import ReaderOptions, read_single_layer


@pytest.mark.parametrize(("dim", "width", "average"), [(10, 5, 200), (10, 10, 380), (20, 10, 500)])
def test_small_networks_are_read_to_1e_10_within_the_promised_queries(dim, width, average, rng):
    truth = teacher(dim, width, rng)
    box = Counted(truth)
    found = read_network(box, dim, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-10
    assert found.complete and found.signs_unique and found.network.linear is None
    assert box.queries == sum(found.queries.values()) <= average
    assert found.fresh.max() < 30.0 and len(found.fresh) == 6


def test_more_units_than_dimensions_and_small_readouts(rng):
    truth = teacher(10, 30, rng, smallest=0.05)
    box = Counted(truth)
    found = read_network(box, 10, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-9
    assert box.queries < 3 * parameters(truth)


def test_several_outputs_share_their_queries(rng):
    truth = teacher(8, 6, rng, outputs=3)
    box = Counted(truth)
    found = read_network(box, 8, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-10
    assert box.queries < 2 * parameters(truth)


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.1), lb.absolute])
def test_the_activation_is_found_out(activation, rng):
    truth = teacher(7, 5, rng, activation=activation)
    found = read_network(truth, 7, ReaderOptions(activation=None), rng=rng)
    assert found.network.activation.name == activation.name
    assert lb.compare(found.network, truth).max_error < 1e-9


def test_scales_from_a_hundredth_to_a_hundred_and_far_units(rng):
    truth = teacher(10, 12, rng)
    scale = 10.0 ** rng.uniform(-2.0, 2.0, 12)
    far = lb.Network(lb.Layer(truth.layer.weights * scale[:, None], rng.uniform(-20.0, 20.0, 12)), truth.readout)
    found = read_network(far, 10, rng=rng)
    assert found.width == 12 and lb.compare(found.network, far).max_error < 1e-8


def test_error_bars_hold(rng):
    truth = teacher(6, 6, rng)
    found = read_network(truth, 6, rng=rng)
    match = lb.compare(found.network, truth)
    assert max(match.weight_error, match.readout_error) < 6.0 * found.error_bar < 1e-9


def test_the_result_turns_with_the_inputs(rng):
    truth = teacher(5, 4, rng)
    Q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    turned = lb.Network(lb.Layer(truth.layer.weights @ Q.T, truth.layer.biases), truth.readout, 0.3)
    found = read_network(lambda x: truth(x @ Q), 5, rng=rng)
    assert lb.compare(found.network, turned).max_error < 1e-10


def test_float32_answers_are_recognised_and_read_to_their_floor(rng):
    truth = teacher(10, 16, rng)
    found = read_network(lambda x: truth(x).astype(np.float32), 10, rng=rng)
    assert found.rounding.kind == "float32" and found.complete
    assert lb.compare(found.network, truth).max_error < 1e-4
    x = rng.standard_normal((500, 10))
    assert np.abs(found.network(x) - truth(x)).max() < 1e-5 * np.abs(truth(x)).max()


def test_pieces_that_coarse_answers_leave_unclear_are_no_end_of_the_budget():
    rng = np.random.default_rng(102)
    truth = teacher(64, 32, rng)
    state = read_single_layer(QueryCounter(float32_inside(truth), budget=40_000), 64, rng=rng)
    assert state.budget_error is None and state.lines > 1


def test_decimals_are_seen_where_most_first_answers_are_the_same():
    rng = np.random.default_rng(61_012)
    truth = teacher(6, 4, rng)
    found = read_network(lambda x: np.round(truth(x), 4), 6, budget=1160, rng=rng)
    assert found.rounding.kind == "4 decimals" and found.complete
    assert lb.compare(found.network, truth).max_error < 1e-3


def test_nothing_is_asked_outside_of_the_box(rng):
    truth = teacher(6, 5, rng)
    box = Counted(truth)
    found = read_network(box, 6, box=(np.full(6, -2.0), np.full(6, 2.0)), rng=rng)
    assert box.low >= -2.0 and box.high <= 2.0
    x = rng.uniform(-2.0, 2.0, (500, 6))
    assert np.abs(found.network(x) - truth(x)).max() < 1e-10


def test_units_that_never_bend_in_the_box_are_part_of_its_linear_map(rng):
    layer = lb.Layer(np.array([[1.0, 1.0], [1.0, -1.0], [0.3, 0.2]]), np.array([-1.0, 0.1, 5.0]))
    truth = lb.Network(layer, np.array([1.0, -1.0, 2.0]))
    found = read_network(truth, 2, box=(np.zeros(2), np.ones(2)), rng=rng)
    x = rng.random((500, 2))
    assert found.width == 2 and np.abs(found.network(x) - truth(x)).max() < 1e-10
    assert any("linear part" in note for note in found.notes)
    said = lb.recover(lb.Oracle(truth, box=(0.0, 1.0)), rng=0).certificate.explain()
    assert "do not bend inside the box are part of its linear map" in said


def with_copy(truth, row, bias, readout):
    layer = lb.Layer(np.vstack([truth.layer.weights, row]), np.append(truth.layer.biases, bias))
    return lb.Network(layer, np.append(truth.readout, readout), 0.3)


def test_parallel_duplicate_and_opposite_units(rng):
    truth = teacher(6, 4, rng)
    row, bias = truth.layer.weights[0], truth.layer.biases[0]
    x = rng.standard_normal((300, 6))
    cases = {"parallel": (row, bias + 0.7, 5), "duplicate": (3.0 * row, 3.0 * bias, 4), "opposite": (-row, -bias, 4)}
    for name, (w, b, hyperplanes) in cases.items():
        network = with_copy(truth, w, b, 0.8)
        found = read_network(network, 6, rng=rng)
        assert found.width == hyperplanes, name
        assert_allclose(found.network(x), network(x), atol=1e-10)
        assert any("opposite" in note for note in found.notes) == (name == "opposite")
        said = lb.recover(lb.Oracle(network), rng=0).certificate
        assert said.verdict == "verified" and "share a hyperplane and its active side are one" in said.explain()


def test_a_linear_function_has_no_units(rng):
    found = read_network(lambda x: x @ np.arange(5.0) + 2.0, 5, rng=rng)
    assert found.width == 0 and sum(found.queries.values()) < 60
    x = rng.standard_normal((50, 5))
    assert_allclose(found.network(x), x @ np.arange(5.0) + 2.0, atol=1e-12)


@pytest.mark.parametrize("activation", [lb.tanh, lb.sigmoid, lb.gelu, lb.softplus, lb.power_relu(2)])
def test_smooth_units_are_refused_within_a_hundred_queries(activation, rng):
    box = Counted(teacher(8, 6, rng, activation=activation))
    with pytest.raises(AssumptionViolated, match="not piecewise linear") as finding:
        read_network(box, 8, rng=rng)
    assert finding.value.values["kind"] == "smooth" and box.queries <= 100


def test_noise_is_refused_within_a_hundred_queries(rng):
    truth = teacher(8, 6, rng)
    noise = np.random.default_rng(1)
    box = Counted(lambda x: truth(x) + 1e-3 * noise.standard_normal(len(x)))
    with pytest.raises(AssumptionViolated, match="noisy"):
        read_network(box, 8, rng=rng)
    assert box.queries <= 100


def test_kinks_beside_every_first_point_are_no_noise():
    """Three of four first clusters have a kink just beside their first point: it stays when they are made smaller."""
    rng = np.random.default_rng(20062)
    truth = teacher(20, 10, rng)
    assert lb.compare(read_network(truth, 20, rng=rng).network, truth).max_error < 1e-10


def test_two_units_that_a_line_meets_next_to_each_other_are_no_second_layer():
    for seed in (10, 77, 167, 174):
        rng = np.random.default_rng(seed)
        truth = teacher(5, 2, rng)
        found = lb.recover(lb.Oracle(truth, budget=600), rng=rng)
        assert found.network.depth == 1 and found.network.top is None and found.certificate.verdict == "verified"


def test_more_signs_than_can_be_looked_for_end_with_a_sentence(rng):
    truth = teacher(3, 50, rng)
    events = []
    found = lb.recover(lb.Oracle(truth, budget=3000), rng=rng, progress=events.append)
    assert found.certificate.verdict == "doubtful"
    assert "was not looked for: 50 units beside 3 inputs leave too many patterns" in found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < 1e-8
    assert {event.total for event in events if event.stage == "lines"} == {3000}


def test_steps_are_refused_within_a_hundred_queries(rng):
    box = Counted(teacher(8, 6, rng, activation=lb.step))
    with pytest.raises(AssumptionViolated, match="steps"):
        read_network(box, 8, rng=rng)
    assert box.queries <= 100


@pytest.mark.parametrize("budget", [5, 20, 31])
def test_a_budget_without_a_single_unit_is_one_sentence_with_an_advice(budget, rng):
    truth = teacher(5, 3, rng)
    box = Counted(truth)
    with pytest.raises(BudgetExhausted, match="Grant"):
        read_network(box, 5, budget=budget, rng=rng)
    assert box.queries <= budget


def test_a_budget_for_some_units_gives_them_and_says_what_all_would_take(rng):
    truth = teacher(20, 10, rng)
    found = read_network(truth, 20, budget=170, rng=rng)
    assert not found.complete and 0 < found.width < 10
    assert any("at least 10 units" in note for note in found.notes)
    again = read_network(truth, 20, budget=found.needed, rng=rng)
    assert again.complete and again.width == 10


def test_the_same_seed_asks_the_same_questions(rng):
    truth = teacher(6, 4, rng)
    first, second = (read_network(truth, 6, rng=np.random.default_rng(5)) for _ in range(2))
    assert first.queries == second.queries
    assert np.array_equal(first.network.layer.weights, second.network.layer.weights)


@pytest.mark.slow
def test_784_inputs_cost_hardly_more_than_one_query_per_parameter(rng):
    truth = teacher(784, 32, rng)
    box = Counted(truth)
    found = read_network(box, 784, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-8
    assert box.queries < 1.3 * parameters(truth)
