"""Second layers with units that never bend, and layers that are measured again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines import fresh_check
from laybare.lines.deep_fit import DeepParameters
from laybare.lines.feature_space import input_space
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import read_deep
from laybare.lines.remeasure import remeasure_lowest_layer
from laybare.networks import Layer, Network
from laybare.studies.black_boxes import agreement, plant_case


def _always_on(seed: int, outputs: int) -> Network:
    """A network of two layers, one unit of the second of which reads positive features with positive weights."""
    network = lb.random_network(12, widths=(9, 6), outputs=outputs, rng=seed)
    first, second = network.layers
    weights, biases = second.weights.copy(), np.array(second.biases)
    weights[2], biases[2] = np.abs(weights[2]), 0.7
    return Network((first, Layer(weights, biases)), network.readout, network.offset)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_unit_that_never_bends_joins_the_map_above(outputs: int) -> None:
    network = _always_on(0, outputs)
    found = read_deep(network, 12, rng=np.random.default_rng(0))
    assert found.complete
    assert (found.layers[1].always_active, found.layers[1].undecided_sides) == (1, 0)
    x = 2.0 * np.random.default_rng(1).standard_normal((300, 12))
    assert np.abs(found.network(x) - network(x)).max() < 1e-11
    match = lb.compare(found.network, network)
    assert match.weight_error < 1e-9  # row and active sides are determined; its bias is free against the offset
    assert match.bias_error > 0.1


def test_the_certificate_says_which_unit_is_always_active() -> None:
    found = lb.recover(lb.Oracle(_always_on(0, 1), dim=12, budget=50_000), lb.Lines(depth=None), rng=0)
    text = next(claim for claim in found.certificate.checks if claim.name == "units of layer 2").explanation
    assert "1 unit that never bends" in text
    assert found.certificate.verdict == "verified"


def test_an_active_side_that_one_gradient_only_has_seen_is_not_taken_for_decided() -> None:
    truth = plant_case("asleep or always on", 405)
    found = lb.recover(lb.Oracle(truth, dim=14, budget=50_000, rng=405), lb.Lines(depth=None), rng=405)
    right = agreement(found.network, truth).right(1e-8)
    assert found.certificate.verdict == ("verified" if right else "doubtful")


def _unit_rows(network: Network) -> DeepParameters:
    layers, scale = [], np.ones(network.dim)
    for layer in network.layers:
        rows = layer.weights * scale
        scale = np.linalg.norm(rows, axis=1)
        layers.append((rows / scale[:, None], np.asarray(layer.biases) / scale))
    return DeepParameters(tuple(layers), network.readout[:, None] * scale[:, None], np.array([network.offset]))


def test_the_lowest_layer_is_measured_again_where_its_units_are_alone() -> None:
    network, rng = lb.random_network(30, widths=(12, 8), rng=4), np.random.default_rng(0)
    truth = _unit_rows(network)
    rows, biases = truth.layers[0]
    moved = rows + 1e-7 * rng.standard_normal(rows.shape)
    moved /= np.linalg.norm(moved, axis=1)[:, None]
    near = truth._replace(layers=((moved, biases + 1e-7 * rng.standard_normal(12)), *truth.layers[1:]))
    queries = QueryCounter(network)
    rounding = check_piecewise_linear(queries, input_space(30, 1.0).line(0, rng)).rounding
    before = queries.total
    again, errors = remeasure_lowest_layer(QueryContext(queries, rounding, rng), near, spread=1.0)
    assert np.abs(again.layers[0][0] - rows).max() < 1e-12
    assert np.abs(again.layers[0][1] - biases).max() < 1e-12
    assert errors.largest < 1e-11
    assert queries.total - before <= (12 + 6) * 31


def test_networks_too_large_for_a_joint_fit_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_check, "FIT", replace(fresh_check.FIT, max_deep_parameters=100))  # as if 24-12-8-1 were large
    network = lb.random_network(24, widths=(12, 8), rng=1)
    found = read_deep(network, 24, rng=np.random.default_rng(0))
    assert found.complete
    assert lb.compare(found.network, network).max_error < 1e-10
    assert found.error_bar < 1e-10
