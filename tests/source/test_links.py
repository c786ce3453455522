"""Probabilities become log-odds; what saturates or is no probability is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.source.oracle.links import Logit, Softmax, are_probabilities, hard_label_error

pytestmark = pytest.mark.usefixtures("unchecked")


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def sigmoid(z: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("rows", [1, 500])
def test_probabilities_are_recognised_and_turned_into_log_odds(classes: int, rows: int, seed: int) -> None:
    net = lb.random_network(4, 6, outputs=classes, rng=seed)
    oracle = lb.Oracle(lambda x: softmax(net(x)), 4, budget=2000, rng=seed)
    x = np.random.default_rng(seed).standard_normal((rows, 4))
    z = net(x)
    assert_allclose(oracle.ask(x), z[:, 1:] - z[:, :1], atol=1e-12)
    assert oracle.outputs == classes - 1
    assert "recognised as probabilities" in oracle.remarks[0]


@pytest.mark.parametrize("name", ["softmax", "logit"])
def test_the_two_links_agree_on_two_classes(name: str, seed: int) -> None:
    net = lb.random_network(3, 4, rng=seed)
    x = np.random.default_rng(seed).standard_normal((50, 3))
    both = lb.Oracle(lambda x: np.stack([1 - sigmoid(net(x)), sigmoid(net(x))], axis=1), 3, link=name)
    one = lb.Oracle(lambda x: sigmoid(net(x)), 3, link="logit")
    assert_allclose(both.ask(x)[:, 0], net(x), atol=1e-12)
    assert_allclose(one.ask(x)[:, 0], net(x), atol=1e-12)


def test_back_is_the_way_back(rng: np.random.Generator) -> None:
    p = softmax(rng.standard_normal((30, 4)))
    assert_allclose(Softmax().inverse(Softmax()(p)), p[:, 1:], atol=1e-15)
    assert_allclose(Logit().inverse(Logit()(p)), p, atol=1e-15)


def test_other_answers_are_left_alone(rng: np.random.Generator) -> None:
    assert not are_probabilities(rng.standard_normal((1, 2)))
    assert not are_probabilities(rng.random((100, 3)))
    assert not are_probabilities(rng.random((100, 1)))  # one column in [0, 1] may be anything
    assert not are_probabilities(np.array([[0.4, 0.5995]]))  # near one by chance
    oracle = lb.Oracle(lambda x: np.stack([x[:, 0], 1 - x[:, 0]], axis=1), 1)
    x = rng.standard_normal((20, 1))
    assert_array_equal(oracle.ask(x)[:, 0], x[:, 0])
    assert oracle.remarks == ("Answers are taken as the outputs of the network.",)


def test_identity_leaves_probabilities_as_they_are(rng: np.random.Generator) -> None:
    p = softmax(rng.standard_normal((20, 3)))
    assert_array_equal(lb.Oracle(lambda x: p, 1, link="identity").ask(np.zeros((20, 1))), p)


def test_rounded_probabilities_are_recognised(rng: np.random.Generator) -> None:
    oracle = lb.Oracle(lambda x: np.round(softmax(x @ np.ones((2, 3)) * [1, 2, 3]), 4), 2)
    oracle.ask(0.1 * rng.standard_normal((20, 2)))
    assert "log-odds" in oracle.remarks[0]


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_saturated_probabilities_are_refused_with_the_way_out(precision: type) -> None:
    def box(x: Array) -> Array:
        p = sigmoid(30 * x[:, 0])
        return np.stack([1 - p, p], axis=1).astype(precision)

    oracle = lb.Oracle(box, 1)
    with pytest.raises(InvalidInput, match=r"0 or 1 to rounding.*Ask smaller inputs, for instance law=lb.Gaussian"):
        oracle.read(0, 100)
    points = np.array([[0.1], [5.0], [-0.2]])
    answers = oracle.ask(points, gaps=True)
    assert_allclose(answers[[0, 2]], 30 * points[[0, 2]], rtol=1e-4)
    assert np.isnan(answers[1])
    assert oracle.answered("chosen").size == 2
    with pytest.raises(InvalidInput, match="to query 1"):
        oracle.ask(points)
    smaller = lb.Oracle(box, 1, law=lb.Gaussian(0, 0.01), budget=2000)
    assert_allclose(smaller.read(0, 2000).y, 30 * smaller.read(0, 2000).x, atol=1e-3)  # 6e-8 / (p (1 - p)), |log-odds| < 9


@pytest.mark.parametrize("link", ["softmax", "logit"])
def test_what_is_no_probability_is_refused(link: str) -> None:
    with pytest.raises(InvalidInput, match="which are not probabilities"):
        lb.Oracle(lambda x: np.full((len(x), 3), 1.7), 1, link=link).ask(np.ones((2, 1)))


@pytest.mark.parametrize("labels", [
    lambda x: (x[:, 0] > 0).astype(int), lambda x: (x[:, :1] > 0).astype(np.int8), lambda x: np.eye(3)[(x[:, 0] > 0) * 1]])
def test_hard_labels_are_refused_unless_they_are_values(labels: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((20, 2))
    with pytest.raises(InvalidInput, match=r"look like classes.*which side of a boundary"):
        lb.Oracle(labels, 2).ask(x)
    assert lb.Oracle(labels, 2, link="identity").ask(x).shape[0] == 20


def test_words_are_refused_as_before(rng: np.random.Generator) -> None:
    with pytest.raises(InvalidInput, match="dtype <U3"):
        lb.Oracle(lambda x: np.where(x[:, 0] > 0, "yes", "no"), 1).ask(rng.standard_normal((5, 1)))
    assert hard_label_error(rng.random((20, 2))) is None


def test_unknown_links() -> None:
    with pytest.raises(InvalidInput, match="link is 'probit'"):
        lb.Oracle(np.sum, 2, link="probit")


def test_rounding_of_log_odds_is_that_of_the_probabilities(seed: int) -> None:
    net = lb.random_network(4, 6, outputs=3, rng=seed)
    oracle = lb.Oracle(lambda x: softmax(net(x)).astype(np.float32), 4, rng=seed)
    assert (oracle.rounding.kind, oracle.rounding.log_odds) == ("float32", True)
