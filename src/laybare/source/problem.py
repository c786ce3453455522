"""The problem that is solved, and the row ladder: few of its rows first, then more.

The problem: rows to fit and held-out rows for the certificate, both white, the map back, and the scale of the outputs.

Repeated rows: exact copies are no evidence, and rows with one input must be on one side of a split.

A row's key is a hash: the sum of its numbers' bits times fixed odd 64-bit numbers, mixed. Two different rows share a key with
probability about 2^-64: among a million rows, once in 40 million data sets.

The row ladder: nested random prefixes of the rows. What begins on few rows climbs to more while it is undecided.

Every row has a random key, the same in every call, and a prefix of r rows has the r smallest keys: of two prefixes one contains
the other. They are random since files are often sorted; of rows that are drawn independently the first ones will do.

    rung 0          a few rows per unknown: what a first search, a screening or a metric needs
    rung j          `RUNG_FACTOR`ʲ times as many, as long as that is at most half of the rows
    the last rung   all rows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, TooFewSamples
from laybare.networks import Network
from laybare.numerics.checks import check_memory
from laybare.numerics.shapes import Array, Progress, Statistic, Sums, report_progress
from laybare.source import Affine, Oracle
from laybare.source.laws import whitening_map
from laybare.source.oracle.repeats import REPEATS, RepeatedAnswers, ask_again, reserved_queries
from laybare.source.protocol import Source, SplitSources
from laybare.source.rounding import detect_grid
from laybare.source.sums import GRAIN
from laybare.source.views import View, map_blocks, row_index_dtype, view_of

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
    """The prefix of `rows` rows, in memory if they fit, and the others, read from the source."""
    return SplitSources(prefix(source, rows), _part(source, rows, source.size))


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


HASH_SEED = 0x1A7BA2E
"""Seed of the odd factors. Convention: any fixed seed will do."""

HASHED_AT_ONCE = 2**14
"""Numbers that are hashed at a time. Derived: both copies, 256 kB, stay in the second-level cache."""


class RowGroups(NamedTuple):
    """`first`: the rows without exact copies (x and y) of earlier ones; `group`: the number of the input of each."""

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


def total_variation(source: Source) -> float:
    """Sum of squares of y about its mean; one pass, of differences to the first row, so that a large mean costs no digits."""
    first = source.read(0, 1).y[0].copy()

    def powers(x: Array, y: Array) -> Sums:
        centred = y - first
        return centred.sum(axis=0), np.einsum("no,no->o", centred, centred)

    total, squares = source.sum(powers, stage="variance")
    return float(np.sum(np.maximum(squares - total**2 / source.size, 0.0)))



@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """How a problem is posed."""

    max_variation: float = 1e280
    """Largest sum of squares of the outputs. Derived: factors of 1e28 remain before float64 overflows."""
    min_variation: float = 1e-280
    """Smallest sum of squares of the outputs. Derived: factors of 1e-28 remain before float64 underflows."""
    square_copies: int = 4  # matrices of dim by dim that whitening holds. Derived: covariance, factor, map, its inverse.
    min_held_out: int = 16
    """Rows held out at least where they are few. Derived: 2⁻¹⁶ is half the normal tail beyond four standard deviations."""
    spare_rows_per_held_out: int = 8
    """Rows beyond the unknowns of which one is held out. Checked by `pytest tests/search/test_hops.py`."""
    grid_rows: int = 4096
    """Rows whose labels show to which grid all were rounded. Checked by `pytest tests/source/test_rounding.py`."""


PROBLEM = ProblemOptions()


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of a recovery, prepared once.

    Attributes
    ----------
    used, fresh : Source
        Whitened by one map; in memory if they fit, else streamed.
    transform : Affine
        From the given inputs to the white ones.
    variation : float
        Sum of squares of the used outputs about their mean: the unit of every relative loss.
    biases : bool
        Whether units have biases.
    distinct : int
        Number of different inputs among the used rows (which hold no exact copies).
    rounding : float
        Mean square rounding error of the labels: of float32, or of their number of decimals.
    repeats : RepeatedAnswers or None
        Answers of a black box to its first inputs, at the beginning and near the end.
    """

    used: Source
    fresh: Source
    transform: Affine
    variation: float
    biases: bool
    distinct: int
    rounding: float
    repeats: RepeatedAnswers | None = None

    @property
    def rows(self) -> int:
        """Number of rows, used and fresh."""
        return self.used.size + self.fresh.size

    @property
    def equations(self) -> int:
        """Number of scalar equations: used rows times outputs."""
        return self.used.size * self.used.outputs

    def given(self, network: Network) -> Network:
        """The network on the given inputs that equals `network` on white inputs."""
        return self.transform.pull_back(network)

    def white(self, network: Network) -> Network:
        """The network on white inputs that equals `network` on the given inputs."""
        return self.transform.inverse().pull_back(network)


def pose(
    source: Source, *, biases: bool, rng: Generator, unknowns: int | None = None, progress: Progress | None = None
) -> Problem:
    """Split, whiten, load into memory, measure the variation: at most six passes. `unknowns` of the fit, if known.

    Exact copies of rows are left out, and rows with one input stay on one side of the split. Some queries of a black box repeat
    its first inputs.
    """
    report_progress(progress, "reading")
    check_memory(
        f"The covariance of {source.dim:,} inputs and what is made of it", PROBLEM.square_copies * source.dim**2,
        "Leave out inputs that do not matter.")
    repeats = _repeat_queries(source) if isinstance(source, Oracle) else None
    parts, distinct = _split(source, rng, unknowns)
    return replace(pose_parts(*parts, biases=biases, distinct=distinct), repeats=repeats)


def pose_parts(used: Source, fresh: Source, *, biases: bool, distinct: int | None = None) -> Problem:
    """The problem for given used and fresh rows."""
    transform, law = whitening_map(used, centred=biases), used.law.white()
    white = used.mapped(transform, law).kept()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        variation = total_variation(white)
    _check_variation(variation, white)
    return Problem(
        white, fresh.mapped(transform, law).kept(), transform, variation, biases, distinct or white.size, _label_rounding(white))


def held_out(size: int, spare: int | None = None) -> int:
    """Rows held out for the certificate: n/20; n/10 up to 100; at most 20,000. Near the counting limit fewer.

    `spare` is the number of rows beyond those that the unknowns take. Used rows beyond them tell right from wrong in the search,
    held-out ones after it: these get an eighth of the spare ones, and at least 16. A wrong unit of ReLU is off on half of the
    inputs or so, and where it is on it does not predict a label to nine digits: 16 exact predictions leave it a chance of 2⁻¹⁶,
    half of that of `CertificateRules.sigmas`.
    """
    usual = max(1, min(20_000, max(size // 20, min(size // 10, 100))))
    return usual if spare is None else min(usual, max(PROBLEM.min_held_out, spare // PROBLEM.spare_rows_per_held_out))


def _split(source: Source, rng: Generator, unknowns: int | None = None) -> tuple[SplitSources, int]:
    """Used and fresh rows, and the number of different inputs among the used ones. Drawn rows do not repeat."""
    spare = None if unknowns is None else max(0, source.size - unknowns // source.outputs)
    share = 1.0 - held_out(source.size, spare) / source.size
    if source.exchangeable:
        parts = source.split(share, rng=rng)
        return parts, parts.first.size
    groups = group_rows(source)
    if groups is None:
        parts = source.split(share, rng=rng)
        return parts, parts.first.size
    if groups.inputs < 2:
        raise TooFewSamples(
            f"All {source.size:,} rows have one input.", "One point does not determine a function.",
            "Give samples at different inputs.", size=source.size)
    parts = split_groups(source, groups, held_out(len(groups.first), spare), rng=rng)
    return parts, count_distinct_inputs(parts.first)


def _repeat_queries(source: Oracle) -> RepeatedAnswers | None:
    """Ask the first rows again, after all others but the last grain. None if the budget is small or spent."""
    reserved = reserved_queries(source)
    if not reserved or source.spent + reserved > source.budget:
        return None
    first = source.read(0, min(REPEATS.rows, reserved))
    x, y = first.x.copy(), first.y.copy()
    source.ready(0, max(len(x), source.size - GRAIN - reserved), source.schedule.progress)
    return ask_again(source, x, y)


def _label_rounding(source: Source) -> float:
    """Mean square rounding error of the labels. A uniform error has a third of its largest square."""
    labels = source.read(0, min(source.size, PROBLEM.grid_rows)).y
    grid = detect_grid(labels)
    return float(np.mean((grid.absolute + grid.relative * np.abs(labels)) ** 2)) / 3.0


def _check_variation(variation: float, source: Source) -> None:
    if source.size < 2:
        raise TooFewSamples(
            f"{source.size} row is left to fit, beside those that are held out.", "One point does not determine a function.",
            "Give more samples, or a larger budget.", size=source.size)
    if not PROBLEM.min_variation < variation < PROBLEM.max_variation:
        raise InvalidInput(
            f"The squares of the outputs of {source.size:,} rows, about their mean, sum to {variation:.3g}.",
            "Numbers of that size overflow or underflow when squared again.",
            "Give the outputs in another unit: divide them by their standard deviation.", variation=variation)
