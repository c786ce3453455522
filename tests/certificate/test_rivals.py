"""Rival activations: how good one must be, by how sharp its units are, and how long it is fitted."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_recoveries import hostile, named

import laybare as lb
from laybare.certificate import rivals
from laybare.certificate.fitted import State, state_of
from laybare.certificate.rivals import AS_WELL, BETTER, HOPELESS, SHARPER
from laybare.certificate.rivals import _limit as limit_of
from laybare.refinement.normal import Model, Point
from laybare.refinement.problem import pose
from laybare.refinement.pruning import parameter_count

GAIN = "gain of another activation"


def point(activation: lb.Activation, *lengths: float) -> Point:
    """Units along the axes, with rows of such lengths and large biases, which do not count."""
    rows = np.column_stack([np.diag(lengths), np.full(len(lengths), 50.0)])
    return Model(activation).start(rows, 1)


@pytest.mark.parametrize(("own", "rival", "limit"), [
    (point(lb.relu, 1.0, 1.0), point(lb.gelu, 2.0, 3.0), BETTER),
    (point(lb.relu, 1.0, 1.0), point(lb.gelu, 4.5, 9.0), SHARPER),
    (point(lb.relu, 1.0, 1.0, 1.0), point(lb.gelu, 1.0, 4.5, 9.0), SHARPER),
    (point(lb.relu, 1.0, 1.0, 1.0), point(lb.gelu, 1.0, 2.0, 9.0), BETTER),
    (point(lb.relu, 1.0), point(lb.softplus, 6.0), BETTER),
    (point(lb.relu, 1.0), point(lb.softplus, 6.5), SHARPER),
    (point(lb.relu, 1.0), point(lb.tanh, 70.0), BETTER),
    (point(lb.tanh, 1.0), point(lb.gelu, 9.0), AS_WELL),
    (point(lb.gelu, 1.0), point(lb.relu, 1.0), AS_WELL)])
def test_a_sharp_rival_must_be_better(own: Point, rival: Point, limit: float) -> None:
    """In widths of the bend: a softplus unit's is 1.8 times as wide as a GELU's. A tanh is no ReLU, however long its row is."""
    assert limit_of(own, rival) == limit


def test_sharp_units_bend_within_a_tenth_of_what_a_unit_adds() -> None:
    """Either kind, at the length from which it is sharp, against the ReLU of the same row, over normal sums."""
    sums = np.random.default_rng(0).standard_normal(100_000)
    for kind in (lb.gelu, lb.softplus):
        length = rivals.SHARP * rivals.BENDS[kind.name]
        apart = kind(length * sums) / length - lb.relu(sums)
        assert np.std(apart) < 0.1 * np.std(lb.relu(sums))


@pytest.mark.parametrize(("family", "seed"), [("several outputs", 280422), ("linear part", 280255)])
def test_right_networks_beside_sharp_rivals_are_verified(family: str, seed: int) -> None:
    """Each was left in doubt by GELU or softplus units that are nearly ReLUs and gained what noise grants them."""
    found, right = hostile(family, seed)
    assert right and found.certificate.verdict == "verified", found.certificate.explain()
    assert named(found, GAIN).value > 3.0 and named(found, GAIN).threshold == SHARPER


def test_rivals_go_on_as_long_as_they_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival used to end after ten steps that gained a tenth of its loss together, while each still gained six."""
    rng = np.random.default_rng(1)
    truth = lb.random_network(6, 4, rng=rng)
    x = rng.standard_normal((1500, 6))
    y = truth(x)
    ended, judged = [], rivals._judged
    monkeypatch.setattr(rivals, "_judged", lambda *given: ended.append(given) or judged(*given))
    lb.recover(x, y + 0.1 * y.std() * rng.standard_normal(1500), lb.RandomStart(), 4)
    assert len(ended) >= 5
    for _, rows, _, rival in ended:
        losses = [row.loss for row in rival.trace.rows]
        spare = rows.size - parameter_count(rival.point)
        assert len(losses) < 5 or rival.trace.reason == "settled" or spare * np.log(losses[-5] / losses[-1]) <= 1.01 * HOPELESS


def noisy_state(seed: int, rows: int) -> State:
    """A right network of four units fitted to so many rows with noise."""
    rng = np.random.default_rng(seed)
    truth = lb.random_network(6, 4, rng=rng)
    x = rng.standard_normal((rows, 6))
    y = truth(x)
    samples = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(rows))
    return state_of(lb.refine(samples, truth).network, pose(samples, biases=True, rng=np.random.default_rng(0)))


def steps_of_rivals(monkeypatch: pytest.MonkeyPatch, reach: float) -> tuple[int, dict[str, float]]:
    """Steps on some of many rows, and what each rival gains there, where they go on for so many times what they lack."""
    state = noisy_state(2, 12_000)
    assert state.few is not state.view
    monkeypatch.setattr(rivals, "REACH", reach)
    ended, judged = [], rivals._judged
    with monkeypatch.context() as patched:
        patched.setattr(rivals, "_judged", lambda *given: ended.append(given) or judged(*given))
        own = state.own_on_few
        gains = {kind.name: rivals._tried(state, kind, own)[0].gain for kind in (lb.tanh, lb.softplus, lb.gelu)}
    return sum(len(rival.trace.rows) - 1 for *_, rival in ended), gains


def test_a_rival_that_cannot_make_up_for_what_it_lacks_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On some of many rows: fewer steps, and the same answer as that of those who go on."""
    steps, gains = steps_of_rivals(monkeypatch, rivals.REACH)
    more, long = steps_of_rivals(monkeypatch, 1e9)
    assert steps < more
    assert gains["tanh"] < -rivals.CLEARLY and long["tanh"] < -rivals.CLEARLY
    for name, gain in gains.items():
        assert (gain < -rivals.CLEARLY) == (long[name] < -rivals.CLEARLY)
        assert gain < rivals.BETTER and long[name] < rivals.BETTER


def test_a_sharp_rival_counts_where_one_more_unit_is_nearly_called_for() -> None:
    """A function that is no network was verified: another unit stood just below its threshold, sharp GELU units below theirs."""
    found, right = hostile("outside", 311741)
    assert not right and found.certificate.verdict == "doubtful"
    assert named(found, GAIN).threshold == BETTER < named(found, GAIN).value < SHARPER


def test_many_rows_judge_rivals_by_few_and_by_as_many_as_the_residual_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: few, and many for those that are not clearly worse there, beside the network fitted to them."""
    state = noisy_state(3, 300_000)
    assert state.few.size == 4096 < state.some.size < state.many.size == 30_000
    for rows, own in ((state.few, state.own_on_few), (state.many, state.own_on_many)):
        (plain,) = rows.sum(lambda x, y: (np.sum((y - state.white(x)[:, None]) ** 2),))
        assert 0.5 * state.unknowns < (plain - own) / state.noise < 2.0 * state.unknowns  # what as many numbers follow of noise
    seen, judged = [], rivals._judged
    monkeypatch.setattr(rivals, "_judged", lambda *given: seen.append(given[1].size) or judged(*given))
    assert rivals._tried(state, lb.tanh, state.own_on_few)[0].gain < -rivals.CLEARLY and seen == [4096]
    monkeypatch.setattr(rivals, "CLEARLY", np.inf)
    assert rivals._tried(state, lb.tanh, state.own_on_few)[0].gain < -1e3 and seen[1:] == [4096, 30_000]
