"""Rival activations: how good one must be, by how sharp its units are, and how long it is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hostile_recoveries import hostile, named
from scipy.special import chdtrc

import laybare as lb
from laybare.certificate import ClaimName, rival_activations
from laybare.certificate.certificate import RULES
from laybare.certificate.fitted_network import FittedNetwork, evaluate_fit
from laybare.certificate.rival_activations import RIVALS
from laybare.certificate.rival_activations import _gain_limit as limit_of
from laybare.solver.point import Model, parameter_count
from laybare.source.problem import pose


def test_the_limit_of_a_nested_rival_is_what_chance_grants_three_in_a_thousand() -> None:
    """However many parameters it has more, the penalty of two for each taken off. A rival that cannot contain the network, beside
    smooth units or with fewer parameters, is clearly worse if the network is right."""
    relu, gelu, tanh = (Model(activation).start(np.eye(2, 3), 1) for activation in (lb.relu, lb.gelu, lb.tanh))
    fewer = Model(lb.gelu).start(np.eye(1, 3), 1)
    assert limit_of(relu, gelu) == RIVALS.min_gain
    assert limit_of(relu, fewer) == limit_of(tanh, gelu) == RIVALS.min_gain_apart
    for more in (1, 2, 4, 8, 16, 64):
        assert chdtrc(more, RIVALS.penalty_per_parameter * more + RIVALS.min_gain) < 3.2e-3


@pytest.mark.parametrize(("family", "seed"), [("several outputs", 280422), ("linear part", 280255)])
def test_right_networks_beside_sharp_rivals_are_verified(family: str, seed: int) -> None:
    """Each was left in doubt by GELU or softplus units that are nearly ReLUs and gained what noise grants them."""
    found, right = hostile(family, seed)
    assert right and found.certificate.verdict == "verified", found.certificate.explain()
    claim = named(found, ClaimName.RIVAL_ACTIVATION)
    assert claim.value > 3.0 and claim.threshold == RIVALS.min_gain


def test_rivals_go_on_as_long_as_they_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival used to end after ten steps that gained a tenth of its loss together, while each still gained six."""
    rng = np.random.default_rng(1)
    truth = lb.random_network(6, 4, rng=rng)
    x = rng.standard_normal((1500, 6))
    y = truth(x)
    ended, judged = [], rival_activations._score_rival
    monkeypatch.setattr(rival_activations, "_score_rival", lambda *given: ended.append(given) or judged(*given))
    lb.recover(x, y + 0.1 * y.std() * rng.standard_normal(1500), lb.RandomStart(), 4)
    assert len(ended) >= 5
    for _, rows, _, rival in ended:
        losses = [row.loss for row in rival.trace.rows]
        spare = rows.size - parameter_count(rival.point)
        least = 1.01 * RIVALS.min_gain_in_four_steps
        assert len(losses) < 5 or rival.trace.reason == "settled" or spare * np.log(losses[-5] / losses[-1]) <= least


def noisy_fit(seed: int, rows: int) -> FittedNetwork:
    """A right network of four units fitted to so many rows with noise."""
    rng = np.random.default_rng(seed)
    truth = lb.random_network(6, 4, rng=rng)
    x = rng.standard_normal((rows, 6))
    y = truth(x)
    samples = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(rows))
    return evaluate_fit(lb.refine(samples, truth).network, pose(samples, biases=True, rng=np.random.default_rng(0)))


def steps_of_rivals(monkeypatch: pytest.MonkeyPatch, reach: float) -> tuple[int, dict[str, float]]:
    """Steps on some of many rows, and what each rival gains there, where they go on for so many times what they lack."""
    fitted = noisy_fit(2, 12_000)
    assert fitted.screening_rows is not fitted.used
    monkeypatch.setattr(rival_activations, "RIVALS", replace(RIVALS, reach=reach))
    ended, judged = [], rival_activations._score_rival
    with monkeypatch.context() as patched:
        patched.setattr(rival_activations, "_score_rival", lambda *given: ended.append(given) or judged(*given))
        own = fitted.loss_on_screening_rows
        gains = {kind.name: rival_activations._fit_rival(fitted, kind, own)[0].gain for kind in (lb.tanh, lb.softplus, lb.gelu)}
    return sum(len(rival.trace.rows) - 1 for *_, rival in ended), gains


def test_a_rival_that_cannot_make_up_for_what_it_lacks_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On some of many rows: fewer steps, and the same answer as that of those who go on."""
    steps, gains = steps_of_rivals(monkeypatch, RIVALS.reach)
    more, long = steps_of_rivals(monkeypatch, 1e9)
    assert steps < more
    assert gains["tanh"] < -RULES.clear_gain and long["tanh"] < -RULES.clear_gain
    for name, gain in gains.items():
        assert (gain < -RULES.clear_gain) == (long[name] < -RULES.clear_gain)
        assert gain < RIVALS.min_gain and long[name] < RIVALS.min_gain


def test_many_rows_judge_rivals_by_few_and_by_as_many_as_the_residual_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: few, and many for those that are not clearly worse there, beside the network fitted to them."""
    fitted = noisy_fit(3, 300_000)
    assert fitted.screening_rows.size == 4096 < fitted.search_rows.size < fitted.residual_rows.size == 30_000
    few = fitted.loss_on_screening_rows
    for rows, own in ((fitted.screening_rows, few), (fitted.residual_rows, fitted.loss_on_residual_rows)):
        (plain,) = rows.sum(lambda x, y: (np.sum((y - fitted.white(x)[:, None]) ** 2),))
        gain = (plain - own) / fitted.noise_variance
        assert 0.5 * fitted.unknowns < gain < 2.0 * fitted.unknowns  # what as many parameters follow of noise
    seen, judged = [], rival_activations._score_rival
    monkeypatch.setattr(rival_activations, "_score_rival", lambda *given: seen.append(given[1].size) or judged(*given))
    assert rival_activations._fit_rival(fitted, lb.tanh, few)[0].gain < -RULES.clear_gain and seen == [4096]
    monkeypatch.setattr(rival_activations, "RULES", replace(RULES, sigmas=np.inf))
    assert rival_activations._fit_rival(fitted, lb.tanh, few)[0].gain < -1e3 and seen[1:] == [4096, 30_000]
