"""found.plot: what is drawn are the recovery's own numbers, on the axes that were given."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate import StandardErrors

mpl.use("agg")

from matplotlib import pyplot

CERTIFICATE = lb.Certificate((), StandardErrors(np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(())), 0.0)


@pytest.fixture(scope="module")
def pairs():
    truth = lb.random_network(5, 3, outputs=2, rng=0)
    x = np.random.default_rng(1).normal(size=(400, 5))
    return x, truth(x)


@pytest.fixture(scope="module")
def found(pairs):
    return lb.recover(*pairs, rng=0)


@pytest.fixture
def ax():
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_weights_and_their_standard_errors_are_maps(found, ax):
    assert found.plot.weights(ax=ax) is ax
    assert_allclose(ax.images[0].get_array(), found.network.layer.weights)
    errors = found.plot.standard_errors()
    drawn = 10.0 ** np.asarray(errors.images[0].get_array())
    assert_allclose(drawn, np.maximum(found.certificate.standard_errors.weights, 1e-17), rtol=1e-10)
    assert errors.figure is not ax.figure


def test_steps_of_the_solver(found, ax):
    (line,) = found.plot.convergence(ax=ax).lines
    assert_allclose(line.get_ydata(), np.maximum([row.loss for row in found.traces[0].rows], np.finfo(float).eps ** 2))
    assert ax.get_yscale() == "log"


def test_kinks_are_distances_and_changes_of_slope(ax):
    net = lb.Network(
        lb.Layer(np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([5.0, -1.0]), lb.leaky_relu(0.2)),
        np.array([1.0, -2.0]))
    found = lb.Recovery(net, net, CERTIFICATE, None, 1.0, 1, ())
    drawn = found.plot.kinks(ax=ax).lines[0]
    assert_allclose(drawn.get_xdata(), [-1.0, 0.5])
    assert_allclose(drawn.get_ydata(), [0.8 * 5, 0.8 * 4])


def test_residual_is_what_the_network_leaves(found, pairs, ax):
    x, y = pairs
    drawn = found.plot.residual(x, y + 1.0, ax=ax).lines[-1]
    assert_allclose(drawn.get_ydata(), np.ones(800), atol=1e-9)
    assert_allclose(drawn.get_xdata(), found(x).ravel())
    assert found.plot.residual(lb.Samples(x, y)).lines


def test_units_stand_out_of_the_spectrum(ax):
    truth = lb.random_network(6, 2, biases=0.0, readout="positive", rng=0)
    x = np.random.default_rng(1).normal(size=(20_000, 6))
    found = lb.Recovery(truth, truth, CERTIFICATE, None, 1.0, 1, ())
    sizes, noise = (line.get_ydata() for line in found.plot.spectrum(x, truth(x), ax=ax).lines)
    assert len(sizes) == 6
    assert sizes[1] > 3 * noise[0]  # two units; the noise is a draw of the largest of six eigenvalues
    assert sizes[2] < 3 * noise[0]


def test_all_that_needs_no_data_at_once(found):
    titles = [axes.get_title() for axes in found.plot().axes]
    assert "weights of layer 1" in titles
    assert "where units bend" in titles
    assert any("standard error" in title for title in titles)


def test_what_is_not_there_is_refused(found):
    net = lb.random_network(3, widths=(3, 2), activation=lb.tanh, rng=0)
    deep = lb.Recovery(net, net, CERTIFICATE, None, 1.0, 1, ())
    assert deep.plot.weights(layer=2).images[0].get_array().shape == (2, 3)
    for draw, sentence in (
            (deep.plot.kinks, "3-3-2-1 with tanh units"), (deep.plot.convergence, "no steps"),
            (lambda: deep.plot.weights(layer=3), r"layer=3\. The network has 2")):
        with pytest.raises(lb.errors.InvalidInput, match=sentence):
            draw()
