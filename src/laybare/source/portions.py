"""What a worker needs of a source to add up a run of its blocks: the views above the leaf, and the leaf's rows of that run.

A source is a chain: views and changed rows above a leaf that has the rows. What is the same for every run (maps, matrices,
the statistic) is a `Work`, and is sent once; a run brings the numbers of its own rows and the rows themselves. The worker puts
the chain together again and reads block by block exactly as the local pass does, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from laybare.errors import LaybareError
from laybare.shapes import Array, Statistic, Sums
from laybare.source.affine import Affine
from laybare.source.arrays import Stacked, checked_rows
from laybare.source.joined import Listed
from laybare.source.laws import Unknown
from laybare.source.protocol import Source
from laybare.source.sums import Schedule, one_block
from laybare.source.tree import added
from laybare.source.views import Derived, View, row_number


class Work(NamedTuple):
    """What all runs share: the chain from the leaf upwards without its rows, the leaf if it travels, and what to do."""

    chain: tuple[View | Derived, ...]
    leaf: Source | None
    statistic: Statistic
    rows: int  # of a block


class Share(NamedTuple):
    """What one run reads: rows low..high of the leaf; for each view, from the leaf upwards, which of those it is given."""

    low: int
    high: int
    picks: tuple[range | Array, ...]


class ChunkRows(NamedTuple):
    """Rows of the leaf as they came, how many there should be, and what they are called."""

    values: Array
    rows: int
    name: str


RunRows: TypeAlias = Source | tuple[Sequence[ChunkRows], Sequence[ChunkRows]] | None
"""Rows low..high of the leaf: a source of them, pieces of x and of y, or nothing where the leaf travels with the work."""


@dataclass(frozen=True)
class RunFault:
    """An error that belongs to the data: it is handed on as a result, since to try again would not help."""

    error: LaybareError


def work_of(source: Source, leaf: Source | None, statistic: Statistic, rows: int) -> Work:
    """The chain of `source`, with nothing in it that is large or belongs to this process."""
    if leaf is not None:
        leaf = copy(leaf)
        object.__setattr__(leaf, "schedule", Schedule())
    chain: list[View | Derived] = []
    while isinstance(source, View | Derived):
        below = _nothing(source.origin.dim, source.origin.outputs)
        if isinstance(source, View):
            chain.append(replace(source, origin=below, rows=range(0), schedule=Schedule()))
        else:
            chain.append(replace(source, origin=below))
        source = source.origin
    return Work(tuple(reversed(chain)), leaf, statistic, rows)


def share_of(source: Source, start: int, stop: int) -> Share:
    """What rows start..stop of `source` need."""
    picks: list[range | Array] = []
    while isinstance(source, View | Derived):
        if isinstance(source, View):
            picked = source.rows[start:stop]
            start, stop = int(picked[0]), int(picked[-1]) + 1
            picks.append(range(stop - start) if isinstance(picked, range) else _small(picked - start))
        source = source.origin
    return Share(start, stop, tuple(reversed(picks)))


def added_run(work: Work, share: Share, rows: RunRows) -> Sums | RunFault:
    """The sum of a run's blocks, one node of the tree."""
    try:
        return added(_blocks(work, share, rows))
    except LaybareError as error:
        return RunFault(error)


def listed_run(work: Work, share: Share, rows: RunRows) -> list[Sums] | RunFault:
    """The results of a run's blocks, one by one."""
    try:
        return list(_blocks(work, share, rows))
    except LaybareError as error:
        return RunFault(error)


def added_nodes(nodes: Sequence[Sums | RunFault]) -> Sums | RunFault:
    """The sum of nodes of one level; the first finding if there is one."""
    wrong = next((node for node in nodes if isinstance(node, RunFault)), None)
    if wrong is not None:
        return wrong
    try:
        return added(node for node in nodes if not isinstance(node, RunFault))
    except LaybareError as error:
        return RunFault(error)


def _blocks(work: Work, share: Share, rows: RunRows) -> Iterator[Sums]:
    """Block by block, in order."""
    source = _rebuilt(work, share, rows)
    for start in range(0, source.size, work.rows):
        yield one_block(source.read, work.statistic, source.size, work.rows, start)


def _rebuilt(work: Work, share: Share, rows: RunRows) -> Source:
    source = _leaf(work, share, rows)
    picks = iter(share.picks)
    for level in work.chain:
        if isinstance(level, View):
            source = replace(level, origin=source, rows=next(picks))
        else:
            source = replace(level, origin=source)
    return source


def _leaf(work: Work, share: Share, rows: RunRows) -> Source:
    """Rows low..high of the leaf."""
    if isinstance(rows, tuple):
        x, y = (Stacked([checked_rows(np.asarray(piece.values), piece.rows, piece.name) for piece in part]) for part in rows)
        return Listed(x, y)
    if rows is not None:
        return rows
    assert work.leaf is not None
    return View(work.leaf, range(share.low, share.high), Affine.identity(work.leaf.dim), Unknown(), Schedule())


def _small(picked: Array) -> Array:
    """Row numbers of a run in four bytes each."""
    return picked.astype(row_number(int(picked[-1])), copy=False)


def _nothing(dim: int, outputs: int) -> Source:
    return Listed(Stacked([np.empty((0, dim))]), Stacked([np.empty((0, outputs))]))
