"""Rows that occur more than once: copies are no evidence, and one input must not lie on both sides of a split.

A row's key is a sum of its numbers' bits times fixed odd 64-bit numbers, mixed: two different rows share one with probability
2^-64 or so, which among a million rows happens once in 40 million data sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.shapes import Array, Sums
from laybare.source import Affine, Source
from laybare.source.protocol import Parts
from laybare.source.views import View, block_results

SEED = 0x1A7BA2E


class RowGroups(NamedTuple):
    """`first`: the rows that are no exact copy (x and y) of an earlier one; `group`: the number of its input, for each."""

    first: Array
    group: Array

    @property
    def inputs(self) -> int:
        """Different inputs."""
        return int(self.group.max(initial=-1)) + 1


def row_groups(source: Source) -> RowGroups:
    """Copies and repeated inputs among the rows of `source`; one reading, sixteen bytes a row, n log n."""
    inputs, rows = np.empty((2, source.size), dtype=np.uint64)
    done = 0
    for of_inputs, of_rows in block_results(source, _block_keys):
        inputs[done : done + len(of_rows)], rows[done : done + len(of_rows)] = of_inputs, of_rows
        done += len(of_rows)
    first = np.sort(np.unique(rows, return_index=True)[1])
    return RowGroups(first, np.unique(inputs[first], return_inverse=True)[1].reshape(-1))


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


def _block_keys(x: Array, y: Array) -> Sums:
    inputs = _keys(x)
    return inputs, _mixed(inputs + _keys(y))


def _keys(values: Array) -> Array:
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # -0.0 is 0.0
    odd = np.random.default_rng(SEED).integers(2**63, size=values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return _mixed(np.asarray(np.sum(_mixed(bits) * odd, axis=1, dtype=np.uint64)))


def _mixed(keys: Array) -> Array:
    """The finaliser of MurmurHash3: every bit of the input moves every bit of the output."""
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(keys ^ (keys >> np.uint64(33)))
