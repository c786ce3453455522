"""Lines that go on for long are looked at once: through several layers they would go on for minutes, and end in nonsense."""

from __future__ import annotations

from copy import copy
from typing import Any

from laybare.errors import AssumptionViolated
from laybare.insight import Insight, first_look
from laybare.pipeline.unlike_lines import NAMED_WITHIN, PLACES
from laybare.shapes import Array
from laybare.source import Oracle

UNWATCHED = 105
"""Queries that lines may ask before they are looked at: small networks are done by then, and pay nothing for the look."""

WORTH = 1000
"""With a smaller budget there is no look: it would take too large a part of it."""


class SeveralLayers(Exception):
    """Kinks leave their hyperplanes: what is read is not one hidden layer."""

    def __init__(self, seen: Insight) -> None:
        super().__init__(seen)
        self.seen = seen

    def finding(self) -> AssumptionViolated:
        """What a caller is told."""
        return AssumptionViolated(
            "A kink that was followed leaves its hyperplane: the black box has more than one hidden layer.",
            f"Seen within {NAMED_WITHIN} queries; the default reads one.",
            "Use Lines(depth=None) where the version has it, or recover_layer() for the lowest layer.", kind="deep", layers=2)


def watched(oracle: Oracle) -> Oracle:
    """The same oracle; once UNWATCHED queries are asked, a first look at the layers comes before the next ones."""
    if oracle.box is not None or oracle.budget - oracle.spent < WORTH:  # in a box no kink can be followed far enough
        return oracle
    view, end, looked = copy(oracle), oracle.spent + UNWATCHED, False

    def ask(x: Array, **options: Any) -> Array:
        nonlocal looked
        if not looked and oracle.spent + len(x) > end:
            looked = True
            seen = first_look(oracle, most=NAMED_WITHIN - UNWATCHED - 2 * PLACES, rng=0)
            if seen.layers == 2:
                raise SeveralLayers(seen)
        return oracle.ask(x, **options)

    object.__setattr__(view, "ask", ask)
    return view
