"""End to end: from samples or queries to the very network behind them, or to a certificate that says no."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import laybare as lb
from laybare.certificate import SearchRecord, certify
from laybare.numerics.shapes import Array, Event
from laybare.pipeline import main_loop
from laybare.planted import random_network
from laybare.source import Affine
from laybare.source.problem import Problem
from laybare.studies import real_data

EXACT = 1e-10

# A step of the solver that overshoots is rejected; what measures it may overflow.


def samples(network: lb.Network, size: int, rng: np.random.Generator, noise: float = 0.0) -> lb.Samples:
    x = rng.standard_normal((size, network.dim))
    y = network(x)
    return lb.Samples(x, y + noise * rng.standard_normal(y.shape))


def numbers(network: lb.Network) -> Array:
    parts = (network.layer.weights, network.layer.biases, network.readout, network.offset)
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.parametrize("width", [5, None], ids=["width given", "width detected"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_relu_networks_are_recovered_exactly(width: int | None, outputs: int, rng: np.random.Generator) -> None:
    truth = random_network(6, 5, outputs=outputs, readout="random", rng=rng)
    found = lb.recover(samples(truth, 600, rng), width=width, rng=rng)
    assert found.network.width == 5
    assert found.network.readout.shape == truth.readout.shape
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < EXACT
    assert found.samples_used == 600
    assert "6-5-" in str(found)


OTHERS = [lb.leaky_relu(0.1), lb.tanh, lb.absolute, lb.sigmoid, lb.softplus]


@pytest.mark.parametrize("activation", OTHERS, ids=lambda activation: activation.name)
def test_other_activations_are_recovered_exactly(activation: lb.Activation, rng: np.random.Generator) -> None:
    truth = random_network(4, 3, activation, readout="random", rng=rng)
    found = lb.recover(samples(truth, 500, rng), width=3, activation=activation, rng=rng)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < EXACT


def test_trained_network_is_recovered_from_queries() -> None:
    """The demonstration, smaller: a network that nobody planted, behind a callable, its width not given."""
    truth = real_data.train(8, seed=0)
    asked = 0

    def black_box(x: Array) -> Array:
        nonlocal asked
        asked += len(x)
        return truth(x)

    found = lb.recover(lb.Oracle(black_box, dim=10, budget=3000, rng=1), lb.RandomStart(), rng=0)
    assert asked == 3000
    assert found.certificate.verdict == "verified"
    assert lb.compare(found.network, truth).max_error < EXACT


def test_correlated_and_shifted_inputs_are_mapped_back(rng: np.random.Generator) -> None:
    mix, mean = rng.standard_normal((4, 4)) + 2.0 * np.eye(4), np.array([1.0, -2.0, 0.5, 3.0])
    x = rng.standard_normal((800, 4)) @ mix + mean
    truth = Affine(mean, np.linalg.inv(mix)).pull_back(random_network(4, 3, outputs=2, rng=rng))
    found = lb.recover(lb.Samples(x, truth(x)), width=3, rng=rng)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < EXACT


def test_network_without_biases_stays_without(rng: np.random.Generator) -> None:
    """Centring the inputs would give every unit a bias: a fit without biases has to leave them where they are."""
    truth = random_network(4, 3, biases=0.0, rng=rng)
    x = rng.standard_normal((500, 4)) + 0.4
    data = lb.Samples(x, truth(x) + 0.01 * rng.standard_normal(500))
    found = lb.recover(data, lb.RandomStart(biases=False), width=3, rng=rng)
    assert not found.network.layer.biases.any()
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < 0.02
    assert not lb.refine(data, truth).network.layer.biases.any()


def test_source_that_is_white_already_keeps_its_own_inputs(rng: np.random.Generator) -> None:
    """A network is found on the inputs that the given source reads, not on those it was made from."""
    truth = random_network(3, 2, rng=rng)
    x = 2.0 * rng.standard_normal((400, 3)) + 1.0
    white = lb.Samples(x, truth(x)).whitened()
    found = lb.recover(white, width=2, rng=rng)
    assert found.certificate.verdict == "verified"
    assert lb.compare(white.transform.pull_back(found.network), truth).max_error < EXACT


def test_few_samples_suffice_without_noise(rng: np.random.Generator) -> None:
    truth = random_network(5, 3, rng=rng)  # 19 unknowns
    found = lb.recover(samples(truth, 110, rng), width=3, rng=rng)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < EXACT


def test_hardly_more_samples_than_unknowns(rng: np.random.Generator) -> None:
    """From a good start 1.4 equations an unknown often suffice; where they leave something open, the certificate says so."""
    truth = random_network(5, 3, biases=0.3, rng=rng)
    layer = lb.Layer(truth.layer.weights + 0.01 * rng.standard_normal((3, 5)), truth.layer.biases)
    start, x = lb.Network(layer, truth.readout), rng.standard_normal((30, 5))  # 27 used, 19 unknowns
    exact = lb.refine(lb.Samples(x, truth(x)), start)
    assert exact.certificate.verdict != "verified" or lb.compare(exact.network, truth).max_error < 1e-8
    open_numbers = np.isinf(np.concatenate([np.ravel(part) for part in exact.certificate.standard_errors])).any()
    assert open_numbers == (lb.compare(exact.network, truth).max_error > 1e-8)
    noisy = lb.refine(lb.Samples(x, truth(x) + 0.01 * rng.standard_normal(30)), start)
    assert noisy.certificate.verdict != "refuted", noisy.certificate.explain()


@pytest.mark.parametrize("outputs", [1, 2])
def test_noise_leaves_errors_of_the_size_that_the_certificate_says(outputs: int, rng: np.random.Generator) -> None:
    """Every parameter within 5 standard errors; the mean square of all of them like that of as many normal numbers.

    Over 40 seeds the root mean square was 0.96 ± 0.25 (one output) and 1.06 ± 0.23 (two), from 0.56 to 1.68 (the numbers of one
    network are correlated), and the largest single number 3.5; 4 sigmas are allowed.
    """
    truth = random_network(4, 3, outputs=outputs, readout="random", rng=1).canonical()
    found = lb.recover(samples(truth, 1000, rng, noise=0.05), width=3, rng=rng)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    errors = np.concatenate([np.ravel(part) for part in found.certificate.standard_errors])
    scores = (numbers(found.network) - numbers(truth)) / errors
    assert np.abs(scores).max() < 5.0
    assert np.sqrt(np.mean(scores**2)) < 2.0


def test_same_seed_gives_same_bits_for_any_number_of_workers(rng: np.random.Generator) -> None:
    truth = random_network(4, 3, rng=rng)
    x = rng.standard_normal((3000, 4))
    y = truth(x)
    results = []
    for workers in (1, 2, 3):
        schedule = lb.source.Schedule(workers=workers, block_bytes=1)  # three blocks of 1024 rows
        results.append(lb.recover(lb.Samples(x, y, schedule=schedule), rng=7))
    for other in results[1:]:
        assert_array_equal(numbers(other.network), numbers(results[0].network))
        assert_array_equal(other.certificate.standard_errors.weights, results[0].certificate.standard_errors.weights)
        assert other.certificate.checks == results[0].certificate.checks


def test_another_seed_finds_the_same_network(rng: np.random.Generator) -> None:
    truth = random_network(4, 3, rng=rng)
    data = samples(truth, 500, rng)
    one, other = (lb.recover(data, width=3, rng=seed) for seed in (1, 2))
    assert not np.array_equal(numbers(one.start), numbers(other.start))
    assert lb.compare(one.network, other.network).max_error < EXACT


def test_refine_goes_from_near_to_exact(rng: np.random.Generator) -> None:
    truth = random_network(5, 4, outputs=2, rng=rng)
    layer = lb.Layer(truth.layer.weights + 0.05 * rng.standard_normal((4, 5)), truth.layer.biases + 0.05)
    start = lb.Network(layer, truth.readout + 0.1)
    found = lb.refine(samples(truth, 400, rng), start)
    assert found.start is start
    assert found.method is None
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < EXACT
    assert "by refine from 400 samples" in str(found)


def test_progress_hears_of_every_stage(rng: np.random.Generator) -> None:
    events: list[Event] = []
    truth = random_network(3, 2, rng=rng)
    lb.recover(samples(truth, 300, rng), width=2, rng=0, progress=events.append)
    assert {"refining", "certifying"} <= {event.stage for event in events}
    assert all(event.done <= event.total for event in events)


def test_activation_may_be_given_twice_if_equal(rng: np.random.Generator) -> None:
    truth = random_network(3, 2, lb.leaky_relu(0.1), rng=rng)
    data = samples(truth, 300, rng)
    found = lb.recover(data, lb.RandomStart(activation=lb.leaky_relu(0.1)), 2, lb.leaky_relu(0.1), rng=0)
    assert lb.compare(found.network, truth).max_error < EXACT
    with pytest.raises(lb.errors.InvalidInput, match=r"tanh.*leaky_relu\(0\.1\)"):
        lb.recover(data, lb.RandomStart(activation=lb.leaky_relu(0.1)), activation=lb.tanh)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("width", [0, -3, 2.5, True, "three"], ids=repr)
def test_bad_width_is_refused(width: object, rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="width is"):
        lb.recover(samples(random_network(3, 2, rng=rng), 50, rng), width=width)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [30, None])
def test_width_beyond_the_samples_is_refused_with_a_number(width: int | None, rng: np.random.Generator) -> None:
    few = samples(random_network(5, 3, rng=rng), 24 if width is None else 60, rng)
    with pytest.raises(lb.errors.TooFewSamples, match=r"About [\d,]+ samples") as refusal:
        lb.recover(few, width=width, rng=0)
    assert refusal.value.values["largest_width"] < refusal.value.values["width"]


def test_start_of_another_shape_is_refused(rng: np.random.Generator) -> None:
    data = samples(random_network(3, 2, rng=rng), 50, rng)
    for start in (random_network(4, 2, rng=rng), random_network(3, 2, outputs=2, rng=rng)):
        with pytest.raises(lb.errors.InvalidInput, match="The start maps dimension"):
            lb.refine(data, start)


NOT_A_NETWORK: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "two hidden layers": lambda x, rng: lb.relu(lb.relu(x @ [[1.0, 2.0], [-1.0, 0.5], [0.3, -0.7]]) @ [1.0, -1.0] - 0.3),
    "a product": lambda x, rng: x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(len(x)),
    "pure noise": lambda x, rng: rng.standard_normal(len(x)),
    "a linear map": lambda x, rng: x @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(len(x)),
}


@pytest.mark.parametrize("rows", [300, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NOT_A_NETWORK)
def test_what_no_such_network_computes_is_never_verified(kind: str, rows: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((rows, 3))
    found = lb.recover(lb.Samples(x, NOT_A_NETWORK[kind](x, rng)), width=3, rng=0)
    assert found.certificate.verdict != "verified", found.certificate.explain()


def test_interrupt_gives_what_there_is_and_says_so(seed: int) -> None:
    """Ctrl-C in the search: no pruning, no refinement, and a certificate that names it."""
    rng = np.random.default_rng(seed)
    truth = lb.random_network(10, 8, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((800, 10))
    seen = []

    def interrupt(event: lb.numerics.shapes.Event) -> None:
        seen.append(event.stage)
        if event.stage == "refining" and seen.count("refining") == 3:
            raise KeyboardInterrupt

    found = lb.recover(lb.Samples(x, truth(x)), width=8, rng=seed, progress=interrupt)
    claim = next(claim for claim in found.certificate.checks if claim.name == "refinement finished")
    assert not claim.passed and "interrupted" in claim.explanation
    assert found.certificate.verdict != "verified" and seen.count("refining") == 3


@pytest.mark.parametrize("width", [2, 40, None], ids=["given", "refused", "not given"])
@pytest.mark.parametrize("box", [False, True], ids=["samples", "black box"])
def test_rows_are_let_go_of_at_once(width: int | None, *, box: bool) -> None:
    """No cycle keeps them until somebody collects cycles: three recoveries of 0.7 GB each had taken 4.2 GB."""
    truth, x = random_network(4, 2, rng=0), np.random.default_rng(1).standard_normal((120, 4))
    source = lb.Oracle(truth, 4) if box else lb.Samples(x, truth(x))
    alive, enabled = weakref.ref(source), gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(lb.LaybareError):
            lb.recover(source, lb.RandomStart() if not box else None, width, rng=0)
        del source
        assert alive() is None
    finally:
        if enabled:
            gc.enable()


def test_every_network_that_is_certified_for_the_same_rows_is_another_look(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product is no network: several methods are tried, each at a part of the level that those before it have left."""
    looks: list[int] = []

    def spy(network: lb.Network, problem: Problem, *, search: SearchRecord, **further: Any) -> lb.Certificate:
        looks.append(search.looks)
        return certify(network, problem, search=search, **further)

    monkeypatch.setattr(main_loop, "certify", spy)
    x = rng.standard_normal((150, 2))
    found = lb.recover(x, x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(150), width=1, rng=0)
    assert found.certificate.verdict != "verified"
    assert len(looks) > 1 and len(set(looks)) == len(looks)


def test_refine_needs_more_equations_than_unknowns(seed: int) -> None:
    truth = lb.random_network(10, 8, rng=seed)
    x = np.random.default_rng(seed).standard_normal((60, 10))
    with pytest.raises(lb.errors.TooFewSamples, match="89 free parameters"):
        lb.refine(lb.Samples(x, truth(x)), truth)


def test_print_is_short_and_the_certificate_tells_all() -> None:
    x = np.random.default_rng(0).standard_normal((600, 4))
    found = lb.recover(x, lb.random_network(4, 2, rng=0)(x), width=2)
    assert found.certificate.verdict == "verified" and len(str(found).splitlines()) <= 25
    assert f"{len(found.certificate.checks)} of {len(found.certificate.checks)} checks hold" in str(found)
    assert all(claim.name in found.certificate.explain() for claim in found.certificate.checks)
