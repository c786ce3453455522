"""Fits of deep networks: biases and readout with given rows, and what errors of parameters make of the answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.lines import deep_fit, fresh_check
from laybare.lines.deep_fit import (
    DeepNormalEquations,
    DeepParameters,
    LayerErrors,
    answer_sd,
    fit_all_layers,
    fit_biases_and_readout,
)

SD = 1e-9


def _planted(rng: np.random.Generator) -> tuple[DeepParameters, tuple[LayerErrors, ...]]:
    layers = tuple((rng.standard_normal((m, k)), rng.standard_normal(m)) for k, m in ((9, 7), (7, 6)))
    errors = tuple(LayerErrors(*(SD * 10.0 ** rng.uniform(-2.0, 0.0, (2, len(biases))))) for _, biases in layers)
    return DeepParameters(layers, rng.standard_normal((6, 2)), np.zeros(2)), errors


def _perturbed(network: DeepParameters, errors: tuple[LayerErrors, ...], rng: np.random.Generator) -> DeepParameters:
    layers = tuple(
        (weights + sd.rows[:, None] * rng.standard_normal(weights.shape), biases + sd.biases * rng.standard_normal(len(biases)))
        for (weights, biases), sd in zip(network.layers, errors, strict=True))
    return network._replace(layers=layers)


def test_answers_of_perturbed_networks_scatter_as_expected(rng: np.random.Generator) -> None:
    network, errors = _planted(rng)
    x = 2.0 * rng.standard_normal((40, 9))
    off = np.array([_perturbed(network, errors, rng)(x) - network(x) for _ in range(400)])
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
    fewer = DeepParameters((network.layers[0], (weights, biases)), np.delete(network.readout, gone, axis=0), network.offset)
    expected = answer_sd(fewer, (errors[0], LayerErrors(*(np.delete(part, gone) for part in errors[1]))), x)
    assert np.sqrt(np.mean(((network(x) - fewer(x)) / np.hypot(1e-13, expected)[:, None]) ** 2)) > 1e6


def test_units_that_were_not_measured_again_keep_their_errors() -> None:
    before = LayerErrors(np.array([3.0, 4.0]), np.array([5.0, 6.0]))
    after = before.improved(LayerErrors(np.array([1.0, np.inf]), np.array([2.0, np.inf])))
    assert (after.rows == [1.0, 4.0]).all() and (after.biases == [2.0, 6.0]).all()
    assert after.largest == 6.0


@pytest.mark.parametrize("rows", [False, True])
def test_normal_equations_are_those_of_all_outputs_together(rows: bool, rng: np.random.Generator) -> None:
    network, step = _planted(rng)[0], 1e-6
    x, size = rng.standard_normal((30, 9)), sum(w.size for w, _ in network.layers)
    y = network(x) + rng.standard_normal((30, 2))

    def moved(change: np.ndarray) -> DeepParameters:
        at, layers = 0, []
        for w, b in network.layers:
            fitted = w.size if rows else 0
            layers.append((w + change[at : at + fitted].reshape(w.shape) if rows else w, b + change[at + fitted :][: len(b)]))
            at += fitted + len(b)
        return DeepParameters(tuple(layers), network.readout + change[at:-2].reshape(6, 2), network.offset + change[-2:])

    changes = step * np.eye(network.size - (0 if rows else size))
    J = np.array([(moved(change)(x) - moved(-change)(x)).ravel() / (2.0 * step) for change in changes]).T
    A, b = DeepNormalEquations(network, lambda x, y: np.ones(len(x)), rows=rows)(x, y)
    assert np.allclose(A, J.T @ J, atol=1e-6)
    assert np.allclose(b, J.T @ (y - network(x)).ravel(), atol=1e-6)


def test_a_fit_whose_normal_equations_rounding_leaves_indefinite_ends_with_a_network(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """That of the jet tagger had ended in a traceback."""
    monkeypatch.setattr(deep_fit, "FIT", replace(deep_fit.FIT, damping=-1e-12))  # as sums of thousands of parameters round
    network, x = _planted(rng)[0], rng.standard_normal((30, 9))
    y = network(x)
    moved = network._replace(offset=np.full(2, 1e-9))
    fitted = fit_all_layers(moved, lb.Samples(x, y), lambda x, y: np.full(len(x), 1e-15), prior=1e9).parameters
    assert np.abs(fitted(x) - y).max() < 1e-3 * np.abs(moved(x) - y).max()


@pytest.mark.parametrize("seed", [2, 6])  # of the second, two units of the lowest layer are measured poorly at first
def test_right_networks_too_large_for_a_fit_are_verified(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_check, "FIT", replace(fresh_check.FIT, max_deep_parameters=100))  # as if 24-12-8-1 were large
    network = lb.random_network(24, widths=(12, 8), rng=800 + seed)
    found = lb.recover(lb.Oracle(network, dim=24, budget=60_000, rng=seed), lb.Lines(depth=None), rng=seed)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    error = lb.compare(found.network, network).max_error
    bar = next(claim.value for claim in found.certificate.checks if claim.name == "largest error bar of a number")
    assert error < 1e-11
    assert error < 5.0 * bar


def _planted_with_outputs(outputs: int, rng: np.random.Generator) -> DeepParameters:
    layers = tuple((rng.standard_normal((m, k)), rng.standard_normal(m)) for k, m in ((8, 6), (6, 5)))
    return DeepParameters(layers, rng.standard_normal((5, outputs)), rng.standard_normal(outputs))


def _with_moved_biases(network: DeepParameters, size: float, rng: np.random.Generator) -> DeepParameters:
    def moved(part: np.ndarray) -> np.ndarray:
        return part + size * rng.standard_normal(part.shape)

    layers = tuple((weights, moved(biases)) for weights, biases in network.layers)
    return DeepParameters(layers, moved(network.readout), moved(network.offset))


@pytest.mark.parametrize("outputs", [1, 3])
def test_biases_that_were_moved_return(outputs: int, rng: np.random.Generator) -> None:
    network = _planted_with_outputs(outputs, rng)
    x = 2.0 * rng.standard_normal((600, 8))
    near = _with_moved_biases(network, 1e-8, rng)
    fitted = fit_biases_and_readout(near, lb.Samples(x, network(x)), lambda x, y: np.full(len(x), 1e-14))
    assert np.abs(near(x) - network(x)).max() > 1e-9
    assert np.abs(fitted(x) - network(x)).max() < 1e-12
    assert all((a is b) for (a, _), (b, _) in zip(fitted.layers, near.layers, strict=True))


def test_what_no_answer_determines_stays_as_it_is(rng: np.random.Generator) -> None:
    network = _planted_with_outputs(1, rng)
    (weights, biases), readout = network.layers[1], network.readout
    asleep = network._replace(layers=(network.layers[0], (weights, np.append(biases[:-1], -1e3))))
    x = rng.standard_normal((200, 8))
    fitted = fit_biases_and_readout(asleep, lb.Samples(x, network(x)), lambda x, y: np.full(len(x), 1e-12))
    assert fitted.layers[1][1][-1] == -1e3
    assert fitted.readout[-1] == readout[-1]
