"""Random subsamples of the rows: the same ones in every call, from the whole source, since files are often sorted."""

from __future__ import annotations

from laybare.source import Source
from laybare.source.protocol import SplitSources

SUBSAMPLE_SEED = 0
"""Seed of the choice. Convention: any fixed seed will do."""


def subsample_or_all(source: Source, rows: int) -> Source:
    """A subsample of `rows` rows, or all of them if there are less than twice as many."""
    return source if 2 * rows > source.size else subsample(source, rows)


def subsample_and_rest(source: Source, rows: int) -> SplitSources:
    """A subsample of `rows` rows, and the others; in memory if they fit."""
    parts = source.split(rows / source.size, rng=SUBSAMPLE_SEED)
    return SplitSources(parts.first.kept(), parts.second.kept())


def subsample(source: Source, rows: int) -> Source:
    """A random subsample of `rows` rows, in memory if they fit; the first rows if the source is exchangeable."""
    return source.split(rows / source.size, rng=SUBSAMPLE_SEED).first.kept()


def two_subsamples(source: Source, rows: int, others: int) -> SplitSources:
    """A subsample of `rows` rows, in memory if they fit, and `others` other rows, or all others if that is about half."""
    both = subsample_or_all(source, rows + others)
    parts = both.split(rows / both.size, rng=SUBSAMPLE_SEED)
    return SplitSources(parts.first.kept(), parts.second)
