"""Score moments E[y S_k(x)], S_k = (-1)^k ∇^k p / p, for inputs with a smooth density p that need not be normal.

Stein's identity. Integrating by parts k times, E[f(x) S_k(x)] = E[∇^k f(x)]. For f = Σᵢ aᵢ act(wᵢ·x + bᵢ) that is
Σᵢ aᵢ E[act⁽ᵏ⁾(wᵢ·x + bᵢ)] wᵢ⊗…⊗wᵢ: the hidden weights are its components, whatever the law. For N(0, I) S_k is He_k.
It fails for laws with edges (p must vanish at infinity), and where E[act⁽ᵏ⁾] = 0. Error O(n^-½) with the variance of y S_k,
which grows with k and with the tails of the scores; time and memory n·d^k, one block at a time.
Source: Janzamin, Sedghi and Anandkumar (2014), Score function features for discriminative learning, Theorem 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments.measurement import measure
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source


@dataclass(frozen=True)
class ScoreMoments:
    """Moment: E[y S_k(x)], (outputs, d, …, d), by `law.score(x, order)` -> (rows, d, …, d)."""

    law: Any
    order: int

    def __call__(self, x: Array, y: Array) -> Sums:
        found, shape = np.asarray(self.law.score(x, self.order)), (len(x), *(x.shape[1],) * self.order)
        if found.shape != shape:
            raise InvalidInput(
                f"{show_value(self.law)}.score(x, {self.order}) has shape {found.shape} for x of shape {x.shape}.",
                "It is one tensor per row.", f"Return an array of shape {shape}.", shape=found.shape)
        return (np.tensordot(y, found, axes=(0, 0)),)

    def read(self, sums: Sums, size: int) -> Array:
        return sums[0] / size


def score_moments(source: Source, order: int) -> Array:
    """E[y S_k(x)] by the score of the law of `source`, (outputs, d, …, d); one pass."""
    if not hasattr(source.law, "score"):
        raise InvalidInput(
            f"The law of the inputs is {show_value(source.law)}, which has no score.",
            "Score moments need the derivatives of the density of the inputs.",
            "Give a law with score(x, order), as docs/adding.md has one; for normal inputs use HermiteMoments.")
    return measure(source, ScoreMoments(source.law, order), stage=f"score moments of order {order}")


def independent_score(scores: Sequence[Array]) -> Array:
    """S_k of independent coordinates, (rows, d, …, d), from those of one coordinate, S_1, …, S_k, each (rows, d); k up to 3.

    An entry is a product over its different coordinates, each at the order at which it appears.
    """
    order, first = len(scores), scores[0]
    if order not in (1, 2, 3):
        raise InvalidInput(f"{order} orders of scores.", "Tensors of order 1 to 3 are formed.", "Give S_1, …, S_k, k up to 3.")
    dim = first.shape[1]
    letters = "ijl"[:order]
    tensor: Array = np.einsum(",".join(f"n{letter}" for letter in letters) + f"->n{letters}", *[first] * order)
    each = np.arange(dim)
    for one, other in combinations(range(order), 2):
        view = np.moveaxis(tensor, (1 + one, 1 + other), (1, 2))
        pair = scores[1]
        view[:, each, each] = pair[:, :, None] * first[:, None] if order == 3 else pair
    if order == 3:
        tensor[:, each, each, each] = scores[2]
    return tensor
