"""Counts, labels and heavy tails from planted networks: how many are found, how many of these are verified, and none wrongly.

Networks of one to three ReLU units on two to five white inputs, from `random_network`. Their outputs, scaled to the standard
deviation of the kind, are logarithms of means of Poisson counts, log odds of labels, or means with t₃ noise; `loss` is told,
width and all else are not. Right: every parameter within six of its standard errors, as in `plain-noise`. Of the wrong ones those
are counted that lack no more than the summary says can be seen, relative to the network's outputs. The control is one random
start at the true width, by the same likelihood: what a single fit does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.search.settings import Search
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.certificates import lacks_only_unseen, largest_miss, right_and_verified, wrong_and_verified
from laybare.studies.study import Study, StudyMeasurement, table


@dataclass(frozen=True, kw_only=True)
class LikelihoodStudyRules:
    """The planted problems."""

    max_dim: int = 5  # Inputs, from two. Convention: small enough that labels can tell.
    max_width: int = 3  # Units, from one. Convention: as the inputs.
    degrees_of_freedom: float = 3.0  # Of the heavy tails. Convention: the smallest whole number with a variance.


PLANTED = LikelihoodStudyRules()


class Kind(NamedTuple):
    """A kind of rows: its loss, the standard deviation and mean of the outputs, how rows are drawn from them."""

    loss: str
    spread: float
    level: float
    draw: Callable[[Array, Generator], Array]


KINDS = {
    "poisson": Kind("poisson", 0.7, 0.5, lambda eta, rng: rng.poisson(np.exp(eta)).astype(float)),
    "bernoulli": Kind("bernoulli", 2.0, 0.0, lambda eta, rng: (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)),
    "t3": Kind("huber", 1.0, 0.0, lambda eta, rng: eta + 0.3 * rng.standard_t(PLANTED.degrees_of_freedom, size=len(eta)))}


class LikelihoodGrid(NamedTuple):
    """Kinds, and rows of each."""

    rows: tuple[tuple[str, int], ...]


class LikelihoodCell(NamedTuple):
    """A kind and its number of rows."""

    kind: str
    rows: int


class LikelihoodRun(NamedTuple):
    """Whether the network is right, its verdict, whether the control is right, the seconds, and whether a wrong one lacks only
    what cannot be seen."""

    right: bool
    verdict: str
    control: bool
    seconds: float
    admitted: bool = False

    @property
    def wrong_as_far_as_seen(self) -> bool:
        return wrong_and_verified(self) and self.admitted


def plant(cell: LikelihoodCell, seed: int) -> tuple[Network, Array, Array]:
    """A network and rows of its kind."""
    kind, rng = KINDS[cell.kind], np.random.default_rng([seed, sum(map(ord, cell.kind))])
    dim, width = int(rng.integers(2, PLANTED.max_dim + 1)), int(rng.integers(1, PLANTED.max_width + 1))
    raw, x = random_network(dim, width, rng=rng), rng.standard_normal((cell.rows, dim))
    outputs = raw(x)
    scale = kind.spread / float(outputs.std())
    offset = kind.level + scale * (float(np.asarray(raw.offset)) - float(outputs.mean()))
    network = Network(raw.layer, scale * np.asarray(raw.readout), offset)
    return network, x, kind.draw(network(x), rng)


def judge(cell: LikelihoodCell, seed: int) -> LikelihoodRun:
    """Plant, recover, judge; and the control."""
    truth, x, y = plant(cell, seed)
    loss, begun = KINDS[cell.kind].loss, time.process_time()
    found = _recovered(x, y, loss, seed)
    seconds = time.process_time() - begun
    control = _recovered(x, y, loss, seed, method=RandomStart(search=Search(spares=0, hops=0)), width=truth.width)
    if found is None:
        return LikelihoodRun(False, "refused", _is_right(control, truth), seconds)
    admitted = lacks_only_unseen(found, truth, Samples(x, truth(x)))
    return LikelihoodRun(_is_right(found, truth), found.certificate.verdict, _is_right(control, truth), seconds, admitted)


def _recovered(
    x: Array, y: Array, loss: str, seed: int, *, method: RandomStart | None = None, width: int | None = None
) -> Recovery | None:
    try:
        return recover(x, y, method=method, width=width, loss=loss, rng=seed)
    except LaybareError:
        return None


def _is_right(found: Recovery | None, truth: Network) -> bool:
    return found is not None and largest_miss(found.network, truth, found.certificate.standard_errors) <= 1.0


def _cells(grid: LikelihoodGrid) -> list[LikelihoodCell]:
    return [LikelihoodCell(*one) for one in grid.rows]


def _sentence(m: StudyMeasurement) -> str:
    parts = (
        f"{row.kind}: {row.right} of {row.runs} right, {row.right_and_verified} of these verified, {row.wrong_and_verified} "
        f"wrong ones verified, {row.wrong_as_far_as_seen} of which lack only what cannot be seen, one random start "
        f"{row.control} right" for row in m.rows)
    return "; ".join(parts) + "."


LIKELIHOODS = Study(
    "likelihoods", "Planted networks behind counts, labels and heavy tails, by their own likelihood",
    "At least four in five of the right ones are verified.",
    quick=LikelihoodGrid((("poisson", 4000), ("bernoulli", 8000), ("t3", 2000))),
    full=LikelihoodGrid((("poisson", 4000), ("poisson", 16_000), ("bernoulli", 8000), ("bernoulli", 32_000), ("t3", 2000),
                         ("t3", 8000))), seeds=50,
    cells=_cells, run_cell=judge,
    table=table(
        "kind", "rows", runs=col.count, right=col.total("right"), right_and_verified=col.total(right_and_verified),
        wrong_and_verified=col.total(wrong_and_verified),
        wrong_as_far_as_seen=col.total("wrong_as_far_as_seen"), control=col.total("control"), median_s=col.median("seconds")),
    sentence=_sentence)
