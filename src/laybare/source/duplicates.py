"""Repeated rows: exact copies are no evidence, and rows with one input must be on one side of a split.

A row's key is a hash: the sum of its numbers' bits times fixed odd 64-bit numbers, mixed. Two different rows share a key with
probability about 2^-64: among a million rows, once in 40 million data sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.source import Affine, Source
from laybare.source.protocol import SplitSources
from laybare.source.views import View, map_blocks, row_index_dtype

HASH_SEED = 0x1A7BA2E
"""Seed of the odd factors. Convention: any fixed seed will do."""

HASHED_AT_ONCE = 2**14
"""Numbers that are hashed at a time. Derived: both copies, 256 kB, stay in the second-level cache."""


class RowGroups(NamedTuple):
    """`first`: rows that are not an exact copy (x and y) of an earlier one; `group`: for each of them the number of its input."""

    first: Array
    group: Array

    @property
    def inputs(self) -> int:
        """Number of different inputs."""
        return int(self.group.max(initial=-1)) + 1


def group_rows(source: Source) -> RowGroups | None:
    """Copies and repeated inputs among the rows of `source`; None if no input occurs twice.

    One pass and 8 bytes per row if there is none; else two passes and up to 40 bytes per row.
    """
    if count_distinct_inputs(source) == source.size:
        return None
    inputs, rows = _all_keys(source, _block_keys, 2)
    first = np.sort(_first_of_each(rows))
    del rows
    return RowGroups(first, _group_numbers(inputs[first]))


def count_distinct_inputs(source: Source) -> int:
    """Number of different inputs; one pass, 8 bytes per row, n log n."""
    (keys,) = _all_keys(source, _input_keys, 1)
    keys.sort()
    return min(1, len(keys)) + int(np.count_nonzero(keys[1:] != keys[:-1]))


def _all_keys(source: Source, statistic: Statistic, count: int) -> tuple[Array, ...]:
    keys, done = tuple(np.empty(source.size, dtype=np.uint64) for _ in range(count)), 0
    for block in map_blocks(source, statistic):
        for whole, part in zip(keys, block, strict=True):
            whole[done : done + len(part)] = part
        done += len(block[0])
    return keys


def _runs(keys: Array) -> tuple[Array, Array]:
    """A stable sorting order of the keys, and where in it a new key begins."""
    order = np.argsort(keys, kind="stable").astype(row_index_dtype(len(keys)), copy=False)
    ordered = keys[order]
    return order, np.concatenate([np.ones(min(1, len(keys)), dtype=bool), ordered[1:] != ordered[:-1]])


def _first_of_each(keys: Array) -> Array:
    order, begins = _runs(keys)
    return np.asarray(order[begins])


def _group_numbers(keys: Array) -> Array:
    """The number of each key's value, 0, 1, ..., in sorted order."""
    order, begins = _runs(keys)
    numbers = np.empty_like(order)
    numbers[order] = np.cumsum(begins, dtype=order.dtype) - 1
    return numbers


def split_groups(source: Source, groups: RowGroups, held: int, *, rng: Generator) -> SplitSources:
    """Second part: at least `held` rows, all rows of an input together. First part: the others. Copies are left out."""
    sizes = np.bincount(groups.group, minlength=groups.inputs)
    order = rng.permutation(groups.inputs)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), held)) + 1
    out = np.zeros(groups.inputs, dtype=bool)
    out[order[: min(enough, groups.inputs - 1)]] = True
    fresh = out[groups.group]
    return SplitSources(_select_rows(source, groups.first[~fresh]), _select_rows(source, groups.first[fresh]))


def _select_rows(source: Source, rows: Array) -> View:
    return View(source, rows, Affine.identity(source.dim), source.law, source.schedule)


def _input_keys(x: Array, y: Array) -> Sums:
    return (_keys(x),)


def _block_keys(x: Array, y: Array) -> Sums:
    inputs = _keys(x)
    return inputs, _mix(inputs + _keys(y, HASH_SEED + 1))  # other factors: rows with x and y exchanged are different


def _keys(values: Array, seed: int = HASH_SEED) -> Array:
    odd = np.random.default_rng(seed).integers(2**63, size=values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(values), dtype=np.uint64)
    stretch = max(1, HASHED_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), stretch):
        bits = _mix(np.ascontiguousarray(values[start : start + stretch] + 0.0).view(np.uint64))  # + 0.0: -0.0 equals 0.0
        bits *= odd
        np.sum(bits, axis=1, dtype=np.uint64, out=keys[start : start + stretch])
    return _mix(keys)


def _mix(keys: Array) -> Array:
    """The finaliser of MurmurHash3, in place: every bit of the input changes every bit of the output."""
    shifted = np.empty_like(keys)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        np.right_shift(keys, np.uint64(33), out=shifted)
        keys ^= shifted
        if factor != 1:
            keys *= np.uint64(factor)
    return keys
