"""What a black box is, within 300 queries and 5 seconds: three seeds each, twenty if slow tests run. Set on seeds 100 to 5019."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

import laybare as lb
from laybare.lines.line import Line
from laybare.lines.look import Insight, first_look
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import QueryCounter
from laybare.numerics.shapes import Array

pytestmark = pytest.mark.usefixtures("unchecked")

THREE, TWENTY = range(7000, 7003), range(7000, 7020)

Make = Callable[[int], Callable[[Array], Array]]


def network(activation: lb.Activation, dim: int = 10, width: int = 8, outputs: int = 1) -> Make:
    return lambda seed: lb.random_network(dim, width, activation=activation, outputs=outputs, biases=1.0, rng=seed)


def single(activation: lb.Activation) -> Make:
    def make(seed: int) -> Callable[[Array], Array]:
        net = network(activation)(seed)
        return lambda x: net(x).astype(np.float32)

    return make


def two_layers(dim: int, first: int, second: int) -> Make:
    def make(seed: int) -> Callable[[Array], Array]:
        rng = np.random.default_rng(seed)
        w1, w2 = rng.standard_normal((dim, first)) / np.sqrt(dim), rng.standard_normal((first, second)) / np.sqrt(first)
        b1, b2, a = 0.5 * rng.standard_normal(first), 0.5 * rng.standard_normal(second), rng.standard_normal(second)
        return lambda x: np.maximum(np.maximum(x @ w1 + b1, 0) @ w2 + b2, 0) @ a

    return make


def tree(seed: int) -> Callable[[Array], Array]:
    from sklearn.tree import DecisionTreeRegressor

    x = np.random.default_rng(seed).standard_normal((400, 10))
    return DecisionTreeRegressor(max_leaf_nodes=30, random_state=0).fit(x, x[:, 0] - np.abs(x[:, 1]) + x[:, 2] * x[:, 3]).predict


def noisy(seed: int) -> Callable[[Array], Array]:
    net, rng = network(lb.relu)(seed), np.random.default_rng(seed)
    return lambda x: net(x) + 0.01 * rng.standard_normal(len(x))


def probability(seed: int) -> Callable[[Array], Array]:
    net = network(lb.relu)(seed)
    return lambda x: 1.0 / (1.0 + np.exp(-net(x)))


def probabilities(seed: int) -> Callable[[Array], Array]:
    net = network(lb.relu, outputs=3)(seed)

    def box(x: Array) -> Array:
        e = np.exp(net(x))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    return box


@pytest.fixture(params=[THREE, pytest.param(TWENTY, marks=pytest.mark.slow)], ids=["three", "twenty"])
def several(request: pytest.FixtureRequest) -> range:
    """Seeds: three of them, all twenty if slow tests run."""
    return request.param


def look(make: Make, seed: int, dim: int = 10) -> Insight:
    asked = 0
    box = make(seed)

    def counted(x: Array) -> Array:
        nonlocal asked
        asked += len(x)
        return box(x)

    begun = time.process_time()
    found = first_look(lb.Oracle(counted, dim, rng=seed), rng=seed)
    assert asked == found.queries <= 300
    assert time.process_time() - begun < 5
    return found


@pytest.mark.parametrize(("make", "kind", "activation"), [
    pytest.param(network(lb.tanh), "smooth", ("tanh", "sigmoid"), id="tanh"),
    pytest.param(network(lb.sigmoid), "smooth", ("tanh", "sigmoid"), id="sigmoid"),
    pytest.param(network(lb.gelu), "smooth", ("gelu",), id="gelu"),
    pytest.param(network(lb.softplus), "smooth", ("softplus",), id="softplus"),
    pytest.param(network(lb.erf), "smooth", ("erf",), id="erf"),
    pytest.param(network(lb.power_relu(2)), "smooth", ("power_relu(2)",), id="squares of relu"),
    pytest.param(network(lb.step), "steps", ("step",), id="step"),
    pytest.param(tree, "tree", (), id="tree"),
    pytest.param(noisy, "noisy", (), id="noise"),
])
def test_kinds_and_activations_are_named(make: Make, kind: str, activation: tuple[str, ...], several: range) -> None:
    found = [look(make, seed) for seed in several]
    assert [insight.kind for insight in found] == [kind] * len(several)
    assert [insight.activations for insight in found] == [activation] * len(several)


@pytest.mark.parametrize(("make", "dim", "layers"), [
    pytest.param(network(lb.relu), 10, 1, id="relu"),
    pytest.param(network(lb.absolute), 10, 1, id="absolute"),
    pytest.param(network(lb.relu, 50, 20), 50, 1, id="50-20-1"),
    pytest.param(network(lb.relu, outputs=3), 10, 1, id="three outputs"),
    pytest.param(single(lb.relu), 10, 1, id="relu in float32"),
    pytest.param(two_layers(10, 10, 10), 10, 2, id="10-10-10-1"),
    pytest.param(two_layers(20, 15, 10), 20, 2, id="20-15-10-1"),
])
def test_one_layer_is_told_from_more(make: Make, dim: int, layers: int, several: range) -> None:
    found = [look(make, seed, dim) for seed in several]
    assert {(insight.kind, insight.activations[0]) for insight in found} == {("piecewise linear", "relu")}
    assert [insight.layers for insight in found] == [layers] * len(several)


def test_a_wide_network_is_never_called_deep(several: range) -> None:
    found = [look(network(lb.relu, 10, 50), seed).layers for seed in several]
    assert set(found) <= {1, None}
    assert found.count(1) >= 0.9 * len(several)


@pytest.mark.parametrize(("make", "link", "outputs"), [(probability, "logit", 1), (probabilities, "softmax", 2)])
def test_probabilities_are_seen_through(make: Make, link: str, outputs: int, several: range) -> None:
    for seed in several:
        found = look(make, seed)
        assert (found.kind, found.link, found.outputs) == ("piecewise linear", link, outputs)
        assert "log-odds" in found.explain()


def test_saturated_probabilities_are_avoided_by_smaller_inputs(seed: int) -> None:
    net = network(lb.relu)(seed)
    middle = net(np.zeros((1, 10)))

    def box(x: Array) -> Array:
        p = 1.0 / (1.0 + np.exp(-40.0 * (net(x) - middle)))
        return np.stack([1 - p, p], axis=1)

    with np.errstate(over="ignore"):
        found = first_look(lb.Oracle(box, 10, rng=seed), rng=seed)
    assert (found.kind, found.link) == ("piecewise linear", "softmax")
    (inputs,) = (finding for finding in found.findings if finding.name == "inputs")
    assert 1e-3 < inputs.value < 0.26
    assert "lb.Gaussian(0, " in inputs.sentence


def test_the_scale_at_which_it_bends(seed: int) -> None:
    found = []
    for scale in (0.01, 1.0, 100.0):
        net = network(lb.relu)(seed)
        oracle = lb.Oracle(lambda x, net=net, scale=scale: net(x / scale), 10, law=lb.Gaussian(0, scale**2))
        found.append(first_look(oracle).scale)
    assert found[0] is not None and found[1] is not None and found[2] is not None
    assert 0.1 < found[0] / 0.01 / found[1] < 10
    assert 0.1 < found[2] / 100 / found[1] < 10


@pytest.mark.parametrize(("box", "kind"), [
    (lambda x: np.ones(len(x)), "constant"), (lambda x: x @ np.arange(1.0, 5.0), "linear")])
def test_nothing_to_find(box: Callable[[Array], Array], kind: str) -> None:
    found = first_look(lb.Oracle(box, 4))
    assert (found.kind, found.activations) == (kind, ())
    assert "larger inputs" in found.explain()


def test_a_box_is_not_left(seed: int) -> None:
    for activation, kind in ((lb.relu, "piecewise linear"), (lb.tanh, "smooth")):
        found = first_look(lb.Oracle(network(activation)(seed), box=(-2, 2)))  # the oracle refuses points outside
        assert found.kind == kind


@pytest.mark.parametrize("budget", [2, 10, 43, 60, 100])
def test_a_small_budget_gives_what_it_can(budget: int, seed: int) -> None:
    oracle = lb.Oracle(network(lb.relu)(seed), budget=budget)
    try:
        found = first_look(oracle)
    except lb.errors.BudgetExhausted:
        assert budget < 43
    else:
        assert found.queries <= budget
        assert found.kind in ("piecewise linear", "linear", "unclear")


def test_every_finding_has_a_sentence(seed: int) -> None:
    found = look(network(lb.tanh), seed)
    assert {finding.name for finding in found.findings} >= {"kind", "link", "rounding", "outputs", "activation", "bounded"}
    assert all(finding.sentence.endswith(".") for finding in found.findings)
    assert found.bounded is True
    assert found.explain().startswith("It is curved")


@pytest.mark.parametrize("dim", [3, 12])
def test_the_grid_of_answers_is_looked_for_beside_a_line_on_which_they_are_constant(dim: int) -> None:
    def answer(x: np.ndarray) -> np.ndarray:
        y = np.abs(x[:, 1:] + 0.3).sum(axis=1) / 3.0 + np.maximum(x[:, 0] - 1e6, 0.0) / 7.0
        return np.asarray(y.astype(np.float32).astype(float)[:, None])

    line = Line(np.zeros(dim), np.eye(dim)[0], -100.0, 100.0, 1.0)
    assert check_piecewise_linear(QueryCounter(answer), line).rounding.kind == "float32"
