"""Which method suits the data: signals of the orders, conditions that hold and fail, the order, the portfolio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate import ClaimName
from laybare.certificate.certificate import Findings
from laybare.certificate.rival_activations import are_clearly_worse
from laybare.methods.choosing import (
    Choice,
    DataSummary,
    check_suitability,
    first_candidate,
    kernels_of_orders,
    order_signals,
    summarise_data,
)
from laybare.numerics.shapes import Array
from laybare.pipeline.monitor import Clock, SearchLimit
from laybare.pipeline.portfolio import try_methods


def white(x: Array, y: Array) -> lb.Source:
    return lb.Samples(x, y).whitened().kept()


def hermite_products(x: Array, order: int) -> Array:
    """Orthonormal Hermite polynomials of that total degree in two inputs, side by side."""
    t = x.T
    he = (np.ones_like(t), t, (t**2 - 1) / np.sqrt(2), (t**3 - 3 * t) / np.sqrt(6), (t**4 - 6 * t**2 + 3) / np.sqrt(24))
    return np.column_stack([he[k][0] * he[order - k][1] for k in range(order + 1)])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_kernels_are_sums_of_hermite_products(order: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((20, 2))
    features = hermite_products(x, order)
    assert_allclose(kernels_of_orders(x, x)[order - 1], features @ features.T, atol=1e-12)


def test_a_single_hermite_polynomial_lies_in_its_order(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1500, 2))
    signals = order_signals(white(x, hermite_products(x, 3)[:, 1]))
    assert [one.seen for one in signals] == [False, False, True, False]
    assert signals[2].share == pytest.approx(1.0, abs=0.3)  # its standard deviation is 0.07 over 20 seeds


def test_noise_has_no_order(rng: np.random.Generator) -> None:
    """The standard deviation of chance is no larger than stated, and no less than a third of it (order 4 has long tails): 40
    draws, which know it to 11 %."""
    scores = []
    for _ in range(40):
        signals = order_signals(white(rng.standard_normal((200, 4)), rng.standard_normal(200)))
        scores.append([one.share / one.noise for one in signals])
    assert np.all(np.std(scores, axis=0) < 1.3) and np.all(np.std(scores, axis=0) > 0.33)


def evidence(x: Array, y: Array) -> DataSummary:
    return summarise_data(white(x, y), lb.Samples(x, y), rng=np.random.default_rng(0))


def test_biases_inputs_and_labels_are_seen(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4000, 4))
    free = lb.random_network(4, 3, biases=0.0, readout="positive", rng=2)(x)
    biased = np.maximum(x[:, 0] - 1.0, 0.0) - np.maximum(-x[:, 0] - 1.0, 0.0)
    assert not evidence(x, free).biased and evidence(x, biased).biased
    skewed = evidence(rng.exponential(size=(4000, 4)), free)
    fits = {row.method: row.fits for row in check_suitability(skewed, 3, lb.relu)}
    assert not fits["TensorInit"] and not fits["GeneralReLU"] and fits["RandomStart"]
    rare = evidence(x, np.maximum(x[:, 0] - 1.5, 0.0))
    assert rare.constant > 0.9
    assert {row.method: row.fits for row in check_suitability(rare, None, None)}["HighThreshold"]


def test_the_order_says_why(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2000, 5))
    several = lb.choose(lb.Samples(x, lb.random_network(5, 4, outputs=5, biases=0.0, rng=1)(x)), activation=lb.relu)
    assert [type(one.method).__name__ for one in several.candidates[:2]] == ["SymmetricInputs", "RandomStart"]
    wide = rng.standard_normal((3000, 25))
    many = lb.choose(lb.Samples(wide, lb.random_network(25, 6, biases=0.0, readout="positive", rng=1)(wide)), activation=lb.relu)
    assert [type(one.method).__name__ for one in many.candidates[:2]] == ["RandomStart", "TensorInit"]
    assert all(row.method in many.explain() for row in many.table)
    assert all(one.reason.endswith(".") for one in many.candidates)


def test_untold_activation_adds_smooth_units_and_a_told_one_is_believed(rng: np.random.Generator) -> None:
    x = rng.standard_normal((300, 3))
    data = lb.Samples(x, np.tanh(x[:, 0]))
    names = [one.method.activation.name for one in lb.choose(data).candidates]
    assert names[0] == "relu" and {"tanh", "softplus", "gelu"} <= set(names)
    assert {one.method.activation.name for one in lb.choose(data, activation=lb.tanh).candidates} == {"tanh"}


def test_smooth_units_are_found_untold(rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 2, lb.tanh, rng=rng)
    x = rng.standard_normal((300, 3))
    found = lb.recover(x, truth(x), width=2, rng=0)
    assert found.certificate.verdict == "verified" and found.network.activation == lb.tanh
    assert lb.compare(found.network, truth).max_error < 1e-8
    tried = next(claim for claim in found.certificate.checks if claim.name == "methods tried")
    assert "RandomStart of relu units" in tried.explanation and "Refuted" in tried.explanation


def outcome(activation: lb.Activation, verdict: str, held_out: float) -> lb.Recovery:
    """A recovery of one unit whose certificate says so; nothing is fitted."""
    x = np.linspace(-2.0, 2.0, 40)[:, None]
    made = lb.recover(x, np.maximum(x[:, 0], 0.0), lb.RandomStart(), 1)
    claims = () if verdict == "verified" else (lb.Claim("c", 1.0, 0.0, False, "tested", "", decisive=verdict == "refuted"),)
    network = lb.Network(lb.Layer(made.network.layer.weights, made.network.layer.biases, activation), made.network.readout)
    certificate = replace(made.certificate, claims=claims, explained=0.9, held_out=held_out, held_out_error=0.01)
    return replace(made, network=network, certificate=certificate)


@pytest.mark.parametrize(("held_out", "ties"), [(0.105, 1), (0.2, 0)])
def test_activations_that_fit_equally_well_are_ties(held_out: float, ties: int, rng: np.random.Generator) -> None:
    """ReLU is refuted, tanh and softplus are not: within two standard errors of the held-out rows nothing decides."""
    x = rng.standard_normal((60, 2))
    choice = lb.choose(lb.Samples(x, x[:, 0]))
    ends = {"relu": outcome(lb.relu, "refuted", 0.3), "tanh": outcome(lb.tanh, "verified", 0.1),
            "softplus": outcome(lb.softplus, "verified", held_out), "gelu": outcome(lb.gelu, "refuted", 0.1)}
    found = try_methods(lambda: choice, lambda method: ends[method.activation.name], Clock(None, SearchLimit(np.inf)))
    claim = next(one for one in found.certificate.checks if one.name == "activations that fit as well")
    assert claim.value == ties and claim.passed == (ties == 0)
    assert found.network.activation == lb.tanh
    assert found.certificate.verdict == ("doubtful" if ties else "verified")


@pytest.mark.parametrize(("verdict", "gain", "runs", "tried"), [
    ("doubtful", -20.0, 2, 1), ("doubtful", -20.0, 0, 2), ("doubtful", -10.0, 2, 2), ("refuted", -20.0, 2, 2)])
def test_a_fit_that_nothing_rivals_is_not_looked_for_in_other_ways(verdict: str, gain: float, runs: int, tried: int) -> None:
    """Structure that is left may be chance: on ten million rows minutes went to other methods, which found the same."""
    x = np.random.default_rng(0).standard_normal((3000, 20))
    choice = lb.choose(lb.Samples(x, np.maximum(x @ np.eye(20)[:, :4], 0.0).sum(axis=1)), 4, lb.relu)
    first = outcome(lb.relu, verdict, 0.3)
    rivals = (lb.Claim(ClaimName.RIVAL_ACTIVATION, gain, 0.0, True, "tested", ""),)
    findings = Findings(runs, rivals_worse=are_clearly_worse(rivals), structure_left=True)
    ended = replace(first, certificate=replace(first.certificate, findings=findings))
    found = try_methods(lambda: choice, lambda method: ended, Clock(None, SearchLimit(np.inf)), width_given=True)
    claim = next(one for one in found.certificate.checks if one.name == "methods tried")
    assert min(claim.value, 2.0) == tried


@pytest.mark.parametrize(("given", "runs", "tried"), [(True, 2, 1), (True, 0, 2), (False, 2, 2)])
def test_a_told_width_that_is_too_small_is_too_small_for_every_method(given: bool, runs: int, tried: int) -> None:
    """Unless no two searches agree that this is the best network of that width, or the width was not given."""
    x = np.random.default_rng(0).standard_normal((3000, 20))
    choice = lb.choose(lb.Samples(x, np.maximum(x @ np.eye(20)[:, :4], 0.0).sum(axis=1)), 3, lb.relu)
    assert len(choice.candidates) > 1 and {one.method.activation for one in choice.candidates} == {lb.relu}
    refuted = outcome(lb.relu, "refuted", 0.3)
    ended = replace(refuted, certificate=replace(refuted.certificate, findings=Findings(runs, unit_missing=True)))
    found = try_methods(lambda: choice, lambda method: ended, Clock(None, SearchLimit(np.inf)), width_given=given)
    claim = next(one for one in found.certificate.checks if one.name == "methods tried")
    assert min(claim.value, 2.0) == tried


@pytest.mark.parametrize(("verdict", "looks"), [("verified", 0), ("doubtful", 0), ("refuted", 1)])
def test_the_data_are_looked_at_only_if_the_first_method_leaves_something_open(verdict: str, looks: int) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 20))
    samples, seen = lb.Samples(x, np.maximum(x @ np.eye(20)[:, :4], 0.0).sum(axis=1)), []
    first = first_candidate(1, lb.relu)
    assert first is not None and lb.choose(samples, 4, lb.relu).candidates[0] == first and first_candidate(2, lb.relu) is None

    def choose() -> Choice:
        seen.append(1)
        return lb.choose(samples, 4, lb.relu)

    ended = outcome(lb.relu, verdict, 0.3)
    found = try_methods(choose, lambda method: ended, Clock(None, SearchLimit(np.inf)), first=first)
    claim = next(one for one in found.certificate.checks if one.name == "methods tried")
    assert len(seen) == looks and claim.explanation.count("RandomStart") == 1
    assert (claim.value > 1.0) == (looks == 1)


def test_a_refusal_of_every_method_is_raised(rng: np.random.Generator) -> None:
    def refuse(method: lb.Method) -> lb.Recovery:
        raise lb.errors.TooFewSamples("Few.", "It matters.", "Give more.")

    x = rng.standard_normal((60, 2))
    with pytest.raises(lb.errors.TooFewSamples, match="Few"):
        try_methods(lambda: lb.choose(lb.Samples(x, x[:, 0])), refuse, Clock(None, SearchLimit(np.inf)))


def test_an_end_of_time_hands_over_what_was_found(rng: np.random.Generator) -> None:
    """Outside of the class, and no time: the search stops at its next step, and the certificate says that it did."""
    x = rng.standard_normal((2000, 6))
    found = lb.recover(x, np.sin(3.0 * x[:, 0]) * x[:, 1], lb.RandomStart(), seconds=1e-3)
    assert found.certificate.verdict != "verified"
    assert "refinement finished" in {claim.name for claim in found.certificate.checks if not claim.passed}
