"""Moments against the usual ways to compute them. Every rival runs on one BLAS thread; ours goes through `source.sum`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from measure import Row, peak_memory, race, row, seconds

SIZE = 100_000
EINSUM_SIZE = 1_000
"""einsum(optimize=True) forms no products it could reuse: 90 s at full size, so it is timed on fewer rows and scaled."""

MEMORY = 200e6
"""Bytes that a streamed pass may need beyond the data."""


def bench_moment4() -> Iterator[Row]:
    """All moments of order ≤ 4 in 20 dimensions, packed, against the raw fourth moment as a full tensor."""
    from laybare.source.sums import single_blas_thread

    ours, x, y = _ours(20, 4)
    with single_blas_thread():
        _check(ours()[0], khatri_rao(x, y, 4), 4)
        best = race(ours, lambda: khatri_rao(x, y, 4), repeats=5)
        few = slice(EINSUM_SIZE)
        einsum = min(seconds(lambda: einsum4(x[few], y[few])) for _ in range(3)) * SIZE / EINSUM_SIZE
        yield row("moment4-einsum", ours=best.ours, baseline=einsum, need=300.0)
        yield row("moment4-khatri-rao", ours=best.ours, baseline=best.baseline, need=1.5)
        yield from _torch("moment4-torch", ours, x, y, 4)


def bench_moment3() -> Iterator[Row]:
    """All moments of order ≤ 3 in a subspace of 10 dimensions, against the raw third moment there."""
    from laybare.source.sums import single_blas_thread

    ours, x, y = _ours(10, 3)
    with single_blas_thread():
        _check(ours()[0], khatri_rao(x, y, 3), 3)
        best = race(ours, lambda: khatri_rao(x, y, 3), repeats=15)
        yield row("moment3-khatri-rao", ours=best.ours, baseline=best.baseline, need=2.0)
        yield from _torch("moment3-torch", ours, x, y, 3)


def bench_moment6_memory() -> Iterator[Row]:
    """All moments of order ≤ 6 in 8 dimensions from a million rows."""
    from laybare.moments import packed_moments
    from laybare.source import Samples

    rng = np.random.default_rng(0)
    source = Samples(rng.standard_normal((1_000_000, 8)), rng.standard_normal(1_000_000))
    grown = peak_memory(lambda: packed_moments(source, 6))
    yield row("moment6-memory", ours=max(grown, 1), baseline=MEMORY, need=1.0, unit="bytes")


def khatri_rao(x: np.ndarray, y: np.ndarray, order: int) -> np.ndarray:
    """E[y x^⊗order] as a matrix: (n × d²)ᵀ diag(y) (n × d^(order-2))."""
    pairs = (x[:, :, None] * x[:, None]).reshape(len(x), -1)
    other = pairs if order == 4 else x
    return pairs.T @ (y * other) / len(x)


def einsum4(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("n,ni,nj,nk,nl->ijkl", y[:, 0], x, x, x, x, optimize=True)


def _ours(dim: int, order: int) -> tuple[Callable[[], np.ndarray], np.ndarray, np.ndarray]:
    """Raw packed sums by one pass (Hermite corrections included), and the data."""
    from laybare.moments import HermiteMoments, measure
    from laybare.source import Samples, Schedule

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((SIZE, dim)), rng.standard_normal((SIZE, 1))
    source = Samples(x, y, schedule=Schedule(workers=1))
    return (lambda: measure(source, HermiteMoments(order)).values), x, y


def _check(found: np.ndarray, raw: np.ndarray, order: int) -> None:
    """Entries without a repeated index have no Hermite correction: they must agree."""
    dim = round(raw.size ** (1 / order))
    from laybare.moments.packed import degree_slice, lexicographic_rank

    index = np.arange(order)
    ours = found[degree_slice(dim, order)][lexicographic_rank(index[None], dim)[0]]
    np.testing.assert_allclose(ours, raw.reshape((dim,) * order)[tuple(index)], rtol=1e-9, atol=1e-12)


def _torch(name: str, ours: Callable[[], np.ndarray], x: np.ndarray, y: np.ndarray, order: int) -> Iterator[Row]:
    """The same Khatri-Rao product in torch, if it is installed."""
    if find_spec("torch") is None:
        return
    import torch

    torch.set_num_threads(1)
    a, b = torch.from_numpy(x), torch.from_numpy(y)

    def rival() -> torch.Tensor:
        pairs = (a[:, :, None] * a[:, None]).reshape(len(a), -1)
        return pairs.T @ (b * (pairs if order == 4 else a)) / len(a)

    best = race(ours, rival, repeats=5)
    yield row(name, ours=best.ours, baseline=best.baseline, need=1.0)
