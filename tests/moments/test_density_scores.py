"""Score moments: Stein's identity for normal and other inputs, and refusals."""

from __future__ import annotations

from functools import reduce
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.moments import HermiteMoments, independent_score, measure, score_moments
from laybare.source import Affine


class ScoredLaw:
    """Inputs as they are; scores of one coordinate given."""

    def __init__(self, *scores) -> None:
        self.scores = scores

    def check(self, dim: int) -> None:
        pass

    def whitening(self, source) -> Affine:
        return Affine.identity(source.dim)

    def white(self):
        return self

    complete = white

    def draw(self, rows, dim, rng):
        return rng.logistic(size=(rows, dim))

    def score(self, x, order):
        return independent_score([score(x) for score in self.scores[:order]])


def normal() -> ScoredLaw:
    return ScoredLaw(lambda t: t, lambda t: t**2 - 1, lambda t: t**3 - 3 * t)


def logistic() -> ScoredLaw:
    def of(polynomial):
        return lambda t: polynomial(np.tanh(t / 2))
    return ScoredLaw(of(lambda u: u), of(lambda u: (3 * u**2 - 1) / 2), of(lambda u: 3 * u**3 - 2 * u))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_scores_of_normal_inputs_are_hermite_tensors(order, rng) -> None:
    truth = lb.random_network(4, 3, outputs=2, rng=0)
    x = rng.standard_normal((500, 4))
    by_score = score_moments(lb.Samples(x, truth(x), law=normal()), order)
    assert_allclose(by_score, measure(lb.Samples(x, truth(x)), HermiteMoments(order)).tensor(order), atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_stein_for_logistic_inputs(order, rng) -> None:
    """f = (w·x)^k: the k-th derivative is k! w⊗…⊗w. 4 sigma of the mean, from the spread of the summands."""
    w = np.array([0.6, -0.8])
    x = logistic().draw(200_000, 2, rng)
    y = (x @ w) ** order
    found = score_moments(lb.Samples(x, y, law=logistic()), order)[0]
    exact = factorial(order) * reduce(np.multiply.outer, [w] * order)
    spread = np.std(y.reshape(-1, *(1,) * order) * logistic().score(x, order), axis=0)
    assert (np.abs(found - exact) < 4 * spread / np.sqrt(len(x))).all()


def test_components_are_the_weights_where_hermite_moments_are_wrong(rng) -> None:
    """Third moments of a tanh network on logistic inputs: by the score they have rank one, by He₃ they do not."""
    truth = lb.Network(lb.Layer(np.array([[0.5, -0.4]]), None, lb.tanh), np.ones(1))
    x = logistic().draw(200_000, 2, rng)
    source = lb.Samples(x, truth(x), law=logistic())
    by_score = score_moments(source, 3)[0].reshape(2, 4)
    by_hermite = measure(source, HermiteMoments(3)).tensor(3)[0].reshape(2, 4)
    ratio = [np.divide(*np.linalg.svd(each)[1][::-1]) for each in (by_score, by_hermite)]
    assert ratio[0] < 0.1 < ratio[1]


def test_start_sees_inputs_as_the_law_wants_them() -> None:
    seen = {}

    class Looking:
        activation, biases, search, width = lb.relu, True, None, 1

        def start(self, source, width, *, rng, progress=None):
            seen["x"] = source.read(0, source.size).x.copy()
            return lb.Start(lb.Network(lb.Layer(np.eye(2)[:1], np.zeros(1), lb.relu), np.ones(1)))

    x = 5 + 3 * np.random.default_rng(0).standard_normal((100, 2))
    lb.recover(lb.Samples(x, np.maximum(x[:, 0], 5.0), law=logistic()), Looking(), 1, rng=0)
    assert {tuple(row) for row in seen["x"]} <= {tuple(row) for row in x}


def test_a_law_without_a_score_and_a_score_of_another_shape_are_refused(rng) -> None:
    x = rng.standard_normal((20, 2))
    with pytest.raises(lb.errors.InvalidInput, match="has no score"):
        score_moments(lb.Samples(x, x[:, 0]), 2)
    flat = logistic()
    flat.score = lambda x, order: x
    with pytest.raises(lb.errors.InvalidInput, match="one tensor per row"):
        score_moments(lb.Samples(x, x[:, 0], law=flat), 2)
    with pytest.raises(lb.errors.InvalidInput, match="order 1 to 3"):
        independent_score([x] * 4)
