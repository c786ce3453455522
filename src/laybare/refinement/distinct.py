"""Rows that occur more than once: copies are no evidence, and one input must not lie on both sides of a split.

A row's key is a sum of its numbers' bits times fixed odd 64-bit numbers, mixed: two different rows share one with probability
2^-64 or so, which among a million rows happens once in 40 million data sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.shapes import Array, Statistic, Sums
from laybare.source import Affine, Source
from laybare.source.protocol import Parts
from laybare.source.views import View, block_results, row_number

SEED = 0x1A7BA2E

AT_ONCE = 2**14
"""Numbers whose bits are mixed at once: both copies stay in the nearest cache, where it takes a fifth of the time."""


class RowGroups(NamedTuple):
    """`first`: the rows that are no exact copy (x and y) of an earlier one; `group`: the number of its input, for each."""

    first: Array
    group: Array

    @property
    def inputs(self) -> int:
        """Different inputs."""
        return int(self.group.max(initial=-1)) + 1


def row_groups(source: Source) -> RowGroups | None:
    """Copies and repeated inputs among the rows of `source`, or nothing if no input occurs twice.

    One reading and eight bytes a row tell that; two readings, and up to forty bytes a row for a while, who repeats whom.
    """
    if different_inputs(source) == source.size:
        return None
    inputs, rows = _all_keys(source, _block_keys, 2)
    first = np.sort(_first_of_each(rows))
    del rows
    return RowGroups(first, _numbered(inputs[first]))


def different_inputs(source: Source) -> int:
    """How many inputs differ; one reading, eight bytes a row, n log n."""
    (keys,) = _all_keys(source, _input_keys, 1)
    keys.sort()
    return min(1, len(keys)) + int(np.count_nonzero(keys[1:] != keys[:-1]))


def _all_keys(source: Source, statistic: Statistic, count: int) -> tuple[Array, ...]:
    keys, done = tuple(np.empty(source.size, dtype=np.uint64) for _ in range(count)), 0
    for block in block_results(source, statistic):
        for whole, part in zip(keys, block, strict=True):
            whole[done : done + len(part)] = part
        done += len(block[0])
    return keys


def _runs(keys: Array) -> tuple[Array, Array]:
    """An order in which equal keys follow each other, earlier ones first, and where in it a new key begins."""
    order = np.argsort(keys, kind="stable").astype(row_number(len(keys)), copy=False)
    in_order = keys[order]
    return order, np.concatenate([np.ones(min(1, len(keys)), dtype=bool), in_order[1:] != in_order[:-1]])


def _first_of_each(keys: Array) -> Array:
    order, begins = _runs(keys)
    return np.asarray(order[begins])


def _numbered(keys: Array) -> Array:
    """For every key the number of its value."""
    order, begins = _runs(keys)
    numbers = np.empty_like(order)
    numbers[order] = np.cumsum(begins, dtype=order.dtype) - 1
    return numbers


def split_groups(source: Source, groups: RowGroups, held: int, *, rng: Generator) -> Parts:
    """At least `held` rows, whole groups of one input each, for the second part; the rest for the first. Copies are left out."""
    sizes = np.bincount(groups.group, minlength=groups.inputs)
    order = rng.permutation(groups.inputs)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), held)) + 1
    out = np.zeros(groups.inputs, dtype=bool)
    out[order[: min(enough, groups.inputs - 1)]] = True
    fresh = out[groups.group]
    return Parts(_chosen(source, groups.first[~fresh]), _chosen(source, groups.first[fresh]))


def _chosen(source: Source, rows: Array) -> View:
    return View(source, rows, Affine.identity(source.dim), source.law, source.schedule)


def _input_keys(x: Array, y: Array) -> Sums:
    return (_keys(x),)


def _block_keys(x: Array, y: Array) -> Sums:
    inputs = _keys(x)
    return inputs, _mixed(inputs + _keys(y, SEED + 1))  # other numbers: x and y that change places are another row


def _keys(values: Array, seed: int = SEED) -> Array:
    odd = np.random.default_rng(seed).integers(2**63, size=values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(values), dtype=np.uint64)
    stretch = max(1, AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), stretch):
        bits = _mixed(np.ascontiguousarray(values[start : start + stretch] + 0.0).view(np.uint64))  # -0.0 is 0.0
        bits *= odd
        np.sum(bits, axis=1, dtype=np.uint64, out=keys[start : start + stretch])
    return _mixed(keys)


def _mixed(keys: Array) -> Array:
    """The finaliser of MurmurHash3, in place: every bit of the input moves every bit of the output."""
    shifted = np.empty_like(keys)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        np.right_shift(keys, np.uint64(33), out=shifted)
        keys ^= shifted
        if factor != 1:
            keys *= np.uint64(factor)
    return keys
