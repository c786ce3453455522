"""More units than inputs: exactly m units with the right signs, where a least-squares argument stops at m + 2."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb


@pytest.mark.parametrize(("width", "samples"), [(12, 800), (20, 1500), (30, 2400)])
def test_signs_beyond_the_dimension_are_decoded(width, samples, seed):
    """d = 8: eight equations for the signs, decoded uniquely whenever the fit is exact."""
    rng = np.random.default_rng([seed, width])
    truth = lb.random_network(8, width, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((samples, 8))
    found = lb.recover(lb.Samples(x, truth(x)), width=width, rng=rng)
    claim = next(claim for claim in found.certificate.checks if claim.name == "sign patterns that fit")
    assert lb.compare(found.network, truth).max_error < 1e-10
    assert claim.passed and found.network.width == width and found.network.linear is None


def test_several_outputs_give_more_equations(seed):
    """d = 4, 12 units, 3 outputs: twelve equations, so that signs are a linear system again."""
    rng = np.random.default_rng([seed, 4])
    truth = lb.random_network(4, 12, outputs=3, biases=0.4, bias_law="normal", rng=rng)
    x = rng.standard_normal((1200, 4))
    found = lb.recover(lb.Samples(x, truth(x)), width=12, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-10
