"""The fixed binary tree in which blocks are added: the same bits on one thread, on many, and on many machines.

Blocks 0..n are added in pairs, pairs in pairs, and so on; what is left over at the end is added from the right. A run of 2^j
blocks that begins at a multiple of 2^j is one node of that tree. So a worker may add up such a run, and a tree over the runs,
whatever their level, is the tree over the blocks: the last run may be shorter, since what is left over is added from the right
there too. Rounding grows with log n.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Sums


class Tree:
    """Pairwise summation of a stream: partial[i] holds the sum of 2^i consecutive blocks, or nothing."""

    def __init__(self) -> None:
        self.partial: list[Sums | None] = []

    def add(self, sums: Sums) -> None:
        """The next block."""
        for level, held in enumerate(self.partial):
            if held is None:
                self.partial[level] = sums
                return
            sums = _plus(held, sums, own=level > 0)  # from the second level on, held is a sum that nobody else has
            self.partial[level] = None
        self.partial.append(sums)

    def value(self) -> Sums:
        """The sum of all blocks so far."""
        total: Sums | None = None
        for held in self.partial:
            if held is not None:
                total = held if total is None else _plus(held, total)
        return total if total is not None else ()


def added(nodes: Iterable[Sums]) -> Sums:
    """The sum of nodes of one level, in their order; only the last may be shorter than the others."""
    tree = Tree()
    for node in nodes:
        tree.add(node)
    return tree.value()


def _plus(left: Sums, right: Sums, *, own: bool = False) -> Sums:
    """The sum of both; into `left` if that may be overwritten."""
    shapes = [part.shape for part in left], [part.shape for part in right]
    if shapes[0] != shapes[1]:
        raise InvalidInput(
            f"The statistic returned arrays of shapes {shapes[0]} for one block and {shapes[1]} for another.",
            "Only arrays whose shape does not depend on the number of rows can be added up.",
            "Sum over the rows inside the statistic.", shapes=shapes)
    if own:
        return tuple(np.add(a, b, out=a) if a.dtype == b.dtype and a.ndim else np.asarray(a + b) for a, b in zip(
            left, right, strict=True))
    return tuple(np.asarray(a + b) for a, b in zip(left, right, strict=True))
