"""The smallest number of samples at which nine runs of ten succeed, and how it grows.

Numbers of samples come from one geometric grid, a factor of √2 apart, so that two arms meet at the same ones. The search goes up
or down from a guess by doubling, then halves the bracket: it takes success for monotone, as it is but for chance near its edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

SHARE = 0.9
"""Runs that must succeed."""

LOWEST, HIGHEST = 8, 36
"""Steps of the grid, 2^(step/2): 16 to 262,144 samples."""


def grid_samples(step: int) -> int:
    """Samples of a step of the grid."""
    return int(np.rint(2.0 ** (step / 2)))


def smallest(succeeds: Callable[[int, int], bool], seeds: Sequence[int], guess: int, most: int) -> float:
    """Smallest samples with which SHARE of the `seeds` succeed; infinite beyond `most`. `guess` is where the search begins."""
    highest = min(HIGHEST, int(2 * np.log2(most) + 1e-9))
    tried: dict[int, bool] = {}

    def enough(step: int) -> bool:
        if step not in tried:
            tried[step] = _enough(succeeds, seeds, grid_samples(step))
        return tried[step]

    low, high = _bracket(enough, min(max(LOWEST, round(2 * np.log2(guess))), highest), highest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(grid_samples(high)) if high <= highest else np.inf


def _enough(succeeds: Callable[[int, int], bool], seeds: Sequence[int], samples: int) -> bool:
    """Whether few enough seeds fail; it is over once too many have."""
    spare = int((1.0 - SHARE) * len(seeds) + 1e-9)
    for seed in seeds:
        spare -= not succeeds(samples, seed)
        if spare < 0:
            return False
    return True


def _bracket(enough: Callable[[int], bool], guess: int, highest: int) -> tuple[int, int]:
    """A step that is not enough (or below the grid) and one that is (or beyond it), two doublings further each time."""
    low, high, stride = LOWEST - 1, highest + 1, 2
    step, up = guess, not enough(guess)
    while True:
        if up:
            low, step = step, step + stride
        else:
            high, step = step, step - stride
        if not LOWEST <= step <= highest:
            return low, high
        if enough(step) == up:
            return (low, step) if up else (step, high)
        stride *= 2


def exponent(values: Sequence[float], samples: Sequence[float]) -> float:
    """Slope of log samples against log values where both are known; NaN with fewer than two of them."""
    pairs = [(value, n) for value, n in zip(values, samples, strict=True) if np.isfinite(n) and n > 0 and value > 0]
    if len({value for value, _ in pairs}) < 2:
        return float("nan")
    x, y = np.log(np.array(pairs)).T
    return float(np.round(np.polyfit(x, y, 1)[0], 6)) + 0.0  # no minus before a zero
