"""Biases, readout and offset are fitted to answers with the rows as they are."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.lines.joint_polish import Deep
from laybare.lines.shift_polish import polish_shifts


def _planted(outputs: int, rng: np.random.Generator) -> Deep:
    layers = tuple((rng.standard_normal((m, k)), rng.standard_normal(m)) for k, m in ((8, 6), (6, 5)))
    return Deep(layers, rng.standard_normal((5, outputs)), rng.standard_normal(outputs))


def _moved(network: Deep, size: float, rng: np.random.Generator) -> Deep:
    def moved(part: np.ndarray) -> np.ndarray:
        return part + size * rng.standard_normal(part.shape)

    layers = tuple((weights, moved(biases)) for weights, biases in network.layers)
    return Deep(layers, moved(network.readout), moved(network.offset))


@pytest.mark.parametrize("outputs", [1, 3])
def test_shifts_that_were_moved_return(outputs: int, rng: np.random.Generator) -> None:
    network = _planted(outputs, rng)
    x = 2.0 * rng.standard_normal((600, 8))
    near = _moved(network, 1e-8, rng)
    fitted = polish_shifts(near, lb.Samples(x, network(x)), lambda x, y: np.full(len(x), 1e-14))
    assert np.abs(near(x) - network(x)).max() > 1e-9
    assert np.abs(fitted(x) - network(x)).max() < 1e-12
    assert all((a is b) for (a, _), (b, _) in zip(fitted.layers, near.layers, strict=True))


def test_what_no_answer_tells_stays_as_it_is(rng: np.random.Generator) -> None:
    network = _planted(1, rng)
    (weights, biases), readout = network.layers[1], network.readout
    asleep = network._replace(layers=(network.layers[0], (weights, np.append(biases[:-1], -1e3))))
    x = rng.standard_normal((200, 8))
    fitted = polish_shifts(asleep, lb.Samples(x, network(x)), lambda x, y: np.full(len(x), 1e-12))
    assert fitted.layers[1][1][-1] == -1e3
    assert fitted.readout[-1] == readout[-1]
