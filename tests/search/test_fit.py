"""From a search on some of the rows to a fit on all: once, where some rows leave no doubt about the signs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.assembly.sign_decoding import sign_free_model
from laybare.search import network_fit as search
from laybare.search.settings import SearchContext
from laybare.source.problem import Problem, pose


@pytest.fixture
def noisy(rng: np.random.Generator) -> tuple[lb.Network, Problem]:
    truth = lb.random_network(6, 3, rng=rng)
    x = rng.standard_normal((12_000, 6))
    samples = lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(12_000))
    return truth, pose(samples, biases=True, rng=np.random.default_rng(0))


def found(problem: Problem) -> search.NetworkFit:
    model = sign_free_model(lb.relu, biases=True)
    context = SearchContext(problem.used, model, lb.RandomStart().search, problem.variation, np.random.default_rng(1))
    return search.find_fit(context, search.random_start(context, lb.relu, 3), 3, "random")


def error(fit: search.NetworkFit, truth: lb.Network, problem: Problem) -> float:
    return lb.compare(problem.given(fit.network), truth).max_error


def fits_to_all(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Activations of the fits to all rows."""
    seen: list[str] = []
    plain = search.minimise

    def minimise(source: Any, start: Any, scale: float, **named: Any) -> Any:
        seen.extend([start.activation.name] * (source is problem.used))
        return plain(source, start, scale, **named)

    monkeypatch.setattr(search, "minimise", minimise)
    return seen


def test_all_rows_are_fitted_once(noisy: tuple[lb.Network, Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    truth, problem = noisy
    seen = fits_to_all(problem, monkeypatch)
    fit = found(problem)
    assert seen == ["relu"]
    assert fit.searched is not None and fit.searched[1].rows < problem.used.size
    assert error(fit, truth, problem) < 0.05
    per_row = fit.searched[1].loss / problem.used.size
    assert per_row == pytest.approx(0.01, rel=0.15)  # as if all rows were like those that it has seen


def test_wrong_signs_are_found_out_by_all_rows(
    noisy: tuple[lb.Network, Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they were: a unit is missing, so that no nearby network fits. They are settled again, after a fit to all rows."""
    truth, problem = noisy
    seen, calls, plain = fits_to_all(problem, monkeypatch), [0], search.choose_signs

    def turned(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        network, claim = plain(*given, **named)
        if calls[0] > 1:
            return network, claim
        layer = network.layer
        wrong = lb.Layer(layer.weights[:2], layer.biases[:2], layer.activation)
        return lb.Network(wrong, network.readout[:2], network.offset), claim

    monkeypatch.setattr(search, "choose_signs", turned)
    fit = found(problem)
    assert calls == [2] and seen == ["relu", "absolute", "relu"]
    assert error(fit, truth, problem) < 0.05 and fit.searched is not None and fit.searched[1].rows == problem.used.size


def test_signs_that_some_rows_leave_open_are_settled_by_all(
    noisy: tuple[lb.Network, Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, problem = noisy
    seen, calls, plain = fits_to_all(problem, monkeypatch), [0], search.match_signs

    def open_at_first(*given: Any) -> Any:
        calls[0] += 1
        unfolded = plain(*given)
        signs = unfolded.signs
        if calls[0] == 1:
            object.__setattr__(signs, "alternatives", (signs.signs, -signs.signs))
        return unfolded

    monkeypatch.setattr(search, "match_signs", open_at_first)
    fit = found(problem)
    assert seen == ["absolute", "relu"] and calls == [2]
    assert error(fit, truth, problem) < 0.05


def test_a_narrower_fit_begins_with_all_rows(noisy: tuple[lb.Network, Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    truth, problem = noisy
    fit = found(problem)
    seen = fits_to_all(problem, monkeypatch)
    narrower = search.fit_narrower(problem, fit)
    assert seen == ["absolute", "relu"] and narrower.searched is not None and narrower.searched[1].rows == problem.used.size
    assert error(narrower, truth, problem) < 0.05
