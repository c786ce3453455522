"""The solvers of the benchmark of real networks: laybare, and controls where they can run.

A solver is a function (network, form, limits) -> Outcome. To add one, write it here and name it in SOLVERS; it returns None where
it does not apply.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from zoo_data import Array, RealNetwork

import laybare as lb
from laybare.errors import BudgetExhausted, LaybareError

ROWS = 1000
"""Rows of the domain that laybare is given as inputs=."""

MOST_SAMPLES = 1 << 16
"""Samples that controls train on at most: memory."""


LBFGS_STEPS = 2000
"""Of L-BFGS; its own default is 200."""


class Limits(NamedTuple):
    """Queries, CPU seconds, seed, and whether laybare is given rows of the domain ("rows") or nothing ("standard")."""

    queries: int
    cpu: float
    seed: int = 0
    where: str = "rows"


class Outcome(NamedTuple):
    """The network that was found, what was claimed about it, queries, and the sentence with which it stopped."""

    network: lb.Network | None
    verdict: str
    queries: int
    said: str


class CpuLimited:
    """A black box that answers nothing more once the process has used its CPU seconds."""

    def __init__(self, ask: Callable[[Array], Any], end: float) -> None:
        self._ask, self._end = ask, end

    def __call__(self, x: Array) -> Any:
        if time.process_time() > self._end:
            raise BudgetExhausted(
                "The CPU seconds of this run have ended.", "Nothing more is asked.", "Grant more.", interrupted=True)
        return self._ask(x)


def oracle_of(network: RealNetwork, form: str, limits: Limits) -> lb.Oracle:
    """The black box under the limits."""
    target = network.target(form)
    rows = network.draw(np.random.default_rng(limits.seed), ROWS) if limits.where == "rows" else None
    target = replace(target, ask=CpuLimited(target.ask, limits.cpu))
    return lb.Oracle(target, network.truth.dim, inputs=rows, budget=limits.queries, rng=limits.seed)


def laybare(network: RealNetwork, form: str, limits: Limits) -> Outcome:
    """`lb.recover` of the black box, as a user would call it."""
    try:
        oracle = oracle_of(network, form, limits)
    except LaybareError as error:  # a file that its runtime does not open
        return Outcome(None, "refused", 0, str(error))
    try:
        found = lb.recover(oracle, rng=limits.seed)
    except LaybareError as error:
        return Outcome(None, "refused", oracle.spent, str(error))
    return Outcome(found.network, found.certificate.verdict, oracle.spent, _first_failure(found))


def _first_failure(found: Any) -> str:
    failed = [claim for claim in found.certificate.claims if not claim.passed]
    return f"{failed[0].name}: {failed[0].explanation}" if failed else ""


def random_start(network: RealNetwork, form: str, limits: Limits) -> Outcome | None:
    """The control: one hidden layer of the true width, searched from random directions, on as many answers."""
    if network.truth.depth != 1:
        return None
    x, y = samples(network, form, limits)
    found = lb.recover(lb.Samples(x, y), lb.RandomStart(), network.truth.width, rng=limits.seed, seconds=limits.cpu)
    return Outcome(found.network, found.certificate.verdict, len(x), _first_failure(found))


def lbfgs(network: RealNetwork, form: str, limits: Limits) -> Outcome:
    """scikit-learn's MLPRegressor of the true shape, no penalty, L-BFGS from one random start, on as many answers."""
    from sklearn.neural_network import MLPRegressor

    x, y = samples(network, form, limits)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    mlp = MLPRegressor(
        hidden_layer_sizes=network.truth.widths, solver="lbfgs", alpha=0.0, tol=1e-10, max_iter=LBFGS_STEPS, max_fun=10**6,
        random_state=limits.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlp.fit((x - centre) / scale, y)
    found = lb.from_sklearn(mlp)
    first = found.layers[0]
    lowest = lb.Layer(first.weights / scale, first.biases - (first.weights / scale) @ centre, first.activation)
    whole = lb.Network((lowest, *found.layers[1:]), found.readout, found.offset)
    return Outcome(whole, "no claim", len(x), "")


def samples(network: RealNetwork, form: str, limits: Limits) -> tuple[Array, Array]:
    """Inputs of the domain and answers, as log-odds where they are probabilities."""
    oracle = oracle_of(network, form, limits)
    x = network.draw(np.random.default_rng(limits.seed + 1), min(limits.queries, MOST_SAMPLES))
    y = oracle.ask(x, gaps=True)
    kept = np.isfinite(y).all(axis=1)
    return x[kept], y[kept, 0] if y.shape[1] == 1 else y[kept]


def art(network: RealNetwork, form: str, limits: Limits) -> Outcome | None:
    """ART's FunctionallyEquivalentExtraction, where it is installed: one hidden layer, one output; it is given the width."""
    if find_spec("art") is None or network.truth.depth != 1 or network.truth.outputs != 1:
        return None
    from art.attacks.extraction import FunctionallyEquivalentExtraction
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    oracle = oracle_of(network, form, limits)

    def logits(x: Array) -> Array:
        f = oracle.ask(np.asarray(x, dtype=float))
        return np.column_stack([f, -f])

    np.random.seed(limits.seed)  # noqa: NPY002  (ART draws from NumPy's own generator)
    attack = FunctionallyEquivalentExtraction(
        BlackBoxClassifierNeuralNetwork(logits, (network.truth.dim,), 2), num_neurons=network.truth.width)
    try:
        attack.extract(network.draw(np.random.default_rng(limits.seed), 100))
    except (AssertionError, RuntimeError, LaybareError) as error:
        return Outcome(None, "no claim", oracle.spent, str(error).splitlines()[0] if str(error) else "kinks were not found")
    layer = lb.Layer(np.asarray(attack.a_0, dtype=float), np.ravel(attack.b_0), lb.relu)
    found = lb.Network(layer, np.asarray(attack.a_1, dtype=float)[0], float(np.ravel(attack.b_1)[0]))
    return Outcome(found, "no claim", oracle.spent, "")


Solver = Callable[[RealNetwork, str, Limits], Outcome | None]
SOLVERS: dict[str, Solver] = {"laybare": laybare, "random start": random_start, "L-BFGS": lbfgs, "ART": art}
