"""An audit: what every budget buys, with no answer paid for twice, and a headline that is true of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import laybare as lb
from laybare.auditing import attacks
from laybare.auditing.attacks import CachedBlackBox
from laybare.auditing.copy_error import CHECK, CheckRows, quantile_bounds, same_class
from laybare.auditing.defences import parse_defence
from laybare.auditing.outcome import yearly_quota
from laybare.certificate import ClaimName
from laybare.errors import InvalidInput, TooFewSamples
from laybare.numerics import checks
from laybare.numerics.shapes import Array, Event
from laybare.pipeline import SearchLimit, monitor
from laybare.report.audit_words import headline, limits, quota_sentence
from laybare.source.oracle.repeats import REPEATS

TRUTH = lb.random_network(6, 8, rng=1)
SMALL = lb.random_network(3, 2, rng=1)


class Seen:
    """A black box that remembers its questions."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []

    def __call__(self, x: Array) -> Array:
        self.rows += [row.tobytes() for row in x]
        return TRUTH(x)


def test_more_queries_copy_more_and_nothing_is_paid_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search on samples may find as much as lines do, and then goes first: here it may do next to nothing."""
    monkeypatch.setattr(attacks, "ATTACK", replace(attacks.ATTACK, limit=SearchLimit(np.inf, work=0.1)))
    box = Seen()
    found = lb.audit(box, (100, 200, 1000, 3000), dim=6)
    assert [row.way for row in found.rows][1:] == ["lines"] * 3
    assert [row.verdict for row in found.rows][1:] == ["verified"] * 3
    assert found.rows[0].error_high > 0.01 > 1e-9 > found.rows[1].error_high
    assert all(row.queries <= row.budget for row in found.rows)
    assert found.rows[1].widths == found.rows[3].widths == (8,) and found.rows[3].error_bar < 1e-8
    assert found.paid == len(box.rows) <= 200 + 2 * 100 + CHECK.queries  # two attacks with the first budget, one with the next
    assert len(box.rows) - len(set(box.rows)) <= REPEATS.rows + 4  # only those that look for noise, and those asked again
    assert lb.compare(found.found.network, TRUTH).max_error < 1e-8
    assert found.verdict == "exact copy" and found.near == found.exact == found.rows[1].queries and found.quota == 0
    x = np.random.default_rng(9).standard_normal((10_000, 6))
    off = np.abs(found.found(x) - TRUTH(x)) / TRUTH(x).std()
    assert np.mean(off > found.rows[1].error_high) < CHECK.share


def test_rows_depend_on_the_seed_and_not_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that runs 200 times as fast the limit of work ends the search at the same step."""
    box = lambda x: np.round(TRUTH(x), 2)  # noqa: E731
    monkeypatch.setattr(attacks, "ATTACK", replace(attacks.ATTACK, limit=SearchLimit(np.inf, work=0.1)))
    audits = [lb.audit(box, (300,), dim=6)]
    slow = SlowMachine(200.0)
    monkeypatch.setattr(monitor, "time", slow)
    audits.append(lb.audit(box, (300,), dim=6))
    first, second = (tuple(row._replace(seconds=0.0) for row in found.rows) for found in audits)
    assert str(first) == str(second) and slow.asked > 0 and not first[0].late
    assert audits[0].origin.fingerprint == audits[1].origin.fingerprint
    assert ClaimName.WORK_LIMIT in {claim.name for claim in audits[0].found.certificate.checks}


class SlowMachine:
    """The time as it passes where everything takes this many times as long."""

    def __init__(self, factor: float) -> None:
        self.factor, self.asked, self.begun = factor, 0, time.perf_counter()

    def perf_counter(self) -> float:
        self.asked += 1
        return self.begun + self.factor * (time.perf_counter() - self.begun)

    monotonic = perf_counter


def test_a_row_that_the_time_limit_ended_says_so_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0)
    monkeypatch.setattr(attacks, "ATTACK", replace(attacks.ATTACK, limit=SearchLimit(1e-3)))
    found = lb.audit(lambda x: SMALL(x) + 0.02 * noise.standard_normal(len(x)), (100, 200), dim=3, defences=("round:2",))
    assert all(row.late for row in found.rows) and found.to_dict()["rows"][1]["late"] is True
    said = "Ended by the time limit, so that a faster machine may come further: 100 queries, 200 queries"
    for text in (str(found), found.render("html"), found.render("md"), found.render("sarif")):
        assert said in text
    found.render("json")  # follows the schema
    calm = replace(found, rows=tuple(row._replace(late=False) for row in found.rows), defences=())
    assert "time limit" not in calm.render("html")


def test_rows_never_get_worse() -> None:
    rng = np.random.default_rng(0)
    found = lb.audit(lambda x: SMALL(x) + 0.3 * rng.standard_normal(len(x)), (30, 100, 300), dim=3)
    bounds = [row.error_high for row in found.rows]
    assert bounds == sorted(bounds, reverse=True) and found.verdict == "no copy" and found.near is None


def test_a_deep_model_has_a_row_for_every_budget_and_a_width_for_every_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "ATTACK", replace(attacks.ATTACK, limit=SearchLimit(np.inf, work=0.5)))
    rng = np.random.default_rng(3)
    layers = tuple(
        lb.Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out), lb.relu)
        for into, out in ((6, 5), (5, 3)))
    truth = lb.Network(layers, rng.standard_normal(3), 0.1)
    found = lb.audit(truth, (100, 3000))
    assert [row.budget for row in found.rows] == [100, 3000] and found.rows[0].error_high > 0.01
    assert found.rows[1].widths == (5, 3) and found.exact is not None


def test_smooth_units_are_audited() -> None:
    truth = lb.random_network(4, 2, activation=lb.tanh, rng=2)
    found = lb.audit(truth, (600,))
    assert found.rows[0].verdict == "verified" and found.rows[0].activation == "tanh" and found.exact is not None


def test_a_classifier_is_judged_by_its_probabilities_and_classes() -> None:
    logits = lb.random_network(4, 3, outputs=3, rng=5)

    def classify(x: Array) -> Array:
        z = np.exp(logits(x) - logits(x).max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True)

    found = lb.audit(classify, (60, 600), dim=4, defences=("label",))
    assert found.kind == "probabilities" and found.exact is not None
    assert found.rows[-1].agreement > 0.999 and found.rows[-1].agreement_low > 0.99
    label = found.defences[0]
    assert label.exact is None and 0.3 < label.agreement < 1.0


def test_labels_are_attacked_by_a_surrogate() -> None:
    found = lb.audit(lambda x: (SMALL(x) > np.median(SMALL(x))).astype(float), (400,), dim=3)
    assert found.kind == "labels" and found.rows[0].way == "surrogate" and found.rows[0].verdict == "none"
    assert found.rows[0].error == pytest.approx(1.0 - found.rows[0].agreement)


def test_rounding_is_no_defence_and_the_copy_is_judged_by_the_model_itself() -> None:
    found = lb.audit(SMALL, (20, 100, 300), defences=("round:2", "cap:10", "float32", "label"))
    rounded, cap, single, label = found.defences
    assert rounded.near is not None and rounded.exact is None and rounded.error_high < 0.01
    assert cap.near == found.near and cap.days == pytest.approx(found.near / 10)
    assert single.near is not None and single.near >= found.near
    assert label.sentence == "the model gives no classes"
    assert rounded.quota == yearly_quota(rounded.near, 300)


@pytest.mark.parametrize(("queries", "within", "quota"), [(365, 0, 0), (366, 0, 1), (730, 0, 1), (731, 0, 2), (None, 3650, 10)])
def test_the_yearly_quota(queries: int | None, within: int, quota: int) -> None:
    """The largest q with queries / q > 365 days."""
    assert yearly_quota(queries, within) == quota
    needed = within + 1 if queries is None else queries
    assert quota == 0 or needed / quota > 365 >= needed / (quota + 1)


def test_a_bound_of_a_quantile_holds_as_often_as_it_says() -> None:
    """2,000 tables of 1,000 errors with a known quantile: at level .05 at most 2.4 sigma more than one in twenty is above."""
    rng, missed, below = np.random.default_rng(0), 0, 0
    for _ in range(2000):
        _, low, high = quantile_bounds(rng.exponential(size=1000), 0.01, 0.05)
        missed, below = missed + (high < -np.log(0.01)), below + (low > -np.log(0.01))
    assert missed / 2000 < 0.05 + 2.4 * np.sqrt(0.05 * 0.95 / 2000) and missed > 20
    assert below / 2000 < 0.05 + 2.4 * np.sqrt(0.05 * 0.95 / 2000)
    assert quantile_bounds(np.zeros(100), 0.01, 0.05)[2] == inf  # no miss in a hundred shows nothing about one per cent
    assert quantile_bounds(np.zeros(299), 0.01, 0.05)[2] == 0.0


def test_a_copy_that_answers_nonsense_is_none() -> None:
    rows = CheckRows(np.zeros((400, 1)), np.linspace(0.0, 1.0, 400)[:, None], "outputs")
    assert rows.judge(lambda x: np.full((400, 1), np.nan)).high == inf
    assert rows.judge(lambda x: rows.answers).high == 0.0


def test_a_tie_of_two_classes_is_no_disagreement() -> None:
    """Where every unit is silent, a network gives every class the same probability, and a copy rounds otherwise."""
    tied, clear = np.full((1, 3), 1.0 / 3.0), np.array([[0.2, 0.5, 0.3]])
    copy = np.array([[1.0 / 3.0, 1.0 / 3.0, np.nextafter(1.0 / 3.0, 1.0)]])
    assert same_class(copy, tied).all() and not same_class(copy, clear).any()
    assert same_class(np.array([[0.5 + 1e-16], [0.6], [0.4]]), np.array([[0.5], [0.7], [0.7]])).tolist() == [True, True, False]


def test_a_certificate_that_the_check_contradicts_is_not_believed() -> None:
    """Verified where inputs are asked, wrong at the rows of the check: the row says doubtful."""
    from laybare.auditing.attacks import AttackResult
    from laybare.auditing.budgets import _row
    from laybare.auditing.copy_error import CopyError

    found = lb.recover(lb.Oracle(SMALL, budget=2000))
    assert found.certificate.verdict == "verified"
    row = _row(100, AttackResult("lines", CopyError(3.6, 3.0, 4.0, 1.0), 100, 0.1, found), (), found)
    assert row.verdict == "doubtful" and "contradict" in row.sentence


def test_noise_is_seen_again_in_every_run() -> None:
    noise = np.random.default_rng(0)
    paid = CachedBlackBox(lambda x: noise.standard_normal((len(x), 1)))
    x = np.zeros((2, 3))
    first = paid(x)
    assert first[0] != first[1]
    before = paid.fingerprint
    paid.rewind()
    assert (paid(x) == first).all() and paid.fingerprint == before
    assert paid(x[:1]) != first[0] and paid.fingerprint != before


def test_the_same_seed_gives_the_same_log_and_another_one_does_not() -> None:
    prints = [lb.audit(SMALL, (60,), rng=seed).origin.fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def test_a_log_continues_an_audit(tmp_path) -> None:
    asked = []

    def box(x: Array) -> Array:
        asked.append(len(x))
        return SMALL(x)

    first = lb.audit(box, (30, 100), dim=3, log=tmp_path)
    paid = sum(asked)
    again = lb.audit(box, (30, 100), dim=3, log=tmp_path)
    assert sum(asked) == paid == first.paid and again.origin.fingerprint == first.origin.fingerprint
    assert [row._replace(seconds=0.0) for row in again.rows][-1].error == first.rows[-1].error


def test_an_audit_that_was_interrupted_goes_on_from_its_log_and_ends_as_if_it_had_not_been(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attacks, "ATTACK", replace(attacks.ATTACK, limit=SearchLimit(np.inf, work=0.1)))
    asked: list[int] = []

    def box(x: Array) -> Array:
        asked.append(len(x))
        return SMALL(x) + 0.3 * np.sin(40.0 * x[:, 0])

    def stop(event: Event) -> None:
        if event.stage == "audit" and event.done == 1:
            raise KeyboardInterrupt

    first = lb.audit(box, (20, 60), dim=3, log=tmp_path / "log", progress=stop)
    assert first.interrupted and [row.budget for row in first.rows] == [20] and sum(asked) == first.paid
    second = lb.audit(box, (20, 60), dim=3, log=tmp_path / "log")
    assert not second.interrupted and sum(asked) == second.paid
    whole = lb.audit(box, (20, 60), dim=3)
    one, other = (str(tuple(row._replace(seconds=0.0) for row in found.rows)) for found in (second, whole))
    assert one == other and second.origin.fingerprint == whole.origin.fingerprint and second.paid == whole.paid


@pytest.mark.parametrize("text", ["round", "round:x", "round:2.5", "float64", "cap:0", "noise:-1", "", "label:3"])
def test_defences_that_are_none(text: str) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="Give round:DECIMALS"):
        parse_defence(text)


@pytest.mark.usefixtures("unchecked")
def test_refusals() -> None:
    with pytest.raises(lb.errors.InvalidInput, match="Give the model itself"):
        lb.audit(lb.Oracle(TRUTH))
    with pytest.raises(lb.errors.InvalidInput, match="Give some"):
        lb.audit(TRUTH, ())
    with pytest.raises(lb.errors.InvalidInput, match="Give a list"):
        lb.audit(SMALL, (30,), defences="round:3")


def test_a_model_that_is_constant_where_it_is_asked_has_no_copies() -> None:
    far = lb.Network(lb.Layer(np.eye(2), np.array([-40.0, -50.0]), lb.relu), np.ones(2), offset=0.25)
    with pytest.raises(lb.errors.Unidentifiable, match=r"All 1,000 answers at standard normal inputs are 0\.25\."):
        lb.audit(far, (50,))


def test_an_audit_beyond_memory_is_refused_with_the_estimate_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "memory_bytes", lambda: 1e9)
    asked: list[int] = []
    with pytest.raises(InvalidInput, match=r"An audit of 200,000 inputs with 100 queries needs about .* GB of memory"):
        lb.audit(lambda x: asked.append(len(x)), (100,), dim=200_000)
    assert not asked
    x = np.random.default_rng(0).standard_normal((30, 10_000))
    with pytest.raises(InvalidInput, match="The covariance of 10,000 inputs and what is made of it needs about"):
        lb.recover(x, x[:, 0])


def test_nothing_is_done_yet() -> None:
    """An interrupt in the first budget leaves an audit without rows, which still says what it is."""
    def stop(event: object) -> None:
        if getattr(event, "stage", "") == "audit":
            raise KeyboardInterrupt

    found = lb.audit(SMALL, (30,), progress=stop)
    assert found.interrupted and found.rows == () and "interrupted" in str(found) and found.near is None
    assert "interrupted" in found.render("html") and found.render("sarif")


def answers_until(calls: int) -> Callable[[Array], Array]:
    """A model that goes away after so many calls."""
    left = iter(range(calls))

    def answer(x: Array) -> Array:
        if next(left, None) is None:
            raise ConnectionError("gone")
        return SMALL(x)

    return answer


def test_a_model_that_goes_away_has_refused_no_attack() -> None:
    """The rows before that are kept, the page says why there are no more, and no row calls it a failed attack."""
    found = lb.audit(answers_until(8), (20, 400, 800), dim=3)
    assert "gone" in found.failure and not found.interrupted and [row.budget for row in found.rows] == [20]
    assert "gone" in "".join(limits(found)) and '"executionSuccessful": false' in found.render("sarif")
    assert "ended early" in found.render("html") and found.to_dict()["failure"] == found.failure
    assert found.render("json")  # follows the schema
    with pytest.raises(InvalidInput, match="gone"):
        lb.audit(answers_until(1), (20,), dim=3)


@pytest.mark.parametrize(("answer", "check", "least"), [
    (SMALL, 300, "300 inputs with an answer. .* one of 3 copies .* takes 408, .*check=408"),
    (lambda x: np.where(x[:, 0] > 0.0, SMALL(x), np.nan), 600, r"had none\..* takes 408"),
    (lambda x: np.full(len(x), np.nan), 1000, "0 inputs with an answer, 1,000 of 1,000 had none")])
def test_a_check_that_could_show_nothing_is_refused(answer: Callable[[Array], Array], check: int, least: str) -> None:
    """With fewer inputs an exact copy is no copy, whatever is tried."""
    with pytest.raises(TooFewSamples, match=least):
        lb.audit(answer, (20,), dim=3, check=check)


def test_the_smallest_check_shows_an_exact_copy() -> None:
    assert lb.audit(SMALL, (100,), check=408).verdict == "exact copy"


@pytest.mark.parametrize(("low", "high", "verdict", "said"), [
    (0.02, 0.04, "no copy", "no attack made a copy"), (0.004, 0.02, "open", "it is open whether a copy answers like the model"),
    (0.004, 0.009, "copy", "an outsider holds a copy")])
def test_a_copy_that_may_be_one_is_neither_a_copy_nor_none(low: float, high: float, verdict: str, said: str) -> None:
    """Between its bounds the matter is open; so are the quota and the budgets that "were not enough"."""
    found = lb.audit(SMALL, (20,))
    rows = tuple(found.rows[0]._replace(budget=b, queries=b, error_low=low, error=0.009, error_high=high) for b in (800, 2000))
    changed = replace(found, rows=rows)
    assert changed.verdict == verdict and said in headline(changed)
    assert changed.quota == {"no copy": 5, "open": 0, "copy": 2}[verdict]
    assert (">open</span>" in changed.render("html")) == (verdict == "open") and changed.render("json")


def test_a_seed_may_be_of_any_size() -> None:
    assert lb.audit(SMALL, (20,), rng=10**30).rows[0].way == "surrogate"


def test_budgets_of_less_than_a_year_leave_the_quota_open() -> None:
    found = lb.audit(SMALL, (20,))
    assert found.quota == 0 and quota_sentence(found).startswith("No daily quota was measured: 20 queries were not enough")
    assert "<figure>" in found.render("html")
    nothing = replace(found, rows=tuple(row._replace(error_high=np.inf) for row in found.rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of an empty drawing
        assert "<figure>" not in nothing.render("html")


class AnswersToAnything:
    """A black box with every attribute that it is asked for."""

    def __call__(self, x: Array) -> Array:
        return SMALL(x)

    def __getattr__(self, name: str) -> AnswersToAnything:
        return self


@pytest.mark.parametrize("kind", [Mock(side_effect=lambda x: SMALL(x)), AnswersToAnything()], ids=["mock", "any name"])
def test_an_object_that_answers_to_any_name_is_a_function(kind: Any) -> None:
    assert lb.audit(kind, (100,), dim=3).verdict == "exact copy"
