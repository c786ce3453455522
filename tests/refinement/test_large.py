"""784-32-1 networks: the sizes that the matrix-free solver is for. Minutes each."""

from __future__ import annotations

import time

import numpy as np
import pytest

import laybare as lb
from laybare.assembly.unfold import unfold
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import Search, over_wide, total_variation

pytestmark = pytest.mark.slow

SIGN_FREE = Model(lb.absolute, biases=True, offset=True, linear=True)


def large(samples, rng, dim=784, width=32):
    rows = rng.standard_normal((width, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    readout = rng.uniform(0.5, 1.5, width) * rng.choice([-1.0, 1.0], width)
    truth = lb.Network(lb.Layer(rows, rng.uniform(-1.0, 1.0, width), lb.relu), readout)
    x = rng.standard_normal((samples, dim))
    return truth, lb.Samples(x, truth(x), law=lb.Gaussian(0, 1))


def test_from_cosine_nine_tenths(rng):
    truth, source = large(76_000, rng)
    rows = truth.layer.weights
    aside = rng.standard_normal(rows.shape)
    aside -= np.sum(aside * rows, axis=1)[:, None] * rows
    aside /= np.linalg.norm(aside, axis=1)[:, None]
    start = SIGN_FREE.start(np.column_stack([0.9 * rows + np.sqrt(0.19) * aside, np.zeros(32)]), 1)
    begun = time.process_time()
    refined = minimise(source, start, total_variation(source))
    found = unfold(network_of(refined.point, vector=True), lb.relu)
    print(f"{time.process_time() - begun:.0f} CPU s\n{refined.trace}")
    assert lb.compare(found.network, truth).max_error < 1e-10


@pytest.mark.parametrize("case", range(3))
def test_from_random_directions_with_sixteen_spares(case, seed):
    rng = np.random.default_rng([seed, case])
    truth, source = large(2**17, rng)
    refined = over_wide(source, SIGN_FREE, 32, search=Search(spares=16, hops=0), rng=rng)
    found = unfold(network_of(refined.point, vector=True), lb.relu)
    print(refined.trace)
    assert lb.compare(found.network, truth).max_error < 1e-8
