"""The cost of the one verb: source.sum of a Gram matrix against one in-memory product."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measure import Row, blas_threads, peak_memory, race, row
from threadpoolctl import threadpool_limits

SIZE, DIM = 2_000_000, 50
MEMORY = 200e6
"""Bytes that a pass may need beyond the data."""


def bench_sum_gram() -> Iterator[Row]:
    """As many workers as BLAS has threads; the bits must not depend on how many that is.

    The product runs with all BLAS threads and with one, and the faster counts: on a busy machine BLAS's threads wait for each
    other, and beating that would prove nothing.
    """
    from laybare.source import Samples, Schedule

    x = np.random.default_rng(0).standard_normal((SIZE, DIM))
    source = Samples(x, x[:, 0].copy())

    def ours(workers: int) -> np.ndarray:
        return source.with_schedule(Schedule(workers=workers)).sum(gram)[0]

    def product() -> np.ndarray:
        return x.T @ x

    def product_on_one_thread() -> np.ndarray:
        with threadpool_limits(1, user_api="blas"):
            return product()

    threads = blas_threads()
    grown = peak_memory(lambda: ours(threads))
    one, two = ours(1), ours(2)
    assert one.tobytes() == two.tobytes(), "1 and 2 workers give different bits"
    np.testing.assert_allclose(one, product(), rtol=1e-12, atol=1e-12 * SIZE)
    best = race(lambda: ours(threads), product, product_on_one_thread)
    yield row("sum-gram", ours=best.ours, baseline=best.baseline, need=0.7)
    yield row("sum-gram-memory", ours=max(grown, 1), baseline=MEMORY, need=1.0, unit="bytes")


def gram(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray]:
    return (x.T @ x,)
