"""Rival activations: how good one must be, by how sharp its units are, and how long it is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hostile_recoveries import hostile, named

import laybare as lb
from laybare.certificate import ClaimName, rival_activations
from laybare.certificate.certificate import RULES
from laybare.certificate.fitted_network import FittedNetwork, evaluate_fit
from laybare.certificate.rival_activations import BEND_WIDTHS, RIVALS
from laybare.certificate.rival_activations import _gain_limit as limit_of
from laybare.solver.point import Model, Point, parameter_count
from laybare.source.problem import pose


def point(activation: lb.Activation, *lengths: float) -> Point:
    """Units along the axes, with rows of such lengths and large biases, which do not count."""
    rows = np.column_stack([np.diag(lengths), np.full(len(lengths), 50.0)])
    return Model(activation).start(rows, 1)


@pytest.mark.parametrize(("own", "rival", "limit"), [
    (point(lb.relu, 1.0, 1.0), point(lb.gelu, 2.0, 3.0), RIVALS.min_gain),
    (point(lb.relu, 1.0, 1.0), point(lb.gelu, 4.5, 9.0), RIVALS.min_gain_sharp),
    (point(lb.relu, 1.0, 1.0, 1.0), point(lb.gelu, 1.0, 4.5, 9.0), RIVALS.min_gain_sharp),
    (point(lb.relu, 1.0, 1.0, 1.0), point(lb.gelu, 1.0, 2.0, 9.0), RIVALS.min_gain),
    (point(lb.relu, 1.0), point(lb.softplus, 6.0), RIVALS.min_gain),
    (point(lb.relu, 1.0), point(lb.softplus, 6.5), RIVALS.min_gain_sharp),
    (point(lb.relu, 1.0), point(lb.tanh, 70.0), RIVALS.min_gain),
    (point(lb.tanh, 1.0), point(lb.gelu, 9.0), RIVALS.min_gain_smooth),
    (point(lb.gelu, 1.0), point(lb.relu, 1.0), RIVALS.min_gain_smooth)])
def test_a_sharp_rival_must_be_better(own: Point, rival: Point, limit: float) -> None:
    """In widths of the bend: a softplus unit's is 1.8 times as wide as a GELU's. A tanh is no ReLU, however long its row is."""
    assert limit_of(own, rival) == limit


def test_sharp_units_bend_within_a_tenth_of_what_a_unit_adds() -> None:
    """Either kind, at the length from which it is sharp, against the ReLU of the same row, over normal sums."""
    sums = np.random.default_rng(0).standard_normal(100_000)
    for kind in (lb.gelu, lb.softplus):
        length = RIVALS.sharp_length * BEND_WIDTHS[kind.name]
        apart = kind(length * sums) / length - lb.relu(sums)
        assert np.std(apart) < 0.1 * np.std(lb.relu(sums))


@pytest.mark.parametrize(("family", "seed"), [("several outputs", 280422), ("linear part", 280255)])
def test_right_networks_beside_sharp_rivals_are_verified(family: str, seed: int) -> None:
    """Each was left in doubt by GELU or softplus units that are nearly ReLUs and gained what noise grants them."""
    found, right = hostile(family, seed)
    assert right and found.certificate.verdict == "verified", found.certificate.explain()
    claim = named(found, ClaimName.RIVAL_ACTIVATION)
    assert claim.value > 3.0 and claim.threshold == RIVALS.min_gain_sharp


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


def test_a_sharp_rival_counts_where_one_more_unit_is_nearly_called_for() -> None:
    """A function that is no network was verified: another unit stood just below its threshold, sharp GELU units below theirs."""
    found, right = hostile("outside", 311741)
    assert not right and found.certificate.verdict == "doubtful"
    claim = named(found, ClaimName.RIVAL_ACTIVATION)
    assert claim.threshold == RIVALS.min_gain < claim.value < RIVALS.min_gain_sharp


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
