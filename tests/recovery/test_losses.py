"""Networks behind counts, labels, heavy tails and weighted rows: found, judged, and with honest error bars."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb

LIMIT = 0.35
"""Largest error of a parameter of a unit that counts as found in a thousand rows or so: several standard errors."""


def planted(kind, seed=0, n=3000, dim=3):
    """A network of one unit with a clear readout, and rows of that kind."""
    rng = np.random.default_rng(seed)
    net = lb.Network(lb.Layer(lb.random_network(dim, 1, rng=seed).layer.weights, np.array([0.3])), np.array([1.5]), -0.4)
    x = rng.normal(size=(n, dim))
    eta = net(x)
    y = {
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "bernoulli": lambda: (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "huber": lambda: eta + 0.3 * rng.standard_t(2, size=n),
        "squared": lambda: eta + 0.3 * rng.normal(size=n)}[kind]()
    return net, x, y


@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "huber"])
def test_network_behind_the_loss_is_found_and_verified(kind):
    net, x, y = planted(kind, n=8000 if kind == "bernoulli" else 3000)  # a label tells less than a count
    found = lb.recover(x, y, loss=kind, width=1, rng=0)
    assert lb.compare(found.network, net).max_error < LIMIT
    assert found.certificate.verdict == "verified"
    assert found.loss.name == kind
    prediction = found.predict(x[:50])
    assert np.isfinite(prediction.mean).all()
    assert (prediction.lower <= prediction.upper).all()
    if kind == "bernoulli":
        assert ((prediction.mean > 0.0) & (prediction.mean < 1.0)).all()


def test_constant_rates_are_not_called_a_network():
    rng = np.random.default_rng(0)
    found = lb.recover(rng.normal(size=(1500, 3)), rng.poisson(2.0, size=1500).astype(float), loss="poisson", rng=0)
    assert found.certificate.verdict != "verified"


def test_weights_decide_between_two_networks():
    """Rows of another network with a ten-thousandth of the weight do not count."""
    net, x, y = planted("squared")
    _, other_x, other_y = planted("squared", seed=9, n=1000)
    weights = np.append(np.ones(len(x)), np.full(len(other_x), 1e-4))
    found = lb.recover(np.vstack([x, other_x]), np.append(y, other_y), sample_weight=weights, rng=0)
    assert lb.compare(found.network, net).max_error < LIMIT


def test_equal_weights_change_no_bit():
    _, x, y = planted("squared", n=600)
    one, other = lb.recover(x, y, rng=0), lb.recover(x, y, sample_weight=np.full(len(x), 3.0), rng=0)
    assert np.array_equal(one.network.layer.weights, other.network.layer.weights)


def test_groups_widen_error_bars_where_rows_are_dependent():
    """Every row ten times over with little noise of its own: as copies they tell no more than one."""
    net, x, y = planted("squared", n=400)
    rng = np.random.default_rng(1)
    many = np.repeat(x, 10, axis=0) + 1e-3 * rng.normal(size=(4000, 3))
    labels = net(many) + np.repeat(y - net(x), 10)
    apart, together = (
        lb.recover(many, labels, width=1, rng=0, sample_weight=weights, groups=groups).certificate.standard_errors.readout[0]
        for weights, groups in ((np.tile([1.0, 1.01], 2000), None), (None, np.repeat(np.arange(400), 10))))
    assert 2.0 < together / apart < 5.0  # √10 in theory


@pytest.mark.parametrize(("arguments", "sentence"), [
    ({"loss": "poisson", "method": lb.TensorInit()}, "search from random units"),
    ({"sample_weight": [-1.0] * 600}, "not negative"), ({"sample_weight": [1.0]}, "one weight per row"),
    ({"groups": [1] * 600}, "at least two groups"),
    ({"groups": [np.nan, 1.0, 2.0] * 200}, "none missing"), ({"groups": [None, "a"] * 300}, "none missing"),
    ({"loss": "median"}, "squared, huber"),
    ({"loss": "bernoulli"}, "labels 0 and 1")])
def test_misuse_is_refused(arguments, sentence):
    _, x, y = planted("squared", n=600)
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        lb.recover(x, y, **arguments)


def test_black_boxes_have_no_loss():
    with pytest.raises(lb.errors.InvalidInput, match="black box"):
        lb.recover(lb.Oracle(lb.random_network(2, 1, rng=0)), loss="poisson")


def test_interrupt_keeps_what_was_found():
    _, x, y = planted("poisson")
    found = lb.recover(x, y, loss="poisson", rng=0, seconds=1e-3)
    assert found.interrupted
    assert found.certificate.verdict == "doubtful"


def test_it_is_saved_with_its_loss(tmp_path):
    _, x, y = planted("poisson", n=800)
    found = lb.recover(x, y, loss="poisson", width=1, rng=0)
    found.save(tmp_path / "found.safetensors")
    again = lb.load(tmp_path / "found.safetensors")
    assert again.loss == found.loss
    assert np.array_equal(again.predict(x[:5]).mean, found.predict(x[:5]).mean)
