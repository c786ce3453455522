"""More than one hidden layer, seen from the kinks of the first line, before any gradient is paid for.

Kinks of a single layer stay on hyperplanes: followed to parallel lines they are where two near readings put them. One that is
missed on two of them belongs to a deeper network (`laybare.insight.kinks`). About thirty queries a kink.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from laybare.errors import AssumptionViolated
from laybare.insight.kinks import kink_at, lies_on_hyperplane
from laybare.insight.probe import Enough, Probe, ProbeLine
from laybare.lines import Bends
from laybare.shapes import Array
from laybare.source import Oracle, Rounding

NAMED_WITHIN, CHEAP = 290, 200
"""Queries within which a deep network is named. A first line that is read for fewer than CHEAP in all needs no look: the units
themselves tell soon enough."""

STRAIGHT, AWAY, ROOM = 3, (3.0, -3.0), 0.8
"""Kinks that stay on hyperplanes before it is called one layer; how far they are followed, in typical distances; the share of the
way to the next kink that is looked at."""


class EarlyLook:
    """Refuses a deep network behind an oracle by the kinks of its first line; looks once."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle, self._done = oracle, False

    def __call__(self, bends: Bends, rounding: Rounding) -> int:
        """Queries that the look took."""
        oracle, before = self._oracle, self._oracle.spent
        costly = before + len(bends.pieces) * oracle.dim > CHEAP
        if not self._done and costly and oracle.dim > 1 and oracle.budget > before + NAMED_WITHIN:
            with oracle.purpose("checks"), suppress(Enough):
                self._follow(bends, Probe(oracle, rounding, max(NAMED_WITHIN, before + CHEAP // 2), np.random.default_rng(0)))
        self._done = True
        return oracle.spent - before

    def _follow(self, bends: Bends, probe: Probe) -> None:
        line, unit = ProbeLine(bends.line.point, bends.line.direction), float(bends.line.scale)
        rng, stayed = np.random.default_rng(0), 0
        for t, room in _nearest_first(bends):
            kink = kink_at(probe, line, t, ROOM * room)
            stays = None if kink is None else lies_on_hyperplane(probe, line, kink, unit, rng, AWAY)
            if stays is False:
                raise AssumptionViolated(
                    f"A kink that was followed leaves its hyperplane, after {self._oracle.spent} queries.",
                    "A unit of a single hidden layer bends on all of its hyperplane: there is more than one layer.",
                    "Use Lines(depth=None).", kind="deep")
            stayed += stays is True
            if stayed == STRAIGHT:
                return


def _nearest_first(bends: Bends) -> list[tuple[float, float]]:
    """Kinks with the room beside them, those that are near and alone first."""
    line, t = bends.line, np.array([kink.t for kink in bends.kinks])
    gaps: Array = np.diff(np.concatenate([[line.low], t, [line.high]]))
    room = np.minimum(gaps[1:], gaps[:-1])
    order = np.argsort(-room / (line.scale + np.abs(t)) ** 2)
    return [(float(t[i]), float(room[i])) for i in order]
