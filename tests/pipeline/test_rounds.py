"""Black boxes that lines cannot read: named early, fitted on no more samples than it takes. Queries are counted by the caller."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import laybare as lb
from laybare.errors import TooFewSamples
from laybare.numerics.shapes import Array, Event
from laybare.pipeline import SearchLimit
from laybare.pipeline import black_box as rounds

SMOOTH = {"tanh": "tanh", "sigmoid": "tanh", "gelu": "gelu", "softplus": "softplus", "erf": "erf"}
"""Units, and what they are called: sigmoid units are tanh units."""


class Counted:
    """A black box of the caller, who counts."""

    def __init__(self, f: Callable[[Array], Array]) -> None:
        self.f, self.queries = f, 0

    def __call__(self, x: Array) -> Array:
        self.queries += len(x)
        return self.f(x)


@pytest.mark.parametrize(
    "name", ["tanh", "sigmoid", "gelu", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("softplus", "erf"))])
def test_smooth_units_are_named_early_and_recovered(name: str, seed: int) -> None:
    truth = lb.random_network(6, 4, activation=lb.activations.activation_named(name), rng=seed)
    box, given, begun = Counted(truth), [], time.process_time()

    def listen(event: Event) -> None:
        if event.stage == "first look" and event.detail and not event.detail.startswith("queries"):
            given.append((event.detail, box.queries, time.process_time() - begun))

    found = lb.recover(lb.Oracle(box, 6, rng=seed), rng=seed, progress=listen)
    ((kind, queries, seconds),) = given
    assert kind == "smooth" and queries <= 300 and seconds < 5.0
    assert found.network.activation.name == SMOOTH[name]
    assert found.certificate.verdict == "verified" and found.network.width == 4
    x = np.random.default_rng(seed + 1).standard_normal((200, 6))
    assert np.abs(found(x) - truth(x)).max() < 1e-7
    assert sum(found.queries.values()) == found.samples_used == box.queries <= 1300
    assert "no query can tell them apart" in found.certificate.explain() or SMOOTH[name] != "tanh"


def steps(seed: int) -> Callable[[Array], Array]:
    return lb.random_network(6, 4, activation=lb.step, rng=seed)


def tree(seed: int) -> Callable[[Array], Array]:
    x = np.random.default_rng(seed).standard_normal((500, 6))
    return DecisionTreeRegressor(max_depth=6, random_state=0).fit(x, lb.random_network(6, 4, rng=seed)(x)).predict


REFUSED = {"steps": (steps, "HighThreshold"), "tree": (tree, "That is no network")}


@pytest.mark.parametrize(("make", "do"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_slopes_is_refused_early(make: Callable[[int], Callable[[Array], Array]], do: str, seed: int) -> None:
    box, begun = Counted(make(seed)), time.process_time()
    with pytest.raises(lb.errors.AssumptionViolated, match=do):
        lb.recover(lb.Oracle(box, 6, rng=seed), rng=seed)
    assert box.queries <= 300 and time.process_time() - begun < 5.0


def test_several_layers_are_read_one_after_the_other() -> None:
    truth = lb.random_network(8, widths=(6, 4), rng=0)
    box = Counted(truth)
    found = lb.recover(lb.Oracle(box, 8, rng=0), rng=0)
    assert found.network.depth == 2 and found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < 1e-8 and box.queries < 10_000


def test_noise_is_named_and_fitted_in_rounds(seed: int) -> None:
    truth, noise = lb.random_network(4, 2, rng=seed), np.random.default_rng(seed)
    box = Counted(lambda x: truth(x) + 0.01 * noise.standard_normal(len(x)))
    found = lb.recover(lb.Oracle(box, 4, budget=20_000, rng=seed), rng=seed)
    assert "noise" in found.certificate.explain() and "relu was taken" in found.certificate.explain()
    assert found.certificate.verdict == "verified" and found.network.width == 2
    assert sum(found.queries.values()) == box.queries < 10_000


@pytest.mark.parametrize(("dim", "width", "activation"), [(3, 16, lb.tanh), (3, 12, lb.gelu), (10, 20, lb.tanh)])
def test_without_noise_a_network_is_found_exactly_or_hardly_at_all(dim: int, width: int, activation: lb.Activation) -> None:
    """Rounds of few rows leave a network of many units open, and a later one finds it."""
    truth = lb.random_network(dim, width, activation, readout="random", rng=1)
    truth = lb.Network(lb.Layer(2.0 * truth.layer.weights, truth.layer.biases, activation), truth.readout, truth.offset)
    found = lb.recover(lb.Oracle(truth, budget=20_000, rng=1), rng=1)
    assert found.certificate.verdict == "verified" and found.network.width == width


def test_rounds_end_where_networks_only_approximate() -> None:
    """A smooth bump beside two tanh units: every fit is better than the last one, and none is exact."""
    net = lb.random_network(3, 2, lb.tanh, rng=0)
    box = Counted(lambda x: net(x) + 0.03 * np.exp(-2.0 * (x**2).sum(axis=1)))
    found = lb.recover(lb.Oracle(box, 3, budget=20_000, rng=0), rng=0)
    assert found.certificate.verdict == "refuted" and box.queries < 1500
    assert "exactly or hardly at all" in found.certificate.reason


@pytest.mark.parametrize("smooth", [lambda x: 0.05 * np.sin(3.0 * x[:, 0]), lambda x: 0.03 * np.exp(-(x**2).sum(axis=1))])
def test_kinks_of_a_curved_function_are_seen_at_once(smooth: Callable[[Array], Array], seed: int) -> None:
    net = lb.random_network(4, 3, rng=seed)
    box, begun = Counted(lambda x: net(x) + smooth(x)), time.process_time()
    with pytest.raises(lb.errors.AssumptionViolated, match="curved and has kinks"):
        lb.recover(lb.Oracle(box, 4, rng=seed), rng=seed)
    assert box.queries <= 300 and time.process_time() - begun < 5.0


def test_probabilities_of_one_class_are_named(seed: int) -> None:
    logit = lb.random_network(6, 4, rng=seed)
    box = Counted(lambda x: 1.0 / (1.0 + np.exp(-logit(x))))
    with pytest.raises(lb.errors.InvalidInput, match="link='logit'"):
        lb.recover(lb.Oracle(box, 6, rng=seed), rng=seed)
    assert box.queries <= 300
    found = lb.recover(lb.Oracle(box, 6, link="logit", rng=seed), rng=seed)
    assert found.certificate.verdict == "verified" and found.network.width == 4


def test_units_that_were_told_wrongly_are_contradicted(seed: int) -> None:
    truth = lb.random_network(6, 4, activation=lb.gelu, rng=seed)
    with pytest.raises(lb.errors.AssumptionViolated, match=r"relu units were given, and the function is smooth\..*gelu"):
        lb.recover(lb.Oracle(truth, rng=seed), activation=lb.relu, rng=seed)


def test_units_that_were_told_need_no_look(seed: int) -> None:
    truth = lb.random_network(6, 4, activation=lb.gelu, rng=seed)
    found = lb.recover(lb.Oracle(truth, rng=seed), activation="gelu", rng=seed)
    assert found.certificate.verdict == "verified" and set(found.queries) == {"samples", "asked again", "assurance"}


@pytest.mark.parametrize(("limit", "said"), [
    (SearchLimit(0.3), "time ended before the rounds did"), (SearchLimit(1e9, work=0.3), "work that was granted ended before")])
def test_the_end_of_time_or_work_hands_over_the_best_so_far(limit: SearchLimit, said: str) -> None:
    truth = lb.random_network(8, 12, activation=lb.gelu, rng=0)
    candidates = rounds.Candidates((lb.tanh,), (), noisy=False)

    def fit(source: lb.Source, method: lb.RandomStart, progress: Callable[[Event], None]) -> lb.Recovery:
        return lb.recover(source, method, rng=0, progress=progress)

    checks = rounds.BlackBoxChecks(np.random.default_rng(0))
    found = rounds.fit_in_rounds(lb.Oracle(truth), candidates, fit, checks, limit=limit)
    assert found.certificate.verdict in ("doubtful", "refuted") and said in str(found)


@pytest.mark.parametrize("budget", [240, 255, 265, 300])
def test_a_round_of_one_row_is_too_few(budget: int) -> None:
    """The budget is nearly spent when it is seen that lines do not apply: that is no matter of units of the outputs."""
    with pytest.raises(TooFewSamples, match="left to fit"):
        lb.recover(lb.Oracle(lambda x: np.sin(50.0 * x).sum(axis=1), 3, budget=budget, rng=255), rng=255)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [600, *range(7300, 7310)])
def test_a_function_too_wild_for_its_samples_has_a_verdict(seed: int) -> None:
    """A unit that is hardly on gets a readout of 1e156; challengers beside it overflow, which is no error of the data."""
    found = lb.recover(lb.Oracle(lambda x: np.sin(50.0 * x).sum(axis=1), 3, budget=600, rng=seed), rng=seed)
    assert found.certificate.verdict in ("doubtful", "refuted")


def test_drawn_rows_are_counted_too() -> None:
    box = Counted(lb.random_network(4, 2, rng=0))
    found = lb.recover(lb.Oracle(box, 4, budget=600), lb.RandomStart())
    assert found.queries == {"drawn": 600} and box.queries == 600 == found.samples_used


@pytest.mark.parametrize("seed", [40, 41, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(62_000, 62_020))])
def test_small_budgets_are_told_what_would_do(seed: int) -> None:
    """5-3-1: one sentence for each, advice that does not fall, and it is enough."""
    truth, advised = lb.random_network(5, 3, rng=seed), []
    for budget in (5, 20, 31, 60):
        try:
            claims = lb.recover(lb.Oracle(truth, budget=budget, rng=seed), rng=seed).certificate.checks
            (text,) = (claim.explanation for claim in claims if claim.name == "units read" and not claim.passed)
            advised.append(int(text.rpartition("about ")[2].split()[0]))
        except lb.errors.BudgetExhausted as error:
            advised.append(int(error.do.split()[-2]))
    assert advised == sorted(advised)
    for budget in set(advised):
        assert lb.recover(lb.Oracle(truth, budget=budget, rng=seed), rng=seed).certificate.verdict == "verified"


@pytest.mark.parametrize("seed", [40, 62_015, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(64_000, 64_020))])
def test_the_default_budget_is_not_spent(seed: int) -> None:
    box = Counted(lb.random_network(5, 3, rng=seed))
    found = lb.recover(lb.Oracle(box, 5, rng=seed), rng=seed)
    assert found.certificate.verdict == "verified"
    assert box.queries == sum(found.queries.values())
    assert box.queries - found.queries["assurance"] <= 200
