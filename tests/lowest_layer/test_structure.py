"""Exponential blocks (Theorem 7), even units (Theorem 9), the biased oracle (B.7), from samples."""

from __future__ import annotations

import numpy as np
import pytest
from high_threshold_targets import planted, samples

import laybare as lb
from laybare.lowest_layer.printed.route import even_directions, retain_by_output
from laybare.lowest_layer.smooth_route import correlation_graph, correlation_matrix, disjoint_cliques, printed_graph
from laybare.moments import second_moment
from laybare.networks import max_angle
from laybare.planted import PlantedTarget, polynomial_top


def exponential_blocks(rng: np.random.Generator, rows: int) -> tuple[PlantedTarget, lb.Samples]:
    """Three blocks of four among twelve shuffled coordinates, ρ = 0.5, t = 2."""
    weights = np.kron(np.eye(3), np.ones((1, 4)))[:, rng.permutation(12)]
    target = PlantedTarget(lb.Layer(weights, np.full(3, -2.0), lb.exponential(0.5)), polynomial_top(3, 3, rng=rng))
    return target, samples(target, rows, rng)


def test_graph_of_log_outputs_is_exact(rng):
    target, source = exponential_blocks(rng, 3000)
    found = disjoint_cliques(correlation_graph(correlation_matrix(source)))
    assert {tuple(row) for row in found} == {tuple(row) for row in target.layer.weights}


def test_printed_graph_depends_on_a_threshold_in_the_wrong_units(rng):
    """α_ij ≥ ρ: no edge at all for these outputs, whose correlations are smaller than ρ."""
    _, source = exponential_blocks(rng, 30_000)
    assert not printed_graph(source, 0.5).any()


def test_graph_without_disjoint_cliques_is_refused():
    path = np.zeros((3, 3), dtype=bool)
    path[0, 1] = path[1, 0] = path[1, 2] = path[2, 1] = True
    with pytest.raises(lb.errors.NotSeparated, match="disjoint cliques"):
        disjoint_cliques(path)


def test_logarithm_of_negative_outputs_is_refused(rng):
    x = rng.standard_normal((100, 3))
    with pytest.raises(lb.errors.AssumptionViolated, match="not positive"):
        correlation_matrix(lb.Samples(x, x[:, 0]))


def test_even_units_from_samples(rng):
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0][:3]
    target = PlantedTarget(lb.Layer(Q, None, lb.absolute), polynomial_top(3, 2, rng=rng))
    found = even_directions(samples(target, 20_000, rng), 3, lb.absolute, starts=2, max_steps=30, rng=rng)
    signs = np.sign(np.sum(found[:, None] * Q[None], axis=2))
    best = np.abs(found @ Q.T).argmax(axis=1)
    assert max_angle(found * signs[np.arange(3), best][:, None], Q[best]) < 0.2
    assert len(set(best.tolist())) == 3


def test_biased_oracle_has_moments_of_f_over_its_mean(rng):
    """E_b[h] = E[f h]/E[f]: second moments of 60,000 rows; entries have a standard error of about 0.02."""
    source = samples(planted(lb.sigmoid, "bilinear", 3, 3, 3.0, rng), 60_000, rng)
    kept = retain_by_output(source, rng=rng)
    mean = source.sum(lambda x, y: (y.sum(axis=0),))[0][0] / source.size
    assert kept.size < source.size
    assert second_moment(kept)[0] == pytest.approx(second_moment(source)[0] / mean, abs=0.1)


def test_biased_oracle_needs_positive_outputs(rng):
    x = rng.standard_normal((100, 3))
    with pytest.raises(lb.errors.AssumptionViolated, match="negative"):
        retain_by_output(lb.Samples(x, x[:, 0]), rng=rng)
