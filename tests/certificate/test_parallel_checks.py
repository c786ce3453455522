"""The parts of a certificate at once: the same numbers, errors passed on, one after the other where a journal is kept."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import laybare as lb
from laybare.certificate import fitted_network, verification


@pytest.fixture
def noisy(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    truth = lb.random_network(5, 3, rng=rng)
    x = rng.standard_normal((1500, 5))
    return x, truth(x) + 0.1 * rng.standard_normal(1500)


def threads_of(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Threads that look for a unit less."""
    seen: set[int] = set()
    plain = verification.one_unit_fewer_claim
    monkeypatch.setattr(verification, "one_unit_fewer_claim", lambda *given: seen.add(threading.get_ident()) or plain(*given))  # type: ignore[func-returns-value]
    return seen


def test_the_same_claims_at_once_and_one_after_the_other(
    noisy: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threads_of(monkeypatch)
    alone = lb.recover(lb.Samples(*noisy), width=3, rng=0).certificate
    assert seen == {threading.get_ident()}
    seen.clear()
    monkeypatch.setattr(fitted_network, "ROWS", replace(fitted_network.ROWS, parallel_cost=0.0))
    for workers in (1, 2, 3):
        found = lb.recover(lb.Samples(*noisy, schedule=lb.source.Schedule(workers=workers)), width=3, rng=0).certificate
        assert found.claims == alone.claims
        np.testing.assert_array_equal(found.standard_errors.weights, alone.standard_errors.weights)
    assert len(seen) > 1


def test_an_error_in_one_part_is_raised(noisy: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> None:
        raise lb.LaybareError("Seen.", "Why.", "What to do.")

    monkeypatch.setattr(fitted_network, "ROWS", replace(fitted_network.ROWS, parallel_cost=0.0))
    monkeypatch.setattr(verification, "one_unit_fewer_claim", fails)
    with pytest.raises(lb.LaybareError, match="Seen"):
        lb.recover(lb.Samples(*noisy, schedule=lb.source.Schedule(workers=2)), width=3, rng=0)


def test_a_journal_sees_one_pass_after_the_other(
    noisy: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fitted_network, "ROWS", replace(fitted_network.ROWS, parallel_cost=0.0))
    seen = threads_of(monkeypatch)
    lb.recover(lb.Samples(*noisy, schedule=lb.source.Schedule(workers=2)), width=3, rng=0, checkpoint=tmp_path)
    assert seen == {threading.get_ident()}
