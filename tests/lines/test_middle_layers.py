"""Third layers below others, last layers wider than their input, and coarse answers: what tells units from what is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines.asking import Purse
from laybare.lines.choosing import chosen_layer
from laybare.lines.crossings import judge_part
from laybare.lines.deep import read_deep
from laybare.lines.floors import Floor, ground
from laybare.lines.following import Seen
from laybare.lines.last_layer import explanation
from laybare.lines.layers import layer_of
from laybare.lines.middle_layer import feature_gradients, independent, middle_read
from laybare.lines.partial_rows import completed
from laybare.lines.parts import Branches, Part
from laybare.lines.recognise import first_look
from laybare.lines.surfaces import PieceSlope, Surface
from laybare.networks import Layer, Network


def _floor_1(network: Network, sd: float = 0.0) -> Floor:
    layer = network.layer
    return ground(network.dim, 1.0).above(layer.weights, np.asarray(layer.biases), np.full(layer.width, sd))


def _branches(network: Network, slopes: tuple[PieceSlope, ...] = ()) -> Branches:
    """Above two known layers."""
    second = network.layers[1]
    return Branches(_floor_1(network), ((second.weights, np.asarray(second.biases)),), slopes=slopes)


def _part(row: np.ndarray, bias: float, x: np.ndarray) -> Part:
    return Part(row, np.ones(len(row), bool), bias, (Surface(np.ones(1), 0.0, 1e-9, x, (x, x)),))


def _parts(network: Network, signs: np.ndarray) -> list[Part]:
    layer = network.layers[2]
    x = np.zeros(network.dim)
    return [_part(s * row, float(s * b), x) for s, row, b in zip(signs, layer.weights, np.asarray(layer.biases), strict=True)]


def _slopes(network: Network, rng: np.random.Generator, count: int) -> tuple[PieceSlope, ...]:
    """Exact gradients at random inputs of floor 1."""
    floor, slopes = _floor_1(network), []
    for _ in range(count):
        x = floor.point(rng)
        h, J = floor.features(x[None])[0], np.eye(floor.width)
        for layer in network.layers[1:]:
            z = layer.before(h[None])[0]
            h, J = np.maximum(z, 0.0), np.where(z[:, None] > 0.0, layer.weights @ J, 0.0)
        slopes.append(PieceSlope(x, (network.readout @ J)[:, None], 1e-12, network(x[None])))
    return tuple(slopes)


def test_a_unit_of_the_next_layer_bends_wherever_its_row_is_zero_and_another_row_does_not() -> None:
    network, rng = lb.random_network(14, widths=(10, 8, 6, 5), rng=1), np.random.default_rng(0)
    purse, branches = Purse(network), _branches(network)
    rounding = first_look(purse, ground(14, 1.0).line(0, rng)).rounding
    verdicts = [judge_part(purse, branches, part, rounding, rng=rng) for part in _parts(network, np.ones(6))]
    assert "bent" not in verdicts
    assert verdicts.count("hyperplane") >= 3  # random segments hardly ever cross the others
    upper = network.layers[3].weights @ network.layers[2].weights  # units further up, where all of the layer are active
    assert judge_part(purse, branches, _part(upper[0], 0.1, np.zeros(14)), rounding, rng=rng) == "bent"


def test_active_sides_of_a_middle_layer_follow_from_gradients_and_so_does_a_unit_that_is_missing() -> None:
    network, rng = lb.random_network(14, widths=(12, 10, 6, 4), rng=2), np.random.default_rng(0)
    branches, turned = _branches(network, _slopes(network, rng, 250)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    parts = _parts(network, turned)
    gradients = feature_gradients(branches)
    read = middle_read(branches, parts, gradients, rng=rng)
    assert read is not None and read.readout is None
    np.testing.assert_allclose(read.weights, network.layers[2].weights)
    np.testing.assert_allclose(read.biases, network.layers[2].biases)
    assert middle_read(branches, parts[1:], gradients, rng=rng) is None


def test_of_parts_that_depend_on_each_other_one_is_left_out_after_the_other(rng: np.random.Generator) -> None:
    """Where two units of a layer are active, a unit further up passes for one of this layer: a combination of their rows."""
    rows, x = rng.standard_normal((4, 6)), np.zeros(1)
    a, b, c, d = (_part(row, 0.5, x) for row in rows)
    above, beside = _part(rows[0] - 2.0 * rows[1], 0.1, x), _part(-3.0 * rows[2], 0.2, x)
    a, b, beside = (part._replace(surfaces=part.surfaces * 4) for part in (a, b, beside))
    assert list(independent([a, b, c, d])) == [[a, b, c, d]]
    ways = [{id(part) for part in way} for way in independent([a, b, above, c, d])]
    assert ways == [{id(part) for part in way} for way in ([a, b, c, d], [b, above, c, d], [a, above, c, d])]  # by fewest kinks
    assert [[id(part) for part in way] for way in independent([c, d, beside])] == [[id(d), id(beside)], [id(c), id(d)]]
    both = list(independent([a, b, above, c, d, beside]))
    assert any({id(part) for part in way} == {id(a), id(b), id(c), id(d)} for way in both)
    assert all(np.linalg.matrix_rank(np.array([part.row for part in way])) == len(way) == 4 for way in both)
    assert list(independent([])) == [[]]


def test_few_gradients_do_not_tell_active_sides() -> None:
    network, rng = lb.random_network(14, widths=(12, 10, 6, 4), rng=2), np.random.default_rng(0)
    branches = _branches(network, _slopes(network, rng, 4))
    assert middle_read(branches, _parts(network, np.ones(6)), feature_gradients(branches), rng=rng) is None
    off = replace(branches, layers=((-np.ones((10, 12)), np.zeros(10)),))  # no feature is active anywhere
    assert not len(feature_gradients(off).values)
    assert middle_read(off, _parts(network, np.ones(6)), feature_gradients(off), rng=rng) is None


def _surface(row: np.ndarray, bias: float) -> Surface:
    size = float(np.linalg.norm(row))
    return Surface(row / size, bias / size, 1e-12, np.zeros(1), (np.zeros(1), np.zeros(1)))


def test_gradients_choose_the_units_of_a_layer_among_suspects_and_leave_a_spurious_hyperplane_out() -> None:
    network, rng = lb.random_network(14, widths=(12, 7, 4), rng=4), np.random.default_rng(0)
    layer = network.layers[1]
    units = [_surface(row, float(b)) for row, b in zip(layer.weights, np.asarray(layer.biases), strict=True)]
    above = [_surface(rng.standard_normal(7) @ layer.weights, 0.3) for _ in range(4)]  # as surfaces of layers above are
    seen = Seen(_floor_1(network), (*units[:3], above[0]), (*above[1:], *units[3:]), _slopes(network, rng, 80))
    read = chosen_layer(seen)
    assert read is not None
    rows = layer.weights / np.linalg.norm(layer.weights, axis=1)[:, None]
    np.testing.assert_allclose(np.sort((read.weights @ rows.T).max(axis=0)), 1.0)
    assert len(read.weights) == 7
    assert chosen_layer(replace(seen, suspects=seen.suspects[:-1])) is None  # a unit is missing


def test_one_surface_more_than_features_is_left_out_if_the_others_explain_all_gradients() -> None:
    network, rng = lb.random_network(14, widths=(8, 8, 4), rng=4), np.random.default_rng(0)
    layer = network.layers[1]
    units = [_surface(row, float(b)) for row, b in zip(layer.weights, np.asarray(layer.biases), strict=True)]
    above = _surface(rng.standard_normal(8) @ layer.weights, 0.3)
    seen = Seen(_floor_1(network), (*units[:3], above, *units[3:]), (), _slopes(network, rng, 80))
    read = layer_of(seen)
    assert not read.trouble
    rows = layer.weights / np.linalg.norm(layer.weights, axis=1)[:, None]
    np.testing.assert_allclose((read.weights @ rows.T).max(axis=0), 1.0)
    assert "wider" in layer_of(replace(seen, surfaces=(*seen.surfaces[1:], _surface(rng.standard_normal(8), 0.1)))).trouble


def test_a_weight_that_no_kink_has_told_follows_from_gradients() -> None:
    network, rng = lb.random_network(14, widths=(12, 8, 6), rng=5), np.random.default_rng(0)
    first, second, third = network.layers
    weights, biases = third.weights.copy(), np.array(third.biases)
    weights[-1, 2] = 1.5
    network = Network((first, second, Layer(weights, biases)), network.readout, network.offset)
    sizes = np.linalg.norm(weights, axis=1)
    parts = [_part(row, float(b), np.zeros(14)) for row, b in zip(weights / sizes[:, None], biases / sizes, strict=True)]
    parts = [part._replace(surfaces=part.surfaces * 2) for part in parts]
    known = np.arange(8) != 2
    parts[-1] = parts[-1]._replace(row=np.where(known, parts[-1].row, 0.0), on=known)
    lower = Network((first, second), np.ones(8))
    slopes = tuple(  # as if the unit were on wherever feature 2 is active
        slope for slope in _slopes(network, rng, 300)
        if lower.features(slope.x[None])[0, 2] == 0.0 or network.features(slope.x[None])[0, -1] > 0.0)
    ways = list(completed(replace(_branches(network, slopes), parts=tuple(parts))))
    told = [way for way in ways if explanation(way) is not None]
    assert len(told) == 1
    np.testing.assert_allclose(told[0].parts[-1].row, weights[-1] / sizes[-1], atol=1e-9)


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
    assert "wider" in found.trouble


def test_lines_keep_clear_of_walls_that_are_not_known_exactly() -> None:
    network, rng = lb.random_network(10, widths=(8, 6), rng=0), np.random.default_rng(0)
    exact, blurred = _floor_1(network), _floor_1(network, 1e-3)
    for number in range(12):
        line = blurred.line(number, rng)
        for x in line(np.linspace(line.low, line.high, 5)):
            assert (exact.slack(x) > 3e-3 * (1.0 + np.linalg.norm(x))).all()  # 5 of the 1e-3, but for the last digits of an end


@pytest.mark.parametrize("seed", [300, 307])  # of development: lines along walls had met units of the lowest layer
def test_float32_answers_give_both_layers(seed: int) -> None:
    network = lb.random_network(10, widths=(8, 6), rng=2000 + seed)
    oracle = lb.Oracle(lambda x: network(x).astype(np.float32), dim=10, budget=20_000, rng=seed)
    found = lb.recover(oracle, lb.Lines(depth=None), rng=seed)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, network).max_error < 1e-5
