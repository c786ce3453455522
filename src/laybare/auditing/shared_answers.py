"""One log for all runs of an audit: no query is asked twice, and its fingerprint says which answers the audit rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from laybare.errors import LaybareError
from laybare.numerics.shapes import Array
from laybare.source.samples import row_keys


class CachedBlackBox:
    """A black box that is asked each query once. After `rewind` the answers are given again in the order in which they came.

    So a point that was asked twice, to measure noise, has its two answers again.
    """

    def __init__(self, ask: Callable[[Array], Array]) -> None:
        self._ask = ask
        self._answers: dict[bytes, list[Array]] = {}
        self._given: Counter[bytes] = Counter()
        self._hash = blake2b(digest_size=16)
        self.failure: LaybareError | None = None
        """Why the black box did not answer, once it did not."""

    def rewind(self) -> None:
        """A new run begins."""
        self._given.clear()

    @property
    def fingerprint(self) -> str:
        """Hash of all queries and answers so far, in their order; 32 hex digits."""
        return self._hash.hexdigest()

    def __call__(self, x: Array) -> Array:
        numbers, keys = [], row_keys(x)
        given = self._given.copy()
        for key in keys:
            numbers.append(given[key])
            given[key] += 1
        new = [i for i, key in enumerate(keys) if numbers[i] >= len(self._answers.get(key, ()))]
        if new:
            try:
                answers = self._ask(x[new])
            except LaybareError as error:
                self.failure = error
                raise
            self._hash.update(np.ascontiguousarray(x[new]).tobytes() + np.ascontiguousarray(answers).tobytes())
            for i, answer in zip(new, answers, strict=True):
                self._answers.setdefault(keys[i], []).append(answer)
        self._given = given
        return np.array([self._answers[key][number] for key, number in zip(keys, numbers, strict=True)])
