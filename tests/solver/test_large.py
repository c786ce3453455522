"""784-32-1 networks: the sizes that the matrix-free solver is for. Minutes each; `laybare reproduce large-network` has them too.

Seconds are those of the processor, twice those of the clock where two cores have nothing else to do.
"""

from __future__ import annotations

import resource
import time

import pytest

from laybare.studies.scaling import LargeCell, LargeSize, refine_large

pytestmark = pytest.mark.slow

CORES = 2


def measured(arm, seed):
    """The run, and the processor seconds it took."""
    begun = time.process_time()
    result = refine_large(LargeCell(LargeSize(), arm), seed)
    seconds = time.process_time() - begun
    print(f"{arm}, seed {seed}: {result}, {seconds:.0f} CPU s")
    return result, seconds


def test_from_cosine_nine_tenths(seed):
    """Four minutes on two cores and 3 GB are granted, the 0.5 GB of samples among them; twice the samples take twice the time."""
    result, seconds = measured("cosine 0.9", seed)
    assert result.error < 1e-10 and seconds < CORES * 240
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3e6
    twice, longer = measured("cosine 0.9, twice the samples", seed)
    assert twice.error < 1e-10
    assert 1.4 < (longer / twice.passes) / (seconds / result.passes) < 2.8


@pytest.mark.parametrize("case", range(3))
def test_from_random_directions_with_sixteen_spares(case, seed):
    result, seconds = measured("random, 16 spares", 100 * seed + case)
    assert result.found == 32 and result.error < 1e-8 and seconds < CORES * 360


def test_from_moments(seed):
    result, _ = measured("moments", seed)
    assert result.found == 32 and result.error < 1e-8
