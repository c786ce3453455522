"""Layers above a wide lowest one, from answers in float32: surfaces, orientation, the network."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import laybare as lb
from laybare.lines.folds import GivenLayer, read_coarse
from laybare.lines.folds.coarse_reader import CoarseReader, RowEstimates, orient, without_linear_part
from laybare.lines.folds.coarse_surface import CoarseDomain, CoarseOptions, CoarseSurface
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.hyperplanes import SlopesAcross, usable_line
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import QueryContext, QueryCounter

ERROR = 1e-6


def drawn(sizes, seed):
    """RowEstimates N(0, 2 / fan-in), biases 0.5 N(0, 1), readouts N(0, 1 / width)."""
    rng = np.random.default_rng(seed)
    layers = [
        lb.Layer(rng.normal(size=(k, d)) * np.sqrt(2.0 / d), 0.5 * rng.normal(size=k))
        for d, k in pairwise(sizes[:-1])]
    readout = rng.normal(size=(sizes[-2], sizes[-1])) / np.sqrt(sizes[-2])
    return lb.Network(layers, readout, rng.normal(size=sizes[-1]))


def in_float32(network):
    """The network as float32 computes it."""
    parts = [(layer.weights.astype(np.float32), layer.biases.astype(np.float32)) for layer in network.layers]

    def answer(x):
        h = np.asarray(x, dtype=np.float32)
        for weights, biases in parts:
            h = np.maximum(h @ weights.T + biases, np.float32(0.0))
        y = h @ network.readout.astype(np.float32) + network.offset.astype(np.float32)
        return np.asarray(y, dtype=float)

    return answer


def lowest(network, rng):
    """Its hyperplanes as lines give them: rows of length 1, up to an error, oriented at random; and which are turned around."""
    layer, turned = network.layers[0], rng.random(network.layers[0].width) < 0.5
    scale = np.where(turned, -1.0, 1.0) / np.linalg.norm(layer.weights, axis=1)
    weights = layer.weights * scale[:, None] + ERROR * rng.standard_normal(layer.weights.shape)
    return weights, layer.biases * scale, turned


def context_of(network, rng):
    queries = QueryCounter(in_float32(network), budget=10**6)
    rounding = check_piecewise_linear(queries, usable_line(queries, network.dim, 1.0, rng=rng)).rounding
    return QueryContext(queries, rounding, rng)


def reader_of(network, rng, **options):
    weights, biases, turned = lowest(network, rng)
    known = KnownLayers(network.dim, (weights,), (biases,))
    return CoarseReader(context_of(network, rng), known, np.full(len(biases), ERROR), 1.0, CoarseOptions(**options)), turned


def inputs_of(network, x):
    """z of every layer."""
    z, h = [], x
    for layer in network.layers:
        z.append(h @ layer.weights.T + layer.biases)
        h = np.maximum(z[-1], 0.0)
    return z


def share_on(network, level, x):
    """For every unit of a layer, how far places are from its surface in the median, relative to its size in the domain."""
    size = inputs_of(network, np.random.default_rng(0).standard_normal((500, network.dim)))[level].std(axis=0)
    return np.median(np.abs(inputs_of(network, x)[level]) / size, axis=0)


@pytest.mark.parametrize(("sizes", "seed"), [((5, 9, 4, 1), 702), ((4, 12, 12, 2), 700)])
def test_two_layers_are_read_in_float32_to_rounding(sizes, seed):
    truth, rng = drawn(sizes, seed), np.random.default_rng(seed)
    weights, biases, _ = lowest(truth, rng)
    found = read_coarse(context_of(truth, rng), GivenLayer(weights, biases), np.full(len(biases), ERROR))
    assert found.complete
    assert found.fresh <= found.limit
    assert [layer.width for layer in found.layers] == list(sizes[1:-1])
    x = np.random.default_rng(1).uniform(-2.0, 2.0, (2000, truth.dim))
    off = np.asarray(found.network(x)).reshape(len(x), -1) - np.asarray(truth(x)).reshape(len(x), -1)
    assert np.abs(off).max() <= 1e-5 * np.asarray(truth(x)).std()


def test_recover_reads_them_and_verifies():
    truth = drawn((5, 9, 4, 1), 704)
    found = lb.recover(lb.Oracle(in_float32(truth), 5, budget=100_000, rng=0), rng=0)
    assert found.certificate.verdict == "verified"
    assert lb.compare(found.network, lb.Network(truth.layers, truth.readout[:, 0], float(truth.offset[0]))).max_error < 1e-4


def test_surfaces_of_a_third_layer_are_refused():
    truth, rng = drawn((4, 8, 6, 6, 2), 710), np.random.default_rng(710)
    reader, _ = reader_of(truth, rng, most_lines=4)
    reader.read()
    assert len(reader.units) >= 4
    assert reader.refused >= 3
    for unit in reader.units:
        near = share_on(truth, 1, np.array(unit.x))
        assert near.min() < 1e-3
        assert share_on(truth, 2, np.array(unit.x)).min() > 10.0 * near.min()


def test_errors_of_a_row_are_within_its_error_bars():
    truth, rng = drawn((4, 8, 5, 2), 720), np.random.default_rng(720)
    reader, turned = reader_of(truth, rng, most_lines=3)
    reader.read()
    lengths = np.where(turned, -1.0, 1.0) * np.linalg.norm(truth.layers[0].weights, axis=1)
    seen = 0
    for unit in reader.units:
        m = int(np.argmin(share_on(truth, 1, np.array(unit.x))))
        right, found = truth.layers[1].weights[m] * np.abs(lengths), unit.row[:8]
        sd = np.sqrt(np.diag(unit.cov)[:8])
        told = sd < 0.01
        scale = (right[told] @ found[told]) / (right[told] @ right[told])
        assert np.abs(found - scale * right)[told].max() <= 6.0 * sd[told].max() + 1e-5
        assert unit.rms < CoarseOptions.max_rms
        seen += told.sum()
    assert seen > 8 * len(reader.units) / 2


def test_a_weight_whose_unit_the_surface_never_meets_stays_open():
    """The surface meets the third unit of the lowest layer, never the first, and the second is far beyond the domain."""
    low = lb.Layer(np.eye(2)[[0, 1, 1]], np.array([0.0, -500.0, 0.3]))
    truth = lb.Network((low, lb.Layer([[-1.0, 1.0, 0.7]], [0.2])), np.array([[1.0]]), np.zeros(1))
    rng = np.random.default_rng(3)
    context = context_of(truth, rng)
    known = KnownLayers(2, (low.weights,), (low.biases,))
    reader = CoarseReader(context, known, np.full(3, 1e-9), 1.0, CoarseOptions(most_lines=3))
    reader.read()
    assert len(reader.units) == 1
    sd = np.sqrt(np.diag(reader.units[0].cov)[:3])
    assert sd[:2].min() > 0.9 * CoarseOptions.prior
    assert sd[2] < 1e-2


def test_pairs_of_places_tell_false_hyperplanes_from_true_ones():
    """All units of the lowest layer bend far away but two, so that surfaces of the second are flat over most of the domain."""
    rng = np.random.default_rng(5)
    low, far, top = rng.normal(size=(6, 4)) / 2.0, np.array([0.2, -0.3, 3.0, 2.5, 3.0, 2.5]), rng.normal(size=(3, 6))
    on = far > 0.0
    truth = lb.Network((lb.Layer(low, far), lb.Layer(top, -top @ (far * on))), rng.normal(size=(3, 2)), np.zeros(2))
    weights, biases, _ = lowest(truth, rng)
    false = top @ (low * on[:, None])  # through 0, as long as no unit changes its side
    false /= np.linalg.norm(false, axis=1, keepdims=True)
    known = KnownLayers(4, (np.vstack([weights, false]),), (np.concatenate([biases, np.zeros(3)]),))
    reader = CoarseReader(context_of(truth, rng), known, np.full(9, ERROR), 1.0)
    assert reader.drop_false_hyperplanes() == 3
    assert np.abs(reader.known.weights[0] - weights).max() == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_orientation_weighs_rows_by_their_errors(seed):
    """Two rows, one of them with a weight that is open and far off: its equation must not decide."""
    rng = np.random.default_rng(seed)
    weights, turned = rng.normal(size=(8, 5)), rng.random(8) < 0.5
    turned[3] = True
    c = rng.normal(size=(6, 8))
    linear = -np.einsum("mk,k,kj->mj", c, turned, weights)
    values = np.hstack([c, linear, np.zeros((6, 1))])
    cov = np.repeat(1e-8 * np.eye(14)[None], 6, axis=0)
    values[0, 3] += 1.5
    cov[0, 3, 3] = 4.0
    bits = orient(RowEstimates(values, cov), weights, np.full(8, 1e-6))
    assert (bits.turned == turned).all()
    assert bits.misfit < 3.0
    assert orient(RowEstimates(values, np.repeat(cov[1:2], 6, axis=0)), weights, np.full(8, 1e-6)).misfit > 10.0
    right = without_linear_part(RowEstimates(values, cov), weights, np.zeros(8), np.full(8, 1e-6), bits.turned.astype(float))
    assert np.abs(right.values[:, :8] - c)[1:].max() < 1e-3


def test_a_wrong_normal_is_refused():
    truth, rng = drawn((4, 8, 5, 2), 730), np.random.default_rng(730)
    reader, _ = reader_of(truth, rng)
    for _ in range(20):
        profile = reader._profile(usable_line(reader.context.queries, 4, 1.0, rng=rng))
        place = next((
            i for i, kink in enumerate(profile.kinks if profile else ())
            if not reader.is_explained(profile.line(kink.t)[0], profile.line.direction, kink.sd) and abs(kink.t) < 4.0), None)
        rough = None if place is None else SlopesAcross(reader.context, profile).rough_hyperplane(place)
        if rough is not None:
            break
    normal = rough.normal + 0.3 * rng.standard_normal(4)
    wrong = rough._replace(normal=normal / np.linalg.norm(normal), normal_sd=1e-3)
    x = profile.line(profile.kinks[place].t)[0]
    domain = CoarseDomain(reader.context, reader.known, reader.errors, 1.0, 3.0, CoarseOptions())
    surface = CoarseSurface(domain, wrong, x)
    assert not (surface.explore() and surface.is_supported())


def test_an_ended_budget_keeps_the_layers_that_were_read():
    truth, rng = drawn((5, 9, 4, 1), 702), np.random.default_rng(702)
    weights, biases, _ = lowest(truth, rng)
    context = context_of(truth, rng)
    context.queries.budget = context.queries.total + 2500
    found = read_coarse(context, GivenLayer(weights, biases), np.full(len(biases), ERROR))
    assert found.ended
    assert not found.complete
    assert found.network is None
    assert [layer.width for layer in found.layers][:1] == [9]
    assert 1 < len(found.layers[1].weights) <= 4
    assert "queries" in found.failure
