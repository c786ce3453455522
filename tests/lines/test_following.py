"""Surfaces beside which one side has no exact gradient are measured again, on purpose or where fresh answers contradict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines import observations, read
from laybare.lines.feature_space import input_space
from laybare.lines.observations import LayerObservations, line_across, one_sided_surfaces
from laybare.lines.query import QueryContext, QueryCounter
from laybare.lines.read import read_deep
from laybare.lines.surfaces import PieceGradient, Surface, classify_surface
from laybare.networks import Layer, Network
from laybare.source.rounding import Rounding


def _surface(row: np.ndarray, x: np.ndarray) -> Surface:
    return Surface(row, 0.0, 1e-12, x, (x, x))


def _gradient(x: np.ndarray, sd: float) -> PieceGradient:
    return PieceGradient(x, np.ones((len(x), 1)), sd, np.zeros(1))


def test_a_side_that_only_a_tiny_piece_shows_is_unknown() -> None:
    rows, x = np.eye(3)[:2], np.zeros(3)
    exact = [_gradient(x - rows[0] + rows[1], 1e-12), _gradient(x - rows[0] - rows[1], 1e-12), _gradient(x - rows[0], 1e-12)]
    gradients = (*exact, _gradient(x + rows[0], 1e-8))
    observed = LayerObservations(input_space(3, 1.0), (_surface(rows[0], x),), (_surface(rows[1], x),), gradients)
    assert one_sided_surfaces(observed) == observed.hyperplanes  # and not the undecided one, which has both
    both = replace(observed, gradients=(*observed.gradients, _gradient(x + rows[0], 1e-11)))
    assert one_sided_surfaces(both) == ()
    assert one_sided_surfaces(LayerObservations(observed.space)) == ()


def test_a_line_across_a_surface_passes_its_place_within_the_boundaries() -> None:
    network, rng = lb.random_network(10, widths=(8, 6), rng=0), np.random.default_rng(0)
    space = input_space(10, 1.0).with_layer(network.layer.weights, np.asarray(network.layer.biases))
    x = space.random_point(rng)
    line = line_across(space, _surface(np.eye(8)[0], x), rng)
    np.testing.assert_allclose(line(0.0)[0], x)
    ends = line(np.array([line.low, line.high]))
    assert (ends @ space.boundaries.T + space.boundary_offsets > 0.0).all()


@pytest.mark.parametrize("seed", [8, 9, pytest.param(3, marks=pytest.mark.slow), pytest.param(19, marks=pytest.mark.slow)])
def test_units_whose_active_side_was_a_tiny_piece_are_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(observations.LAYER, max_sd_ratio=3.0)  # as if many pieces were tiny; a unit would be left out
    monkeypatch.setattr(observations, "LAYER", few)
    network = lb.random_network(12, widths=(10, 8), rng=700 + seed)
    found = read_deep(network, 12, rng=np.random.default_rng(seed))
    assert found.complete, found.failure
    assert lb.compare(found.network, network).max_error < 1e-10


@pytest.mark.parametrize("seed", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_answers_that_contradict_bring_a_known_unit_back_that_was_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "LAYER", replace(observations.LAYER, max_sd_ratio=3.0))
    for module in (read, observations):
        monkeypatch.setattr(module, "one_sided_surfaces", lambda observed: ())  # so that the layer is read without it first
    network = lb.random_network(12, widths=(10, 8), rng=700 + seed)
    found = read_deep(network, 12, rng=np.random.default_rng(seed))
    assert found.complete, found.failure
    assert lb.compare(found.network, network).max_error < 1e-10


def test_a_surface_above_units_that_bend_far_out_is_told_from_a_hyperplane_where_kinks_are() -> None:
    """Near the centre of the inputs all of the layer below is on: there a surface of the second layer is a hyperplane."""
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.standard_normal((40, 8)))[0].T
    top = rng.standard_normal((6, 8))
    biases = -20.0 * top.sum(axis=1)
    network = Network((Layer(rows, np.full(8, 20.0)), Layer(top, biases)), rng.standard_normal(6))
    queries = QueryCounter(network)
    queries.ask(rng.standard_normal((4, 40)), "recognise")
    context = QueryContext(queries, Rounding("float64", 1.1e-16, 1.1e-16), rng)
    normal = top[0] @ rows
    bent = Surface(normal / np.linalg.norm(normal), 0.0, 1e-12, np.zeros(40), (np.zeros(40), np.zeros(40)))
    flat = Surface(rows[0], 20.0, 1e-12, -20.0 * rows[0], (np.zeros(40), np.zeros(40)), 20.0)
    space = input_space(40, 1.0)
    assert classify_surface(context, space, bent) == "hyperplane"  # at places as far out as inputs spread
    assert classify_surface(context, space, bent._replace(far=20.0)) == "curved"
    assert classify_surface(context, space, flat) == "hyperplane"
