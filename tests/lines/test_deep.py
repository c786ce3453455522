"""DeepParameters networks read layer by layer: the parts, and networks of two and three hidden layers end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.errors import AssumptionViolated, BudgetExhausted
from laybare.lines.deep_fit import DeepParameters, fit_all_layers
from laybare.lines.feature_space import FeatureSpace, input_space
from laybare.lines.layer import choose_lowest_units, estimate_layer
from laybare.lines.observations import LayerObservations, distinct_refused, follow_line, with_unshown_refused
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import DeepReader, DeepState, read_deep
from laybare.lines.surfaces import PieceGradient
from laybare.networks import Network
from laybare.source import Rounding


def _context(network: Network, rng: np.random.Generator) -> tuple[QueryContext, FeatureSpace]:
    queries, space = QueryCounter(network), input_space(network.dim, 1.0)
    return QueryContext(queries, check_piecewise_linear(queries, space.line(0, rng)).rounding, rng), space


def _deep(network: Network) -> DeepParameters:
    layers = []
    scale = np.ones(network.dim)
    for layer in network.layers:
        rows = layer.weights * scale
        scale = np.linalg.norm(rows, axis=1)
        layers.append((rows / scale[:, None], np.asarray(layer.biases) / scale))
    return DeepParameters(tuple(layers), network.readout[:, None] * scale[:, None], np.array([network.offset]))


def test_feature_spaces_are_the_features_where_all_units_are_active() -> None:
    network, rng = lb.random_network(12, widths=(9, 5), rng=1), np.random.default_rng(0)
    space = input_space(12, 1.0)
    for layer in network.layers:
        space = space.with_layer(layer.weights, np.asarray(layer.biases))
        x = np.array([space.random_point(rng) for _ in range(8)])
        assert np.allclose(space.features(x), Network(network.layers[: len(space.layers)], np.ones(space.width)).features(x))
        assert (x @ space.boundaries.T + space.boundary_offsets > 0.0).all()
        line = space.line(100, rng)
        inside = line(np.linspace(line.low, line.high, 7))
        assert (inside @ space.boundaries.T + space.boundary_offsets > 0.0).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_first_layer_is_told_from_curved_surfaces_with_its_signs(seed: int) -> None:
    network, rng = lb.random_network(15, widths=(10, 8), rng=seed), np.random.default_rng(seed)
    context, space = _context(network, rng)
    observed = LayerObservations(space)
    for _ in range(3):
        observed = follow_line(context, observed, space.line(0, rng))
    layer = estimate_layer(observed)
    assert not layer.failure
    assert observed.curved
    assert layer.readout is None
    rows = network.layer.weights / np.linalg.norm(network.layer.weights, axis=1)[:, None]
    assert np.allclose(np.sort((layer.weights @ rows.T).max(axis=1)), 1.0)  # the sign is part of it


def test_a_layer_without_one_of_its_units_is_incomplete() -> None:
    network, rng = lb.random_network(15, widths=(10, 8), rng=0), np.random.default_rng(0)
    context, space = _context(network, rng)
    observed = follow_line(context, LayerObservations(space), space.line(0, rng))
    fewer = replace(observed, hyperplanes=observed.hyperplanes[1:], undecided=())
    assert estimate_layer(fewer).failure


def test_gradients_put_a_refused_hyperplane_in_the_place_of_a_surface_that_seldom_turns() -> None:
    network, rng = lb.random_network(15, widths=(10, 8), rng=0), np.random.default_rng(0)
    context, space = _context(network, rng)
    observed = LayerObservations(space)
    for _ in range(3):
        observed = follow_line(context, observed, space.line(0, rng))
    true, others = observed.hyperplanes, distinct_refused(observed)
    wrong = replace(observed, hyperplanes=(*true[:4], others[0], *true[5:]), undecided=(), curved=(*others[1:], true[4], true[4]))
    assert estimate_layer(wrong).failure
    found = choose_lowest_units(wrong)
    assert found is not None
    assert not found.failure
    rows = network.layer.weights / np.linalg.norm(network.layer.weights, axis=1)[:, None]
    assert np.allclose((found.weights @ rows.T).max(axis=0), 1.0)
    assert choose_lowest_units(replace(wrong, curved=others[1:])) is None  # a unit was never met


def test_surfaces_that_further_lines_do_not_show_are_refused() -> None:
    network, rng = lb.random_network(15, widths=(10, 8), rng=0), np.random.default_rng(0)
    context, space = _context(network, rng)
    observed = LayerObservations(space)
    for _ in range(12):
        observed = follow_line(context, observed, space.line(0, rng))
    false = observed.curved[0]
    kept = with_unshown_refused(replace(observed, hyperplanes=(*observed.hyperplanes, false)))
    assert len(kept.hyperplanes) == 10
    assert any(surface is false for surface in kept.curved)


def test_lines_above_a_layer_stay_where_all_of_its_units_are_active() -> None:
    """A classifier that is certain nearly everywhere: lines are moved to where it is not, and not out of the space."""
    network, rng = lb.random_network(8, widths=(6, 5), rng=2), np.random.default_rng(0)

    space = input_space(8, 1.0).with_layer(network.layer.weights, np.asarray(network.layer.biases))
    home = space.input_with_margins(np.full(6, 0.3), rng)

    def log_odds(x: np.ndarray) -> np.ndarray:
        y = network(x)[:, None] - network(home[None])
        return np.where(np.abs(y) < 0.6, y, np.nan)

    asked: list[np.ndarray] = []
    queries = QueryCounter(lambda x: asked.append(x) or log_odds(x), resolution=lambda: Rounding("float64", 1e-14, 1e-14))
    context = QueryContext(queries, Rounding("float64", 1e-14, 1e-14), rng)
    observed = LayerObservations(space, gradients=(PieceGradient(home, np.zeros((6, 1)), 1e-12, np.zeros(1)),))
    for number in range(6, 20):
        observed = follow_line(context, observed, space.line(number, rng))
    points = np.vstack(asked)
    assert (points @ space.boundaries.T + space.boundary_offsets > -1e-9).all()
    assert observed.known


def test_the_rounding_above_a_layer_is_that_of_its_steepest_gradient() -> None:
    """A line on which hardly a unit is on had understated it, and lines above were refused: 784-256-256-10 lost its second."""
    network, rng = lb.random_network(15, widths=(10, 8), rng=0), np.random.default_rng(0)
    context, space = _context(network, rng)
    observed = LayerObservations(space)
    for _ in range(3):
        observed = follow_line(context, observed, space.line(0, rng))
    shallow = context._replace(rounding=replace(context.rounding, steepness=1e-3))
    above = DeepReader(shallow, 2, 1.0).context_above(DeepState((observed,), (estimate_layer(observed),)))
    x = np.linalg.pinv(network.layer.weights) @ (0.01 - np.asarray(network.layer.biases))  # all units of the lowest layer are on
    steep = np.linalg.norm((network(x + 1e-6 * np.eye(15)) - network(x[None])) / 1e-6)
    assert 0.5 * steep < above.rounding.steepness < 10.0 * steep


def test_a_budget_that_ends_in_the_lowest_layer_leaves_its_hyperplanes() -> None:
    found = read_deep(lb.random_network(20, widths=(15, 10), rng=0), 20, budget=1200, rng=np.random.default_rng(0))
    assert found.ended
    assert not found.complete
    assert 0 < found.network.layer.width <= 30
    assert "the budget ended" in found.failure


def test_the_joint_fit_has_the_network_as_its_fixed_point_and_returns_to_it() -> None:
    network, rng = _deep(lb.random_network(8, widths=(7, 6), rng=2)), np.random.default_rng(0)
    x = 2.0 * rng.standard_normal((400, 8))
    y = network(x)
    moved = DeepParameters(
        tuple((w + 1e-8 * rng.standard_normal(w.shape), b + 1e-8 * rng.standard_normal(b.shape)) for w, b in network.layers),
        network.readout, network.offset)
    fitted = fit_all_layers(moved, lb.Samples(x, y), lambda x, y: np.full(len(x), 1e-15))
    assert np.abs(moved(x) - y).max() > 1e-9
    assert np.abs(fitted.parameters(x) - y).max() < 1e-13


@pytest.mark.parametrize(("widths", "dim"), [((10, 10), 10), ((15, 10), 20), ((8,), 10)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_two_layers_are_read_to_1e_10(dim: int, widths: tuple[int, ...], seed: int) -> None:
    network = lb.random_network(dim, widths=widths, rng=100 + seed)
    found = read_deep(network, dim, rng=np.random.default_rng(seed))
    assert found.complete
    assert lb.compare(found.network, network).max_error < 1e-10
    assert sum(found.queries.values()) < 2**12.5


def test_several_outputs() -> None:
    network = lb.random_network(16, widths=(12, 8), outputs=3, rng=5)
    found = read_deep(network, 16, rng=np.random.default_rng(0))
    assert found.complete
    assert lb.compare(found.network, network).max_error < 1e-9


def test_a_layer_wider_than_its_input_is_said_and_its_hyperplanes_are_given() -> None:
    network = lb.random_network(6, widths=(12, 5), rng=0)
    found = read_deep(network, 6, rng=np.random.default_rng(0))
    assert not found.complete
    assert "wider" in found.failure
    rows = network.layer.weights / np.linalg.norm(network.layer.weights, axis=1)[:, None]
    assert len(found.layers[0].weights) == 12
    assert np.allclose(np.abs(found.layers[0].weights @ rows.T).max(axis=0), 1.0)


def test_the_layers_that_are_complete_are_a_result_under_the_black_box() -> None:
    network = lb.random_network(12, widths=(10, 8), rng=0)
    found = read_deep(network, 12, depth=1, rng=np.random.default_rng(0))
    assert found.network.top is not None
    assert found.network.widths == (10,)
    x = np.random.default_rng(1).standard_normal((20, 12))
    assert np.abs(found.network(x) - network(x)).max() < 1e-6
    assert "more layers" in found.failure


def test_a_budget_that_ends_early_gives_the_lower_layer_or_a_sentence() -> None:
    network = lb.random_network(10, widths=(10, 10), rng=0)
    found = read_deep(network, 10, budget=2200, rng=np.random.default_rng(7))
    assert found.ended
    assert not found.complete
    with pytest.raises(BudgetExhausted):
        read_deep(network, 10, budget=200, rng=np.random.default_rng(7))


def test_smooth_boxes_are_refused() -> None:
    network = lb.random_network(8, widths=(6, 5), activation=lb.tanh, rng=0)
    with pytest.raises(AssumptionViolated):
        read_deep(network, 8, rng=np.random.default_rng(0))
