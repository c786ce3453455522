"""Some of the rows, to begin with: the same ones every time, and from everywhere, since files are often sorted."""

from __future__ import annotations

from laybare.source import Source
from laybare.source.protocol import Parts

CHOICE = 0
"""Seed of the choice. It is no randomness that anybody has to repeat or vary: any rows will do."""


def enough_rows(source: Source, rows: int) -> Source:
    """So many rows, or all of them where that is not much less."""
    return source if 2 * rows > source.size else some_rows(source, rows)


def some_and_others(source: Source, rows: int) -> Parts:
    """So many rows, and the others; kept in memory if they fit."""
    parts = source.split(rows / source.size, rng=CHOICE)
    return Parts(parts.first.kept(), parts.second.kept())


def some_rows(source: Source, rows: int) -> Source:
    """So many rows, spread over the source and kept in memory if they fit; the first ones where any range is a random choice."""
    return source.split(rows / source.size, rng=CHOICE).first.kept()


def one_lot_and_another(source: Source, rows: int, others: int) -> Parts:
    """So many rows, kept in memory if they fit, and so many others; or all others where that is not much less."""
    both = enough_rows(source, rows + others)
    parts = both.split(rows / both.size, rng=CHOICE)
    return Parts(parts.first.kept(), parts.second)
