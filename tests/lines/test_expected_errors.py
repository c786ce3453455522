"""What errors of measured numbers make of the answers: calibrated, and far less than a missing unit."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.lines import checking
from laybare.lines.expected_errors import LayerErrors, answer_sd
from laybare.lines.joint_polish import Deep

SD = 1e-9


def _planted(rng: np.random.Generator) -> tuple[Deep, tuple[LayerErrors, ...]]:
    layers = tuple((rng.standard_normal((m, k)), rng.standard_normal(m)) for k, m in ((9, 7), (7, 6)))
    errors = tuple(LayerErrors(*(SD * 10.0 ** rng.uniform(-2.0, 0.0, (2, len(biases))))) for _, biases in layers)
    return Deep(layers, rng.standard_normal((6, 2)), np.zeros(2)), errors


def _moved(network: Deep, errors: tuple[LayerErrors, ...], rng: np.random.Generator) -> Deep:
    layers = tuple(
        (weights + sd.rows[:, None] * rng.standard_normal(weights.shape), biases + sd.biases * rng.standard_normal(len(biases)))
        for (weights, biases), sd in zip(network.layers, errors, strict=True))
    return network._replace(layers=layers)


def test_answers_of_moved_networks_scatter_as_expected(rng: np.random.Generator) -> None:
    network, errors = _planted(rng)
    x = 2.0 * rng.standard_normal((40, 9))
    off = np.array([_moved(network, errors, rng)(x) - network(x) for _ in range(400)])
    scatter, expected = np.sqrt(np.mean(off**2, axis=0)).max(axis=1), answer_sd(network, errors, x)
    on = expected > 0.0
    assert on.sum() > 30 and (scatter[~on] == 0.0).all()
    # 400 draws: 3.5 % each, and the larger of two outputs; over 40 points and 40 seeds the ratios were .91 to 1.14
    assert np.abs(np.log(scatter[on] / expected[on])).max() < 0.25


def test_a_unit_that_is_missing_is_no_error_of_measurement(rng: np.random.Generator) -> None:
    network, errors = _planted(rng)
    x = 2.0 * rng.standard_normal((400, 9))
    gone = int(np.argmax(np.mean(network.features(x) > 0.0, axis=0)))
    weights, biases = (np.delete(part, gone, axis=0) for part in network.layers[1])
    fewer = Deep((network.layers[0], (weights, biases)), np.delete(network.readout, gone, axis=0), network.offset)
    expected = answer_sd(fewer, (errors[0], LayerErrors(*(np.delete(part, gone) for part in errors[1]))), x)
    assert np.sqrt(np.mean(((network(x) - fewer(x)) / np.hypot(1e-13, expected)[:, None]) ** 2)) > 1e6


def test_units_that_were_not_measured_again_keep_their_errors() -> None:
    before = LayerErrors(np.array([3.0, 4.0]), np.array([5.0, 6.0]))
    after = before.improved(LayerErrors(np.array([1.0, np.inf]), np.array([2.0, np.inf])))
    assert (after.rows == [1.0, 4.0]).all() and (after.biases == [2.0, 6.0]).all()
    assert after.largest == 6.0


@pytest.mark.parametrize("seed", [2, 6])  # of the second, two units of the lowest layer are measured poorly at first
def test_right_networks_too_large_for_a_fit_are_verified(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "DENSE", 100)  # as if 24-12-8-1 were large; the misfit was up to 1,700 standard deviations
    network = lb.random_network(24, widths=(12, 8), rng=800 + seed)
    found = lb.recover(lb.Oracle(network, dim=24, budget=60_000, rng=seed), lb.Lines(depth=None), rng=seed)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    error = lb.compare(found.network, network).max_error
    bar = next(claim.value for claim in found.certificate.claims if claim.name == "largest error bar of a number")
    assert error < 1e-11
    assert error < 5.0 * bar
