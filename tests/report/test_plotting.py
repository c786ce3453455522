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
    drawn = found.plot.distances(ax=ax).lines[0]
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
    titles = [axes.get_title() for axes in found.plot()]
    assert "weights of layer 1" in titles
    assert "where units bend" in titles
    assert any("standard error" in title for title in titles)


def test_what_is_not_there_is_refused(found):
    net = lb.random_network(3, widths=(3, 2), activation=lb.tanh, rng=0)
    deep = lb.Recovery(net, net, CERTIFICATE, None, 1.0, 1, ())
    assert deep.plot.weights(layer=2).images[0].get_array().shape == (2, 3)
    for draw, sentence in (
            (deep.plot.distances, "3-3-2-1 with tanh units"), (deep.plot.convergence, "no steps"),
            (lambda: deep.plot.weights(layer=3), r"layer=3\. The network has 2")):
        with pytest.raises(lb.errors.InvalidInput, match=sentence):
            draw()


@pytest.fixture(scope="module")
def hinges():
    """Three columns in units of their own, two hinges, noise; the third column does nothing."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({
        "age": rng.normal(50, 12, 800), "dose": rng.normal(3, 1, 800), "cost$": rng.normal(7, 2, 800)})
    y = 2 * np.maximum(table["dose"] - 3, 0) - 0.1 * np.maximum(table["age"] - 55, 0) + 0.1 * rng.normal(size=800)
    return table, y, lb.recover(table, y.rename("effect"), rng=0)


def test_one_figure_a_call_and_its_axes_come_back(hinges):
    *_, found = hinges
    for kind, panels in (("effects", 3), ("units", 2), ("kinks", 3), ("residuals", 2), (None, 4)):
        pyplot.close("all")
        axes = found.plot(kind=kind)
        assert len(axes) == panels
        assert pyplot.get_fignums() == [axes[0].figure.number]
    assert found.plot(kind="weights").figure.number in pyplot.get_fignums()


def test_effect_of_a_column_is_what_the_network_gains_along_it(hinges):
    *_, found = hinges
    axes = found.plot(kind="effects", columns=["dose"])[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dose", "effect on effect")
    line = axes.lines[-1]
    values, effect = line.get_xdata(), line.get_ydata()
    beyond, before = values > 3.2, values < 2.8
    assert_allclose(np.diff(effect[beyond]) / np.diff(values[beyond]), 2.0, rtol=0.05)
    assert np.ptp(effect[before]) < 0.1
    rows = found.profile.rows.x[:200]
    moved = np.column_stack([rows[:, 0], np.full(200, values[-1]), rows[:, 2]])
    assert_allclose(effect[-1], found(moved).mean() - found(rows).mean())
    (band,) = [part for part in axes.collections if len(part.get_paths())]
    assert band.get_paths()[0].get_extents().ymax > effect.max()  # the band lies around the line


def test_a_unit_bends_where_the_summary_says(hinges):
    *_, found = hinges
    for axes, unit in zip(found.plot(kind="units"), found.summary().units, strict=True):
        assert f"{unit.leading} = {unit.location}" in axes.get_title()
        added = axes.lines[-1]
        gained = np.abs(np.diff(added.get_ydata()))
        bend = added.get_xdata()[:-1][gained > 1e-12]
        edge = bend[0] if unit.before[0].value == 0.0 and unit.terms[0].direction.value > 0 else bend[-1]
        assert abs(edge - unit.location.value) < np.diff(added.get_xdata())[0] * 1.01
    assert len(found.plot(kind="units", units=[2])) == 1


def test_kinks_are_drawn_over_the_pairs_that_are_asked_for(hinges):
    *_, found = hinges
    axes = found.plot(kind="kinks", pairs=[("dose", "age"), (0, "cost$")])
    assert [(one.get_xlabel(), one.get_ylabel()) for one in axes] == [("dose", "age"), ("age", r"cost\$")]
    dose = next(unit for unit in found.summary().units if unit.leading == "dose")
    labels = {text.get_text() for text in axes[0].texts}
    assert labels == {"1", "2"} and str(dose.number) in labels


def test_a_single_column_is_drawn_with_its_fit():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (400, 1))
    found = lb.recover(x, np.maximum(x[:, 0] - 4, 0) + 0.1 * rng.normal(size=400), rng=0)
    (axes,) = found.plot(kind="kinks")
    fit = axes.lines[-1]
    assert_allclose(fit.get_ydata(), found(fit.get_xdata()[:, None]))


@pytest.mark.parametrize("kind", ["units", "effects"])
def test_counts_are_drawn_as_bins_of_rows(kind):
    """A fit that misses a factor of two in the mean has all bins log 2 above its line, one step of the solver: 2 - 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    found = lb.recover(x, rng.poisson(np.exp(1.0 + 0.8 * np.maximum(x[:, 0], 0))).astype(float), loss="poisson", rng=0)
    y = rng.poisson(2.0 * np.exp(found(x)))
    for axes in found.plot(kind=kind, x=x, y=y):
        line = next(one for one in axes.lines if one.get_linestyle() == "-" and len(one.get_xdata()) == 60)
        bins = np.array([[part.lines[0].get_xdata()[0], part.lines[0].get_ydata()[0]] for part in axes.containers])
        assert len(bins) == 12
        inside = bins[(bins[:, 0] > line.get_xdata()[0]) & (bins[:, 0] < line.get_xdata()[-1])]
        above = inside[:, 1] - np.interp(inside[:, 0], line.get_xdata(), line.get_ydata())
        assert_allclose(above, 1.0, atol=0.25)


def test_residuals_are_those_of_the_rows_that_are_given(hinges):
    table, y, found = hinges
    left, right = found.plot(kind="residuals", x=table, y=y + 1.0)
    assert_allclose(left.lines[-1].get_ydata(), y + 1.0 - found(table.to_numpy()))
    assert_allclose(np.sort(right.lines[-1].get_ydata()), right.lines[-1].get_ydata())


def test_pictures_that_cannot_be_drawn_say_why(hinges, tmp_path):
    *_, found = hinges
    found.save(tmp_path / "found.safetensors")
    loaded = lb.load(tmp_path / "found.safetensors")
    net = lb.random_network(3, widths=(3, 2), rng=0)
    deep = lb.Recovery(net, net, CERTIFICATE, None, 1.0, 1, ())
    x = np.zeros((4, 3))
    for draw, sentence in (
            (lambda: loaded.plot(kind="effects"), "no rows of the data"), (lambda: found.plot(kind="effect"), "kind is 'effect'"),
            (lambda: found.plot(kind="effects", columns=["dos"]), "no column 'dos'"),
            (lambda: found.plot(kind="units", units=[3]), r"units=\[3\]"),
            (lambda: found.plot(kind="units", output=1), "output=1"),
            (lambda: found.plot(kind="residuals", x=x), "x without y"), (lambda: deep.plot(kind="units", x=x), "3-3-2-1")):
        with pytest.raises(lb.errors.InvalidInput, match=sentence):
            draw()
    assert len(deep.plot(kind="effects", x=np.eye(3))) == 3
