"""Who belongs to whom: pair the rows of a cost matrix with its columns, as many as there are of the fewer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.levels import ROUNDING
from laybare.shapes import Array


class Pairing(NamedTuple):
    """Row rows[p] goes with column columns[p]."""

    rows: Array
    columns: Array


def hungarian(cost: Array) -> Pairing:
    """The pairing with the smallest sum of costs. Time O(k³)."""
    from scipy.optimize import linear_sum_assignment

    return Pairing(*linear_sum_assignment(cost))


def bottleneck(cost: Array, tie_break: Array | None = None) -> Pairing:
    """A pairing whose largest cost is as small as possible; among those, the one with the smallest sum of `tie_break`.

    A maximum over units, as in the papers' error metrics, needs this one: the Hungarian pairing may exceed its largest cost.
    Costs within rounding of the smallest maximum count as optimal, so that none of them forbids an equally good pairing.
    """
    limit = bottleneck_cost(cost)
    sums = cost if tie_break is None else tie_break
    return hungarian(np.where(cost <= limit + ROUNDING * max(1.0, limit), sums, np.inf))


def bottleneck_cost(cost: Array) -> float:
    """The largest cost of the best such pairing: binary search over the costs for the first that allows a full matching."""
    if not cost.size:
        return 0.0
    costs = np.unique(cost)
    short = cost if cost.shape[0] <= cost.shape[1] else cost.T
    low, high = int(np.searchsorted(costs, short.min(axis=1).max())), len(costs) - 1
    while low < high:
        middle = (low + high) // 2
        if _allows_all(short <= costs[middle]):
            high = middle
        else:
            low = middle + 1
    return float(costs[low])


def _allows_all(edges: Array) -> bool:
    """Can every row have a column of its own?"""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return bool((maximum_bipartite_matching(csr_array(edges), perm_type="column") >= 0).all())
