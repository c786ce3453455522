"""The row ladder: nested random prefixes of the rows. What begins on few rows climbs to more while it is undecided.

Every row has a random key, the same in every call, and a prefix of r rows has the r smallest keys: of two prefixes one contains
the other. They are random since files are often sorted; of rows that are drawn independently the first ones will do.

    rung 0          a few rows per unknown: what a first search, a screening or a metric needs
    rung j          `RUNG_FACTOR`ʲ times as many, as long as that is at most half of the rows
    the last rung   all rows
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from laybare.numerics.shapes import Array
from laybare.source.protocol import Source, SplitSources
from laybare.source.views import row_index_dtype, view_of

KEY_SEED = 0
"""Seed of the keys. Convention: any fixed seed will do."""

KEY_BLOCK = 1 << 20
"""Keys drawn at a time. Derived: 8 MB, whatever the number of rows."""

MARGIN_SDS = 8.0
"""Standard deviations of the number of keys below a threshold by which it is raised. Derived: too few once in 1e15."""

RUNG_FACTOR = 4
"""Rows of a rung over those of the one below. Checked by `laybare reproduce plain-noise`."""


def ladder_from(source: Source, rows: int) -> Iterator[Source]:
    """Prefixes of `rows` rows and more, each in memory if it fits; all rows last."""
    while 2 * rows <= source.size:
        yield prefix(source, rows)
        rows *= RUNG_FACTOR
    yield source


def prefix(source: Source, rows: int) -> Source:
    """The prefix of `rows` rows, in memory if they fit."""
    return _part(source, 0, rows).kept()


def prefix_or_all(source: Source, rows: int) -> Source:
    """The prefix of `rows` rows, or all of them if there are less than twice as many."""
    return source if 2 * rows > source.size else prefix(source, rows)


def prefix_and_rest(source: Source, rows: int) -> SplitSources:
    """The prefix of `rows` rows, and the others; in memory if they fit."""
    return SplitSources(prefix(source, rows), _part(source, rows, source.size).kept())


def prefix_and_next(source: Source, rows: int, others: int) -> SplitSources:
    """The prefix of `rows` rows, in memory if they fit, and the `others` that follow, or all others if that is about half."""
    end = source.size if 2 * (rows + others) > source.size else rows + others
    return SplitSources(prefix(source, rows), _part(source, rows, end))


def _part(source: Source, start: int, stop: int) -> Source:
    """Rows that a prefix of `stop` rows has and one of `start` rows has not."""
    if source.exchangeable:
        return source.between(start, stop)
    if stop == source.size:
        chosen = np.ones(source.size, dtype=bool)
        chosen[_prefix_rows(source.size, start)] = False
        return view_of(source, np.flatnonzero(chosen).astype(row_index_dtype(source.size), copy=False))
    rows = _prefix_rows(source.size, stop)
    return view_of(source, rows if start == 0 else np.setdiff1d(rows, _prefix_rows(source.size, start), assume_unique=True))


def _prefix_rows(size: int, rows: int) -> Array:
    """The rows with the smallest keys, in ascending order."""
    bound = min(1.0, (rows + MARGIN_SDS * (1.0 + np.sqrt(rows))) / size)
    rng, near, keys = np.random.default_rng(KEY_SEED), [], []
    for start in range(0, size, KEY_BLOCK):
        block = rng.random(min(KEY_BLOCK, size - start))
        below = np.flatnonzero(block < bound)
        near.append(start + below)
        keys.append(block[below])
    smallest = np.argsort(np.concatenate(keys), kind="stable")[:rows]
    return np.sort(np.concatenate(near)[smallest]).astype(row_index_dtype(size), copy=False)
