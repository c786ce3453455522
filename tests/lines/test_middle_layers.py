"""Third layers below others, last layers wider than their input, and coarse answers: what tells units from what is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines.feature_space import FeatureSpace, input_space
from laybare.lines.layer import choose_units, estimate_layer
from laybare.lines.layer_signs import complete_row, explain_as_last_layer, feature_gradients, independent_rows, read_middle_layer
from laybare.lines.observations import LayerObservations
from laybare.lines.partial_layer import PartialLayer, PartialRow, classify_row
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import read_deep
from laybare.lines.surfaces import PieceGradient, Surface
from laybare.networks import Layer, Network


def _first_features(network: Network, sd: float = 0.0) -> FeatureSpace:
    layer = network.layer
    return input_space(network.dim, 1.0).with_layer(layer.weights, np.asarray(layer.biases), np.full(layer.width, sd))


def _partial_layer(network: Network, gradients: tuple[PieceGradient, ...] = ()) -> PartialLayer:
    """Above two known layers."""
    second = network.layers[1]
    return PartialLayer(_first_features(network), ((second.weights, np.asarray(second.biases)),), gradients=gradients)


def _row(row: np.ndarray, bias: float, x: np.ndarray) -> PartialRow:
    return PartialRow(row, np.ones(len(row), bool), bias, (Surface(np.ones(1), 0.0, 1e-9, x, (x, x)),))


def _rows(network: Network, signs: np.ndarray) -> list[PartialRow]:
    layer = network.layers[2]
    x = np.zeros(network.dim)
    return [_row(s * row, float(s * b), x) for s, row, b in zip(signs, layer.weights, np.asarray(layer.biases), strict=True)]


def _gradients(network: Network, rng: np.random.Generator, count: int) -> tuple[PieceGradient, ...]:
    """Exact gradients at random inputs of the first feature space."""
    space, gradients = _first_features(network), []
    for _ in range(count):
        x = space.random_point(rng)
        h, J = space.features(x[None])[0], np.eye(space.width)
        for layer in network.layers[1:]:
            z = layer.before(h[None])[0]
            h, J = np.maximum(z, 0.0), np.where(z[:, None] > 0.0, layer.weights @ J, 0.0)
        gradients.append(PieceGradient(x, (network.readout @ J)[:, None], 1e-12, network(x[None])))
    return tuple(gradients)


def test_a_unit_of_the_next_layer_bends_wherever_its_row_is_zero_and_another_row_does_not() -> None:
    network, rng = lb.random_network(14, widths=(10, 8, 6, 5), rng=1), np.random.default_rng(0)
    queries, layer = QueryCounter(network), _partial_layer(network)
    rounding = check_piecewise_linear(queries, input_space(14, 1.0).line(0, rng)).rounding
    context = QueryContext(queries, rounding, rng)
    verdicts = [classify_row(context, layer, row) for row in _rows(network, np.ones(6))]
    assert "curved" not in verdicts
    assert verdicts.count("hyperplane") >= 3  # random segments hardly ever cross the others
    upper = network.layers[3].weights @ network.layers[2].weights  # units further up, where all of the layer are active
    assert classify_row(context, layer, _row(upper[0], 0.1, np.zeros(14))) == "curved"


def test_active_sides_of_a_middle_layer_follow_from_gradients_and_so_does_a_unit_that_is_missing() -> None:
    network, rng = lb.random_network(14, widths=(12, 10, 6, 4), rng=2), np.random.default_rng(0)
    layer, turned = _partial_layer(network, _gradients(network, rng, 250)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    rows = _rows(network, turned)
    gradients = feature_gradients(layer)
    read = read_middle_layer(layer, rows, gradients, rng=rng)
    assert read is not None and read.readout is None
    np.testing.assert_allclose(read.weights, network.layers[2].weights)
    np.testing.assert_allclose(read.biases, network.layers[2].biases)
    assert read_middle_layer(layer, rows[1:], gradients, rng=rng) is None


def test_of_rows_that_depend_on_each_other_one_is_left_out_after_the_other(rng: np.random.Generator) -> None:
    """Where two units of a layer are active, a unit further up passes for one of this layer: a combination of their rows."""
    rows, x = rng.standard_normal((4, 6)), np.zeros(1)
    a, b, c, d = (_row(row, 0.5, x) for row in rows)
    above, beside = _row(rows[0] - 2.0 * rows[1], 0.1, x), _row(-3.0 * rows[2], 0.2, x)
    a, b, beside = (part._replace(surfaces=part.surfaces * 4) for part in (a, b, beside))
    assert list(independent_rows([a, b, c, d])) == [[a, b, c, d]]
    ways = [{id(part) for part in way} for way in independent_rows([a, b, above, c, d])]
    assert ways == [{id(part) for part in way} for way in ([a, b, c, d], [b, above, c, d], [a, above, c, d])]  # by fewest kinks
    assert [[id(part) for part in way] for way in independent_rows([c, d, beside])] == [[id(d), id(beside)], [id(c), id(d)]]
    both = list(independent_rows([a, b, above, c, d, beside]))
    assert any({id(part) for part in way} == {id(a), id(b), id(c), id(d)} for way in both)
    assert all(np.linalg.matrix_rank(np.array([part.weights for part in way])) == len(way) == 4 for way in both)
    assert list(independent_rows([])) == [[]]


def test_few_gradients_do_not_decide_active_sides() -> None:
    network, rng = lb.random_network(14, widths=(12, 10, 6, 4), rng=2), np.random.default_rng(0)
    layer = _partial_layer(network, _gradients(network, rng, 4))
    assert read_middle_layer(layer, _rows(network, np.ones(6)), feature_gradients(layer), rng=rng) is None
    off = replace(layer, below=((-np.ones((10, 12)), np.zeros(10)),))  # no feature is active anywhere
    assert not len(feature_gradients(off).values)
    assert read_middle_layer(off, _rows(network, np.ones(6)), feature_gradients(off), rng=rng) is None


def _surface(row: np.ndarray, bias: float) -> Surface:
    size = float(np.linalg.norm(row))
    return Surface(row / size, bias / size, 1e-12, np.zeros(1), (np.zeros(1), np.zeros(1)))


def test_gradients_choose_the_units_of_a_layer_among_undecided_surfaces_and_leave_a_spurious_hyperplane_out() -> None:
    network, rng = lb.random_network(14, widths=(12, 7, 4), rng=4), np.random.default_rng(0)
    layer = network.layers[1]
    units = [_surface(row, float(b)) for row, b in zip(layer.weights, np.asarray(layer.biases), strict=True)]
    above = [_surface(rng.standard_normal(7) @ layer.weights, 0.3) for _ in range(4)]  # as surfaces of layers above are
    undecided = (*above[1:], *units[3:])
    observed = LayerObservations(_first_features(network), (*units[:3], above[0]), undecided, _gradients(network, rng, 80))
    read = choose_units(observed)
    assert read is not None
    rows = layer.weights / np.linalg.norm(layer.weights, axis=1)[:, None]
    np.testing.assert_allclose(np.sort((read.weights @ rows.T).max(axis=0)), 1.0)
    assert len(read.weights) == 7
    assert choose_units(replace(observed, undecided=undecided[:-1])) is None  # a unit is missing


def test_one_surface_more_than_features_is_left_out_if_the_others_explain_all_gradients() -> None:
    network, rng = lb.random_network(14, widths=(8, 8, 4), rng=4), np.random.default_rng(0)
    layer = network.layers[1]
    units = [_surface(row, float(b)) for row, b in zip(layer.weights, np.asarray(layer.biases), strict=True)]
    above = _surface(rng.standard_normal(8) @ layer.weights, 0.3)
    surfaces = (*units[:3], above, *units[3:])
    observed = LayerObservations(_first_features(network), surfaces, (), _gradients(network, rng, 80))
    read = estimate_layer(observed)
    assert not read.failure
    rows = layer.weights / np.linalg.norm(layer.weights, axis=1)[:, None]
    np.testing.assert_allclose((read.weights @ rows.T).max(axis=0), 1.0)
    more = (*surfaces[1:], _surface(rng.standard_normal(8), 0.1))
    assert "wider" in estimate_layer(replace(observed, hyperplanes=more)).failure


def test_a_weight_that_no_kink_gives_follows_from_gradients() -> None:
    network, rng = lb.random_network(14, widths=(12, 8, 6), rng=5), np.random.default_rng(0)
    first, second, third = network.layers
    weights, biases = third.weights.copy(), np.array(third.biases)
    weights[-1, 2] = 1.5
    network = Network((first, second, Layer(weights, biases)), network.readout, network.offset)
    sizes = np.linalg.norm(weights, axis=1)
    rows = [_row(row, float(b), np.zeros(14)) for row, b in zip(weights / sizes[:, None], biases / sizes, strict=True)]
    rows = [row._replace(surfaces=row.surfaces * 2) for row in rows]
    known = np.arange(8) != 2
    rows[-1] = rows[-1]._replace(weights=np.where(known, rows[-1].weights, 0.0), known=known)
    lower = Network((first, second), np.ones(8))
    gradients = tuple(  # as if the unit were active wherever feature 2 is
        gradient for gradient in _gradients(network, rng, 300)
        if lower.features(gradient.x[None])[0, 2] == 0.0 or network.features(gradient.x[None])[0, -1] > 0.0)
    ways = list(complete_row(replace(_partial_layer(network, gradients), rows=tuple(rows))))
    explained = [way for way in ways if explain_as_last_layer(way) is not None]
    assert len(explained) == 1
    np.testing.assert_allclose(explained[0].rows[-1].weights, weights[-1] / sizes[-1], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [300, 301, 311])
def test_four_layers_are_read(seed: int) -> None:
    network = lb.random_network(20, widths=(14, 10, 8, 6), rng=2000 + seed)
    found = read_deep(network, 20, rng=np.random.default_rng(seed))
    assert found.complete
    assert lb.compare(found.network, network).max_error < 1e-9


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_last_layer_wider_than_its_input_is_read_with_its_signs(outputs: int) -> None:
    network = lb.random_network(7, widths=(5, 7), outputs=outputs, rng=3)
    found = lb.recover(lb.Oracle(network, dim=7, budget=20_000), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, network).max_error < 1e-10


def test_a_wide_last_layer_with_a_unit_that_never_bends_is_doubtful() -> None:
    network = lb.random_network(7, widths=(5, 8), rng=3)
    first, second = network.layers
    weights, biases = second.weights.copy(), np.array(second.biases)
    weights[0], biases[0] = np.abs(weights[0]), 0.5
    network = Network((first, Layer(weights, biases)), network.readout, network.offset)
    found = read_deep(network, 7, rng=np.random.default_rng(0))
    assert not found.complete
    assert "wider" in found.failure


def test_lines_keep_clear_of_boundaries_that_are_not_known_exactly() -> None:
    network, rng = lb.random_network(10, widths=(8, 6), rng=0), np.random.default_rng(0)
    exact, blurred = _first_features(network), _first_features(network, 1e-3)
    for number in range(12):
        line = blurred.line(number, rng)
        for x in line(np.linspace(line.low, line.high, 5)):
            assert (exact.slack(x) > 3e-3 * (1.0 + np.linalg.norm(x))).all()  # 5 of the 1e-3, but for the last digits of an end


@pytest.mark.parametrize("seed", [300, 307])  # lines along inexact boundaries would meet units of the lowest layer
def test_float32_answers_give_both_layers(seed: int) -> None:
    network = lb.random_network(10, widths=(8, 6), rng=2000 + seed)
    oracle = lb.Oracle(lambda x: network(x).astype(np.float32), dim=10, budget=20_000, rng=seed)
    found = lb.recover(oracle, lb.Lines(depth=None), rng=seed)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, network).max_error < 1e-5
