"""Second layers below others, last layers wider than their input, and coarse answers: what tells units from what is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines.feature_space import FeatureSpace, input_space
from laybare.lines.kinks import Kink, LineProfile
from laybare.lines.layer import choose_units, estimate_layer
from laybare.lines.line import Line, LinearPiece
from laybare.lines.observations import LAYER, LayerObservations
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import read_deep
from laybare.lines.surfaces import PieceGradient, Surface, measure_gradient
from laybare.networks import Layer, Network
from laybare.source.rounding import Rounding


def _first_features(network: Network, sd: float = 0.0) -> FeatureSpace:
    layer = network.layer
    return input_space(network.dim, 1.0).with_layer(layer.weights, np.asarray(layer.biases), np.full(layer.width, sd))


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


def test_a_coarse_gradient_is_as_exact_as_it_says_though_a_step_crosses_a_kink() -> None:
    dim, slopes = 8, np.linspace(0.5, 1.5, 8)

    def answer(x: np.ndarray) -> np.ndarray:  # a weak kink beside the line x = t e_0, which steps along e_7 cross
        y = x @ slopes + 3e-5 * np.maximum(x[:, 7] - 0.05, 0.0)
        return y.astype(np.float32).astype(float)[:, None]

    rounding = Rounding("float32", 2.0**-24, 2.0**-24, inner=2.0**-24, steepness=2.0)
    t = np.array([-1.0, 0.0, 1.0])
    line = Line(np.zeros(dim), np.eye(dim)[0], -1.0, 1.0, 1.0)
    piece = LinearPiece(t, answer(line(t)), np.full(3, 2.0**-24))
    profile = LineProfile(line, (Kink(1.0, 1e-7, np.ones(1)),), (piece, piece))
    for seed in range(40):  # whatever a random mixture of the steps shows
        context = QueryContext(QueryCounter(answer), rounding, np.random.default_rng(seed))
        found = measure_gradient(context, input_space(dim, 1.0), profile, 0)
        assert found is not None
        assert np.abs(found.values[:, 0] - slopes).max() <= LAYER.zero_sds * found.sd


def test_the_side_of_a_unit_is_decided_by_the_error_of_its_own_coefficient() -> None:
    width, sd = 16, 1e-4
    surfaces = tuple(_surface(row, 0.0) for row in np.eye(width))
    gradients = []
    for x in (np.ones(width), -np.ones(width)):
        values = np.where(x > 0.0, 60.0 * sd, 0.0)  # sixty standard deviations of an entry, fifteen of the whole gradient
        gradients.append(PieceGradient(x, values[:, None], sd, np.zeros(1)))
    layer = estimate_layer(LayerObservations(input_space(width, 1.0), surfaces, (), tuple(gradients)))
    assert not layer.failure
    np.testing.assert_array_equal(layer.weights, np.eye(width))


def test_without_a_gradient_no_side_is_known() -> None:
    surfaces = tuple(_surface(row, 0.0) for row in np.eye(3))
    layer = estimate_layer(LayerObservations(input_space(4, 1.0), tuple(
        one._replace(normal=np.append(one.normal, 0.0)) for one in surfaces)))
    assert "no gradient" in layer.failure
    assert len(layer.weights) == 3
