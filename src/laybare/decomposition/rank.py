"""How many parts a spectrum shows, judged against its own noise, and the honest answer "at least r" when it does not say.

Noise. Half the difference of the estimates from two halves of the samples, (T_A − T_B)/2, has the law of the error of their mean,
and no signal. Its largest singular value is the edge: what noise alone reaches. Edges fluctuate, relatively like d^{-2/3} (Tracy
and Widom), so a value counts as signal only above firm × edge, as noise only below loose × edge; in between nothing is known.

What cannot be known: a part weaker than the edge leaves no trace. `exact` therefore rests on a gap: all values above the noise
stand clear of it, so that a further part would have to be weaker than every part seen, by the factor `gap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.levels import ROUNDING
from laybare.shapes import Array

FIRM, FIRM_SPREAD = 1.5, 3.0
"""firm = max(1.5, exp(3 d^{-2/3})). The ratio of the edges of two symmetric Gaussian noises exceeds it in about 1 of 1000 draws
for d = 5 (2.8), fewer for larger d (1.9 at 10); 1.5 stays as allowance for noise that is not Gaussian."""

LOOSE, LOOSE_SPREAD = 1.25, 1.5
"""loose = max(1.25, exp(1.5 d^{-2/3})): half of firm's margin on the logarithmic scale."""

CLEAR, STEEPER = 10.0, 3.0
"""The rank is called exact if the gap, weakest signal over strongest remainder, is at least 10 and 3 times the largest step of
neighbouring signal values: eigenvalues of parts of equal size already spread over the squared condition number."""


@dataclass(frozen=True)
class RankEstimate:
    """At least `at_least` parts; `exact` if decided, else None; `gap`, weakest signal over strongest remainder; `explanation`."""

    at_least: int
    exact: int | None
    gap: float
    explanation: str

    @property
    def decided(self) -> bool:
        return self.exact is not None


def detect_rank(values: Array, noise: Array | float, *, weakest: float | None = None) -> RankEstimate:
    """Rank of an estimate from its singular values or eigenvalues (any signs) and those of the half-difference.

    `noise` may hold the values of several half-differences; the largest is the edge. `weakest`, if something is known about the
    parts, is the smallest |value| that one of them can have: then everything below it is excluded without a gap.
    """
    sizes, edge = _sorted_sizes(values), _edge(values, noise)
    firm, loose = margins(len(sizes))
    signal = int(np.sum(sizes > firm * edge))
    remainder = float(sizes[signal]) if signal < len(sizes) else 0.0
    gap = float(sizes[signal - 1]) / max(remainder, edge) if signal else 0.0
    if signal == len(sizes):
        return _undecided(signal, gap, f"All values exceed the noise ({edge:.3g}): there may be more parts than values.")
    if remainder > loose * edge:
        return _undecided(signal, gap, f"Value {signal + 1} ({remainder:.3g}) is neither clear of noise ({edge:.3g}) nor in it.")
    if weakest is not None and weakest > firm * edge:
        return _exactly(signal, gap, f"A further part would reach {weakest:.3g}; nothing else exceeds the noise ({edge:.3g}).")
    if signal and gap >= max(CLEAR, STEEPER * _largest_step(sizes[:signal])):
        return _exactly(signal, gap, f"The weakest of them stands {gap:.3g} times above the rest, which is noise ({edge:.3g}).")
    return _undecided(signal, gap, f"A part weaker than {firm * edge:.3g} could hide in the noise ({edge:.3g}).")


def _undecided(count: int, gap: float, reason: str) -> RankEstimate:
    return RankEstimate(count, None, gap, f"At least {_parts(count)}. {reason}")


def _exactly(count: int, gap: float, reason: str) -> RankEstimate:
    return RankEstimate(count, count, gap, f"Exactly {_parts(count)}. {reason}")


def _parts(count: int) -> str:
    return f"{count} part" if count == 1 else f"{count} parts"


def _largest_step(sizes: Array) -> float:
    """Largest ratio of two neighbouring values, sorted."""
    return float(np.max(sizes[:-1] / sizes[1:], initial=1.0))


class Margins(NamedTuple):
    """Multiples of the edge: above `firm` is signal, below `loose` is noise."""

    firm: float
    loose: float


def margins(dim: int) -> Margins:
    """How far the edges of two noises in that dimension may differ."""
    spread = float(dim) ** (-2.0 / 3.0)
    return Margins(max(FIRM, float(np.exp(FIRM_SPREAD * spread))), max(LOOSE, float(np.exp(LOOSE_SPREAD * spread))))


def _sorted_sizes(values: Array) -> Array:
    sizes = np.sort(np.abs(np.asarray(values, dtype=float).ravel()))[::-1]
    if not len(sizes) or not np.all(np.isfinite(sizes)):
        raise InvalidInput(
            f"{int(np.sum(~np.isfinite(sizes)))} of {len(sizes)} values of the spectrum are NaN or infinite.",
            "A rank is counted from at least one finite value.", "Check the moment that it came from.", size=len(sizes))
    return sizes


def _edge(values: Array, noise: Array | float) -> float:
    edges = np.abs(np.asarray(noise, dtype=float)).ravel()
    if not np.all(np.isfinite(edges)):
        raise InvalidInput(
            "The noise level is NaN or infinite.", "Values can only be judged against a finite one.",
            "Check the two half-sample estimates.", noise=float(edges[~np.isfinite(edges)][0]))
    return max(float(edges.max(initial=0.0)), ROUNDING * float(np.abs(values).max()))
