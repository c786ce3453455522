"""Where a function leaves the level that it has around a point: steps outwards along rays, then halving.

A function that is constant around a point has no slope there, and beyond may be curved or made of steps: lines have nothing to
read but the place at which it begins to change. Halving finds that place to the last bit, at one query a bit, whatever lies
beyond it. Rays end where the box of the purse does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.lines.asking import Purse
from laybare.lines.line import room
from laybare.shapes import Array

GROUPS = 6
"""Parts in which places along a ray are asked: those beyond the first change are mostly not paid for."""


@dataclass(frozen=True, eq=False)
class Rays:
    """Rays from a point, in coordinates of spread 1; `changed` tells of answers (n, outputs) which have left the level, (n,)."""

    purse: Purse
    point: Array
    spread: Array
    changed: Callable[[Array], Array]

    def beyond(self, points: Array) -> Array:
        """Whether f has changed at point + spread · points, (n,)."""
        return np.asarray(self.changed(self.purse.ask(self.point + points * self.spread, "kinks")))

    def ends(self, rays: Array) -> Array:
        """How far each ray may be followed, (n,)."""
        if self.purse.box is None:
            return np.full(len(rays), np.inf)
        return np.array([room(self.point, ray * self.spread, self.purse.box)[1] for ray in rays])

    def halved(self, rays: Array, low: Array, high: Array, halvings: int) -> tuple[Array, Array]:
        """Brackets of the changes after so many halvings; f has not changed at `low` and has at `high`."""
        for _ in range(halvings):
            middle = (low + high) / 2
            beyond = self.beyond(rays * middle[:, None])
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return low, high

    def first_change(self, ray: Array, radii: Array, halvings: int) -> float | None:
        """Distance to the first change among `radii` along a ray, coarsely; None if there is none within reach."""
        end, before = float(self.ends(ray[None])[0]), 0.0
        reachable = radii if end > radii[-1] else np.append(radii[radii < end], end)
        for group in np.array_split(reachable, GROUPS):
            beyond = self.beyond(np.outer(group, ray)) if len(group) else np.zeros(0, dtype=bool)
            if beyond.any():
                first = int(np.argmax(beyond))
                low = group[first - 1] if first else before
                _, high = self.halved(ray[None], np.array([low]), group[[first]], halvings)
                return float(high[0])
            before = float(group[-1]) if len(group) else before
        return None
