"""A network that was read must predict fresh answers: how many rule out which share, and what slipped through without them."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.errors import InvalidInput
from laybare.export.recovery_files import load
from laybare.lines.assurance import AssuranceOptions, AssurancePlan, answers_for, as_assurance, largest_share


def hat_network(seed: int, height: float = 2.0) -> lb.Network:
    """5-7-1: four units everywhere, and three parallel ones that add up to nothing outside of a slab of width 0.6."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((5, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    place = rng.uniform(1.5, 2.5) + np.array([-0.3, 0.0, 0.3])
    weights, biases = np.vstack([rows[:4], *[rows[4:]] * 3]), np.concatenate([0.5 * rng.standard_normal(4), -place])
    readout = np.concatenate([rng.uniform(0.5, 1.5, 4) * rng.choice([-1.0, 1.0], 4), height * np.array([1.0, -2.0, 1.0])])
    return lb.Network(lb.Layer(weights, biases), readout, 0.3)


@pytest.mark.parametrize(("share", "level"), [(0.01, 0.05), (0.004, 0.05), (0.1, 1e-3)])
def test_answers_rule_out_the_share_and_no_fewer_do(share: float, level: float) -> None:
    count = answers_for(share, level)
    assert largest_share(count, level) <= share < largest_share(count - 1, level)
    assert (1.0 - share) ** count <= level < (1.0 - share) ** (count - 1)


def test_no_answer_shows_nothing() -> None:
    assert largest_share(0, 0.05) == 1.0


def test_points_are_inputs_of_the_law_first_and_stay_within_the_budget() -> None:
    rows = np.random.default_rng(0).standard_normal((5000, 3))
    plan = AssurancePlan(AssuranceOptions(), lambda start, count: rows[start : start + count])
    points = plan.points(7, 10_000, None, np.random.default_rng(1))
    assert points.of_law == 1000 and len(points.x) == 1200  # a tenth of what reading took, and a fifth more between inputs
    np.testing.assert_array_equal(points.x[: points.of_law], rows[7:1007])
    again = plan._replace(begun=7).points(0, 10_000, None, np.random.default_rng(1))
    np.testing.assert_array_equal(again.x, points.x)  # after another reading has asked them
    points = plan.points(0, 100, 50, np.random.default_rng(1))
    assert points.of_law == 41 and len(points.x) <= 50
    assert len(plan.points(0, 100, 0, np.random.default_rng(1)).x) == 0


def test_looks_share_the_level_whenever_they_stop() -> None:
    """Each look asks what it needs for the same share; in all at most α is spent, so that none is free."""
    options, begun, spent = AssuranceOptions(), 0, 0.0
    for _ in range(8):
        count, level = options.count(0, begun), options.level_after(begun)
        assert largest_share(count, level) <= options.share < largest_share(count - 1, level)
        spent, begun = spent + level, begun + count
    assert 0.9 * options.level < spent <= options.level


def test_a_network_that_fails_and_is_tried_again_is_wrong_no_more_often_than_the_level() -> None:
    """Networks that are wrong on 1 % of inputs, drawn anew until one passes three looks or so: at most 5 % pass. Of 4,000, 184
    or 4 standard deviations more, 14 each, would be 5 %; with a level of 5 % at every look it is three times as many."""
    options, rng, passed = AssuranceOptions(), np.random.default_rng(0), 0
    for _ in range(4000):
        begun = 0
        for _ in range(3):
            count = options.count(0, begun)
            begun += count
            if rng.random(count).min() > options.share:
                passed += 1
                break
    assert passed <= 0.05 * 4000 + 4 * 14


def test_assurance_is_a_pair_or_options() -> None:
    assert as_assurance((0.01, 0.02)) == AssuranceOptions(level=0.01, share=0.02)
    assert as_assurance(None) is None
    for bad in (0.5, "high", (0.0, 0.1), (0.1, 1.5)):
        with pytest.raises(InvalidInput):
            as_assurance(bad)


@pytest.mark.parametrize("seed", range(5))
def test_a_hat_of_three_parallel_units_is_not_verified_unseen(seed: int) -> None:
    """Far away it adds up to nothing: two ends of a line and six points did not see it."""
    truth = hat_network(seed)
    found = lb.recover(lb.Oracle(truth, budget=20_000, rng=seed), rng=seed)
    x = np.random.default_rng(seed).standard_normal((4000, 5))
    right = np.abs(found(x) - truth(x)).max() < 1e-8
    assert right or found.certificate.verdict != "verified"


def test_the_share_is_in_the_verdict_and_the_queries_are_booked_apart(tmp_path) -> None:
    found = lb.recover(lb.Oracle(lb.random_network(5, 3, rng=2), rng=0), rng=0, assurance=(0.05, 0.004))
    shown = found.certificate.assurance
    assert found.certificate.verdict == "verified" and shown is not None
    assert shown.share <= 0.004 and shown.answers == answers_for(0.004, 0.04) <= found.queries["assurance"]
    assert "verdict: verified. Wrong on at most 0.4 % of inputs (95 %)" in str(found)
    found.save(tmp_path / "found.safetensors")
    again = load(tmp_path / "found.safetensors")
    assert isinstance(again, lb.Recovery) and again.certificate.assurance == shown


def test_a_small_budget_gives_a_larger_share() -> None:
    truth = lb.random_network(5, 3, rng=2)
    spent = sum(lb.recover(lb.Oracle(truth, rng=0), rng=0).queries.values())
    wide = lb.recover(lb.Oracle(truth, rng=0), rng=0).certificate.assurance
    few = lb.recover(lb.Oracle(truth, budget=spent - 250, rng=0), rng=0).certificate
    assert wide is not None and few.assurance is not None
    assert few.assurance.share > wide.share and few.verdict == "verified"
    none = lb.recover(lb.Oracle(truth, budget=75, rng=0), rng=0).certificate  # 67 to read, 3 to ask again, 4 at the law
    assert none.verdict == "doubtful" and "grant 5 queries more" in str(none)
