"""Counting parts against split-half noise: right where it decides, "at least" where it cannot, rarely fooled by noise alone."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted

from laybare.decomposition import detect_rank


def spectra(dim, strengths, rng, noise=1.0):
    """Eigenvalues of signal plus noise, and of an independent noise of the same law."""
    u = np.linalg.qr(rng.standard_normal((dim, dim)))[0][: len(strengths)]
    signal = planted.tensor(np.asarray(strengths, dtype=float), u, 2) if len(strengths) else 0.0
    first, second = (noise * planted.symmetric_noise((dim, dim), rng) for _ in range(2))
    return np.linalg.eigvalsh(signal + first), np.linalg.eigvalsh(second)


def test_exact_spectrum_without_noise(rng):
    u, c = planted.directions(4, 9, 5, rng), planted.coefficients(4, rng)
    estimate = detect_rank(np.linalg.eigvalsh(planted.tensor(c, u, 2)), 0.0)
    assert estimate.exact == estimate.at_least == 4
    assert estimate.decided
    assert estimate.explanation.startswith("Exactly 4 parts.")


@pytest.mark.parametrize("dim", [8, 20])
def test_strong_parts_are_counted_exactly(dim):
    """Strength 200 against an edge near sqrt(2 dim), 4 to 6: never wrong, and decided in at least 40 of 50 draws."""
    draws = [detect_rank(*spectra(dim, [200.0, -200.0, 200.0], np.random.default_rng([seed, dim]))) for seed in range(50)]
    assert all(estimate.at_least == 3 and estimate.exact in (3, None) for estimate in draws)
    assert sum(estimate.decided for estimate in draws) >= 40


@pytest.mark.parametrize("dim", [8, 20])
def test_weak_parts_are_never_denied(dim):
    """One part below the noise, the others 3 to 8 times above it: the honest answer is "at least"."""
    for seed in range(50):
        estimate = detect_rank(*spectra(dim, [20.0, -18.0, 1.0], np.random.default_rng([seed, dim])))
        assert estimate.exact is None
        assert estimate.at_least <= 3
        assert estimate.explanation.startswith("At least")


@pytest.mark.parametrize(("dim", "draws"), [(5, 2000), (10, 2000), (30, 300)])
def test_noise_alone_is_seldom_taken_for_a_part(dim, draws):
    """The rate is about 1 in 1000 at dimension 5 and less above: 2 expected of 2000, so more than 8 is beyond 4 sigma."""
    rng = np.random.default_rng(dim)
    fooled = sum(detect_rank(*spectra(dim, [], rng)).at_least > 0 for _ in range(draws))
    assert fooled <= 8
    assert all(detect_rank(*spectra(dim, [], rng)).exact is None for _ in range(50))


def test_knowledge_of_the_weakest_part_decides(rng):
    noise = np.array([0.9, -1.0])
    assert detect_rank(np.array([20.0, -12.0, 0.8, 0.3, 0.1, 0.1, 0.1, 0.1]), noise).exact == 2
    assert detect_rank(np.array([90.0, -12.0, 0.8, 0.3, 0.1, 0.1, 0.1, 0.1]), noise).exact is None  # steep
    closer = np.array([5.0, -2.6, 0.8, 0.3, 0.1, 0.1, 0.1, 0.1])
    assert detect_rank(closer, noise).exact is None
    assert detect_rank(closer, noise, weakest=2.5).exact == 2
    assert detect_rank(closer, noise, weakest=1.0).exact is None


def test_grey_zone_and_full_spectrum():
    grey = detect_rank(np.array([50.0, 40.0, 1.9, 0.5, 0.5, 0.5, 0.5, 0.5]), 1.0)
    assert (grey.at_least, grey.exact) == (2, None)
    assert "neither clear of noise" in grey.explanation
    full = detect_rank(np.array([50.0, 40.0, 30.0]), 1.0)
    assert (full.at_least, full.exact) == (3, None)
    assert "more parts than values" in full.explanation


def test_laws(rng):
    """Signs and order of the values do not matter, nor does a common scale."""
    values, noise = spectra(12, [30.0, -20.0], rng)
    one, two = detect_rank(values, noise), detect_rank(-5.0 * rng.permutation(values), -5.0 * noise)
    assert (one.at_least, one.exact) == (two.at_least, two.exact)
    assert one.gap == pytest.approx(two.gap)


def test_no_part_at_all():
    assert detect_rank(np.zeros(4), 0.0).at_least == 0
    assert detect_rank(np.array([0.5, 0.2]), 1.0, weakest=50.0).exact == 0
