"""What stands in the way of reading a black box is said in words, after a dozen queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import laybare as lb
from laybare.errors import AssumptionViolated, BudgetExhausted
from laybare.methods.misfit import MISFIT_SENTENCES, OPTIONS, check_not_rounded, named_misfit
from laybare.numerics.shapes import Array
from laybare.studies.certificates import BOX_FAMILIES


def beside(kind: str, net: lb.Network) -> Callable[[Array], Array]:
    """A network, and something that it does not explain."""
    draws = np.random.default_rng(0)

    def hashed(x: Array) -> Array:
        return np.asarray(np.abs(np.sin(1e4 * x.sum(axis=1)) * 1e4) % 1.0 < 0.1)

    return {
        "random": lambda x: net(x) + (draws.random(len(x)) < 0.5) * draws.standard_normal(len(x)),
        "single inputs": lambda x: net(x) + hashed(x),
        "rounded": lambda x: net(np.round(x, 3)),
        "jump": lambda x: net(x) + 0.1 * (x[:, 0] > 0.5),
        "pieces": lambda x: net(x) + 0.1 * np.sin(x[:, 0]),
    }[kind]


@pytest.mark.parametrize("kind", MISFIT_SENTENCES)
def test_what_is_not_predicted_is_named(kind: str, seed: int) -> None:
    net = lb.random_network(3, 3, rng=seed)
    oracle = lb.Oracle(beside(kind, net), 3, budget=400, rng=seed)
    oracle.ask(oracle.typical(200))
    assert named_misfit(oracle, net, rng=np.random.default_rng(seed)) == MISFIT_SENTENCES[kind]
    assert oracle.spent <= 200 + OPTIONS.places * (1 + OPTIONS.beside)


def test_nothing_is_said_where_all_is_predicted_or_nothing_may_be_asked() -> None:
    net = lb.random_network(3, 3, rng=0)
    for answer, budget in ((net, 400), (beside("jump", net), 200)):
        oracle = lb.Oracle(answer, 3, budget=budget, rng=0)
        oracle.ask(oracle.typical(200))
        assert named_misfit(oracle, net, rng=np.random.default_rng(0)) == ""


@pytest.mark.parametrize(("family", "word"), [("back door", "back door"), ("routed", "hash"), ("drop out", "at random")])
def test_a_recovery_says_what_stood_in_the_way(family: str, word: str) -> None:
    box = BOX_FAMILIES[f"box: {family}"](np.random.default_rng([5, sum(map(ord, f"box: {family}"))]))
    found = lb.recover(box.oracle, rng=5)
    assert found.certificate.verdict != "verified" and word in str(found)


def test_a_cache_is_not_called_a_network_of_thousands_of_units() -> None:
    net = lb.random_network(3, 3, rng=0)
    ended = BudgetExhausted("19,000 queries have shown 5,000 units.", "Why.", "What to do.")
    with pytest.raises(AssumptionViolated, match="cache"):
        check_not_rounded(lb.Oracle(beside("rounded", net), 3, budget=50, rng=0), ended)
    check_not_rounded(lb.Oracle(net, 3, budget=50, rng=0), ended)
