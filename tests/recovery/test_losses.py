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


def test_few_groups_say_little_and_one_says_nothing():
    """Four groups, of which three are fitted: error bars are Student's with two degrees of freedom, and structure cannot show."""
    _, x, y = planted("squared", n=600)
    few, one, apart = (
        lb.recover(x, y, width=1, activation="relu", rng=0, groups=np.arange(600) % count).certificate for count in (4, 2, 600))
    assert few.verdict == one.verdict == "doubtful"
    assert "structure left in the residual" in {check.name for check in few.checks if not check.passed}
    assert np.isinf(one.standard_errors.readout).all()
    assert np.isfinite(few.standard_errors.readout).all()
    assert apart.verdict == "verified"


@pytest.mark.parametrize("seed", [2, 4])
def test_a_wider_network_does_not_beat_a_right_one_by_a_single_fresh_group(seed):
    """It gains in all of the few groups that it was fitted to: how much it may lose in another is no less than that."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(800, 3))
    y = 2.0 * np.maximum(x[:, 1] + 0.2 * x[:, 0], 0.0) + 0.3 * rng.normal(size=800)
    found = lb.recover(x, y, groups=np.arange(800) % 10, activation="relu", width=1, rng=seed)
    assert found.certificate.verdict == "doubtful"
    assert [check.name for check in found.certificate.checks if not check.passed] == ["structure left in the residual"]


@pytest.mark.parametrize(("loss", "draw"), [
    ("poisson", lambda eta, size, rng: rng.poisson(size * np.exp(eta))),
    ("bernoulli", lambda eta, size, rng: rng.binomial(size, 1.0 / (1.0 + np.exp(-eta))))])
def test_rates_and_shares_vary_less_than_counts_and_labels(loss, draw):
    """Rates with exposures as weights, shares with numbers of trials: known better than single counts or labels are."""
    rng = np.random.default_rng(0)
    x, size = rng.normal(size=(1500, 3)), rng.integers(1, 50, 1500)
    rates = draw(0.8 * np.maximum(x[:, 1], 0.0) - 0.4, size, rng) / size
    found = lb.recover(x, rates, loss=loss, activation="relu", sample_weight=size)
    cert = found.certificate
    assert cert.verdict == "verified" and found.network.width == 1
    assert cert.noise < 0.5  # the root of the dispersion, 1 for counts: about 1 / √25
    assert abs(found.network.readout[0] - 0.8) < 4.0 * cert.standard_errors.readout[0] < 0.2
