"""Some of the rows, to begin with: the same ones every time, and from everywhere, since files are often sorted."""

from __future__ import annotations

from laybare.source import Source

CHOICE = 0
"""Seed of the choice. It is no randomness that anybody has to repeat or vary: any rows will do."""


def some_rows(source: Source, rows: int) -> Source:
    """So many rows, spread over the source and kept in memory if they fit; the first ones where any range is a random choice."""
    return source.split(rows / source.size, rng=CHOICE).first.kept()
