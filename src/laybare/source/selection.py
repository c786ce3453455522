"""A few rows out of many: those with the smallest key, in one pass and with memory for no more than were asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from laybare.shapes import Array
from laybare.source.protocol import Rows, Source
from laybare.source.views import block_results

Key = Callable[[Array, Array], Array]


def closest_rows(source: Source, key: Key, limit: int) -> Rows:
    """The at most `limit` rows with the smallest finite key(x, y) (n,), in their order in the source; ties go to the first.

    Rows whose key is inf are left out. The result may have no rows.
    """
    x, y, keys = np.empty((0, source.dim)), np.empty((0, source.outputs)), np.empty(0)
    for some, their in block_results(source, Rows):  # the key is asked here, block after block: it may draw
        found = np.asarray(key(some, their), dtype=float)
        wanted = np.isfinite(found)
        x, y = np.vstack([x, some[wanted]]), np.vstack([y, their[wanted]])
        keys = np.concatenate([keys, found[wanted]])
        if len(keys) > limit:
            kept = np.sort(np.argsort(keys, kind="stable")[:limit])
            x, y, keys = x[kept], y[kept], keys[kept]
    return Rows(x, y)
