"""Surfaces beside which one side has no exact gradient are measured again, on purpose or where fresh answers contradict."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.lines import deep, following
from laybare.lines.deep import read_deep
from laybare.lines.floors import ground
from laybare.lines.following import Seen, line_across, one_sided
from laybare.lines.surfaces import PieceSlope, Surface


def _surface(row: np.ndarray, x: np.ndarray) -> Surface:
    return Surface(row, 0.0, 1e-12, x, (x, x))


def _slope(x: np.ndarray, sd: float) -> PieceSlope:
    return PieceSlope(x, np.ones((len(x), 1)), sd, np.zeros(1))


def test_a_side_that_only_a_tiny_piece_shows_is_not_told() -> None:
    rows, x = np.eye(3)[:2], np.zeros(3)
    exact = [_slope(x - rows[0] + rows[1], 1e-12), _slope(x - rows[0] - rows[1], 1e-12), _slope(x - rows[0], 1e-12)]
    seen = Seen(ground(3, 1.0), (_surface(rows[0], x),), (_surface(rows[1], x),), (*exact, _slope(x + rows[0], 1e-8)))
    assert one_sided(seen) == seen.surfaces  # and not the suspect, which has both
    assert one_sided(Seen(seen.floor, seen.surfaces, seen.suspects, (*seen.slopes, _slope(x + rows[0], 1e-11)))) == ()
    assert one_sided(Seen(seen.floor)) == ()


def test_a_line_across_a_surface_passes_its_place_within_the_walls() -> None:
    network, rng = lb.random_network(10, widths=(8, 6), rng=0), np.random.default_rng(0)
    floor = ground(10, 1.0).above(network.layer.weights, np.asarray(network.layer.biases))
    x = floor.point(rng)
    line = line_across(floor, _surface(np.eye(8)[0], x), rng)
    np.testing.assert_allclose(line(0.0)[0], x)
    ends = line(np.array([line.low, line.high]))
    assert (ends @ floor.walls.T + floor.wall_shifts > 0.0).all()


@pytest.mark.parametrize("seed", [8, 9, pytest.param(3, marks=pytest.mark.slow), pytest.param(19, marks=pytest.mark.slow)])
def test_units_whose_active_side_was_a_tiny_piece_are_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "OUTLYING", 3.0)  # as if many pieces were tiny; a unit was left out for it
    network = lb.random_network(12, widths=(10, 8), rng=700 + seed)
    found = read_deep(network, 12, rng=np.random.default_rng(seed))
    assert found.complete, found.trouble
    assert lb.compare(found.network, network).max_error < 1e-10


@pytest.mark.parametrize("seed", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_answers_that_contradict_bring_a_known_unit_back_that_was_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "OUTLYING", 3.0)
    for module in (deep, following):
        monkeypatch.setattr(module, "one_sided", lambda seen: ())  # so that the layer is read without it first
    network = lb.random_network(12, widths=(10, 8), rng=700 + seed)
    found = read_deep(network, 12, rng=np.random.default_rng(seed))
    assert found.complete, found.trouble
    assert lb.compare(found.network, network).max_error < 1e-10
