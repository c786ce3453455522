"""`recover` says what a black box is within 300 queries and 5 seconds (of the processor), with nothing given."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import laybare as lb
from laybare.numerics.shapes import Array, Event

Box = Callable[[Array], Array]


def units(name: str) -> Callable[[int], Box]:
    return lambda seed: lb.random_network(10, 8, activation=lb.activations.activation_named(name), biases=1.0, rng=seed)


def two_layers(seed: int) -> Box:
    return lb.random_network(10, widths=(10, 10), biases=1.0, rng=seed)


def tree(seed: int) -> Box:
    x = np.random.default_rng(seed).standard_normal((400, 10))
    return DecisionTreeRegressor(max_leaf_nodes=30, random_state=0).fit(x, x[:, 0] - np.abs(x[:, 1]) + x[:, 2] * x[:, 3]).predict


def noisy(seed: int) -> Box:
    net, rng = units("relu")(seed), np.random.default_rng(seed)
    return lambda x: net(x) + 0.01 * rng.standard_normal(len(x))


BOXES: dict[str, tuple[Callable[[int], Box], str]] = {
    "tanh": (units("tanh"), "smooth"), "sigmoid": (units("sigmoid"), "smooth"), "gelu": (units("gelu"), "smooth"),
    "step": (units("step"), "steps"), "two layers": (two_layers, "more than one hidden layer"), "tree": (tree, "tree"),
    "noise": (noisy, "noisy")}


class Named(Exception):
    """What was said."""


def named(make: Callable[[int], Box], seed: int) -> str:
    """What `recover` says it is; asserts that this was early enough."""
    asked, f = 0, make(seed)

    def box(x: Array) -> Array:
        nonlocal asked
        asked += len(x)
        return f(x)

    def listen(event: Event) -> None:
        if event.stage in ("first look", "lines") and event.detail and not event.detail.startswith("queries"):
            raise Named(event.detail)

    begun, said = time.process_time(), ""
    try:
        lb.recover(lb.Oracle(box, 10, rng=seed), rng=seed, progress=listen)
    except Named as name:
        said = str(name)
    except lb.errors.AssumptionViolated as refusal:
        said = refusal.values["kind"]
    assert asked <= 300 and time.process_time() - begun < 5.0, (seed, asked)
    return said


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(62_000, 62_020), marks=pytest.mark.slow)], ids=["two", "twenty"])
@pytest.mark.parametrize("name", BOXES)
def test_black_boxes_are_named(name: str, seeds: range) -> None:
    make, kind = BOXES[name]
    assert [named(make, seed) for seed in seeds] == [kind] * len(seeds)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(62_000, 62_020), marks=pytest.mark.slow)], ids=["two", "twenty"])
@pytest.mark.parametrize(("dim", "width"), [(10, 16), (20, 10), (10, 40)])
def test_one_layer_is_not_called_deep(dim: int, width: int, seeds: range) -> None:
    for seed in seeds:
        truth = lb.random_network(dim, width, biases=1.0, rng=seed)
        found = lb.recover(lb.Oracle(truth, rng=seed), rng=seed)
        assert found.network.depth == 1 and found.method.depth == 1 and found.certificate.verdict == "verified"
