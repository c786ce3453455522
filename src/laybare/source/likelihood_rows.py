"""Rows that are judged by a likelihood: each with its weight and its group, and the loss that they share.

Weight and group stand beside the outputs, in the last two columns of y, so that every pass over them is `Source.sum` as always.
Weights scale a row's log-likelihood. They are normalised so that they add up to the effective number of rows,

    n_eff = (Σ w)² / Σ w²        (Kish 1965)

which is what tests and penalties count; equal weights are all one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.source.losses import Loss
from laybare.source.protocol import Affine, Law, Source
from laybare.source.sums import Schedule
from laybare.source.views import RowsInMemory


class Labels(NamedTuple):
    """Outputs (n, outputs), weights (n,) and numbers of groups (n,) of a block of rows."""

    y: Array
    weights: Array
    groups: Array


def labels_of(columns: Array) -> Labels:
    """Outputs, weights and groups from the columns of y."""
    return Labels(columns[:, :-2], columns[:, -2], columns[:, -1].astype(np.intp))


@dataclass(frozen=True, eq=False)
class LikelihoodRows:
    """Rows in memory whose y is [outputs, weight, group]; `groups` is the number of groups, 0 if every row is its own."""

    rows: Source
    loss: Loss
    groups: int = 0

    @property
    def dim(self) -> int:
        return self.rows.dim

    @property
    def outputs(self) -> int:
        return self.rows.outputs - 2

    @property
    def size(self) -> int:
        return self.rows.size

    @property
    def labels(self) -> Labels:
        """Of all rows."""
        return labels_of(self.rows.read(0, self.size).y)

    @property
    def effective(self) -> float:
        """The effective number of rows, which the weights add up to."""
        (total,) = self.sum(lambda x, y: (np.asarray(y[:, -2].sum()),), stage="weights")
        return float(total)

    def sum(self, statistic: Statistic, *, stage: str) -> Sums:
        """`statistic` of (x, [outputs, weight, group]) summed over all rows."""
        return self.rows.sum(statistic, stage=stage)

    def with_loss(self, loss: Loss) -> LikelihoodRows:
        """The same rows, judged by another loss."""
        return LikelihoodRows(self.rows, loss, self.groups)


def likelihood_rows(
    source: Source, loss: Loss, weights: Array | None = None, groups: Array | None = None, *, schedule: Schedule, law: Law
) -> LikelihoodRows:
    """The rows of a source with weights (n,) and labels of groups (n,)."""
    x, y = source.read(0, source.size)
    counted = np.ones(len(x)) if weights is None else weights * (weights.sum() / np.sum(weights**2))
    names, numbers = np.unique(np.zeros(len(x)) if groups is None else groups, return_inverse=True)
    columns = np.column_stack([y, counted, numbers.ravel()])
    rows = RowsInMemory(np.ascontiguousarray(x), columns, Affine.identity(source.dim), law, schedule, exchangeable=False)
    return LikelihoodRows(rows, loss, 0 if groups is None else len(names))
