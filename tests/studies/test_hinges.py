"""Planted hinges: what counts as covered, and what of it the table adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import laybare as lb
from laybare.studies import hinges
from laybare.studies.hinges import HINGES, HingeRun, count_covered, count_predicted, draw_problem, run_problem


@pytest.fixture(scope="module")
def problem():
    return draw_problem(2, 3)


def test_the_truth_is_the_function_in_the_users_columns(problem):
    assert problem.x.shape[1] == problem.truth.dim == len(problem.scales)
    assert np.allclose(problem.truth(problem.fresh), problem.means, rtol=1e-9, atol=1e-9 * problem.means.std())
    noise = problem.y - problem.truth(problem.x)
    assert 0.04 < noise.std() / problem.means.std() < 0.6
    assert 300 <= len(problem.x) <= 20_000


def test_an_interval_covers_the_network_it_is_around_and_not_one_far_away(problem):
    found = lb.recover(problem.x, problem.y, activation="relu", rng=0)
    k, d = found.network.layer.weights.shape
    own = problem._replace(truth=found.network)
    assert count_covered(found, own) == ((k, k), (k * d, k * d))
    layer = found.network.layer
    biases = np.array(layer.biases)
    biases[0] += 3.0 * found.certificate.standard_errors.biases[0]
    moved = problem._replace(truth=lb.Network(replace(layer, biases=biases), found.network.readout, found.network.offset))
    (locations, _), (directions, _) = count_covered(found, moved)
    assert locations == k - 1 and directions == k * d


def test_predictions_cover_the_network_itself_and_answers_with_its_noise(problem):
    found = lb.recover(problem.x, problem.y, activation="relu", rng=0)
    own = problem._replace(means=found.network(problem.fresh))
    assert count_predicted(found, own)[0] == (20_000, 20_000)
    far = problem._replace(answers=problem.answers + 10.0 * problem.y.std())
    assert count_predicted(found, far)[1][0] < 100
    (covered, of) = count_predicted(found, problem)[1]
    assert 0.9 < covered / of < 0.99  # 95 % with an sd of 1.3 % over the rows that were held out


def test_a_refusal_is_a_run_without_intervals(monkeypatch):
    def refused(*given, **named):
        raise lb.LaybareError("Seen.", "Why.", "What to do.")

    monkeypatch.setattr(hinges, "recover", refused)
    monkeypatch.setattr(hinges, "_train_mlp", lambda problem, seed: (1.0, 0.5))
    run = run_problem(1, 0)
    assert run[:7] == ("refused", False, False, (0, 0), (0, 0), (0, 0), (0, 0))


def test_the_table_tells_verified_networks_from_others():
    runs = {2: [
        HingeRun("verified", True, True, (2, 2), (5, 6), (9, 10), (10, 10), 1.0, 2.0, 1e-4, 1e-3),
        HingeRun("doubtful", True, True, (0, 2), (3, 6), (1, 10), (9, 10), 1.0, 2.0, 1e-4, 1e-3),
        HingeRun("verified", False, True, (0, 0), (0, 0), (8, 10), (9, 10), 3.0, 2.0, 1e-4, 1e-3)]}
    result = HINGES.summary(HINGES.quick, runs)
    (row,) = result.rows
    assert (row.problems, row.verified, row.verified_with_right_number, row.right_number) == (3, 2, 1, 2)
    assert (row.locations_covered, row.all_locations_covered) == (1.0, 0.5)
    assert row.directions_covered == pytest.approx(5 / 6) and row.all_directions_covered == pytest.approx(8 / 12)
    assert row.means_covered == pytest.approx(17 / 20) and row.all_means_covered == pytest.approx(18 / 30)
    assert row.answers_covered == pytest.approx(19 / 20) and row.verified_as_far_as_seen == 2
    assert "right number of kinks in 1 of them; 1 lack" in result.sentence and "100.0% of 2 locations" in result.sentence
