"""Whole recoveries, certificate included, against scikit-learn's MLPRegressor on the same data, with the errors of both."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, peak_memory, row, seconds

DIM, WIDTH, SIZE, NOISE = 50, 20, 100_000, 0.1
SMALL = (20, 10, 20_000)
SEEDS = range(1, 9)
"""Of the teachers that ratios are taken over."""

BEFORE = {0.0: 99, 0.1: 615}
"""Passes of version 0.1 at d=6, k=4, n=1500 with the width not given, without and with noise."""


def bench_recover_noiseless() -> Iterator[Row]:
    """d=50, m=20, n=100,000: exact, in a fifth of the time of L-BFGS."""
    yield from _against("recover-noiseless", 0.0, {"lbfgs": 5.0})


def bench_recover_noisy() -> Iterator[Row]:
    """The same with noise of a tenth of sd(y): at the floor, in a fifth of the time of L-BFGS and less than that of Adam."""
    yield from _against("recover-noisy", NOISE, {"lbfgs": 5.0, "adam": 1.0})


def bench_recover_threads() -> Iterator[Row]:
    """CPU time over wall-clock time of noisy recoveries: how many of two cores are busy."""
    import laybare as lb

    _warm()
    for name, (dim, width, size) in {"recover-threads-busy": (DIM, WIDTH, SIZE), "recover-threads-busy-small": SMALL}.items():
        spent = np.zeros(2)
        for seed in SEEDS:
            _, x, y = _planted(NOISE, dim, width, size, seed)
            begun = np.array([time.process_time(), time.perf_counter()])
            lb.recover(lb.Samples(x, y), width=width, rng=0)
            spent += np.array([time.process_time(), time.perf_counter()]) - begun
        yield row(name, ours=1.0, baseline=float(spent[0] / spent[1]), need=1.7, unit="cores")


def bench_recover_untold() -> Iterator[Row]:
    """A width that is not given costs at most twice the time of one that is: the sums over several teachers, and the worst."""
    import laybare as lb

    _warm()
    for name, (dim, width, size) in {"recover-not given": (DIM, WIDTH, SIZE), "recover-not given-small": SMALL}.items():
        stated, not_given = [], []
        for seed in SEEDS:
            samples = lb.Samples(*_planted(NOISE, dim, width, size, seed)[1:])
            stated.append(seconds(partial(lb.recover, samples, width=width, rng=0)))
            not_given.append(seconds(partial(lb.recover, samples, width=None, rng=0)))
        yield row(name, ours=sum(not_given), baseline=sum(stated), need=0.5)
        worst = int(np.argmax(np.array(not_given) / stated))
        yield row(f"{name}-worst", ours=not_given[worst], baseline=stated[worst], need=0.0)


def bench_recover_small() -> Iterator[Row]:
    """d=20, m=10, n=20,000, noise 0.1: 23 s in version 0.1 on this kind of machine."""
    import laybare as lb

    _warm()
    _, x, y = _planted(NOISE, *SMALL)
    yield row("recover-small", ours=seconds(lambda: lb.recover(lb.Samples(x, y), width=10, rng=0)), baseline=23.0, need=8.0)


def bench_recover_certificate() -> Iterator[Row]:
    """The share of noisy recoveries that the certificate takes: the median over several teachers, and over all of them."""
    import laybare as lb
    from laybare.pipeline import main_loop as loop

    _warm()
    plain, spent, whole = loop.certify, [], []

    def timed(*given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return plain(*given, **named)
        finally:
            spent.append(time.perf_counter() - begun)

    loop.certify = timed
    try:
        for seed in SEEDS:
            samples = lb.Samples(*_planted(NOISE, seed=seed)[1:])
            whole.append(seconds(partial(lb.recover, samples, width=WIDTH, rng=0)))
    finally:
        loop.certify = plain
    share = float(np.median(np.array(spent) / whole))
    yield row("recover-certificate-share", ours=share, baseline=0.3, need=1.0, unit="of the time")
    yield row("recover-certificate-share-of-all", ours=sum(spent) / sum(whole), baseline=0.3, need=0.0, unit="of the time")


def bench_recover_file() -> Iterator[Row]:
    """d=20, m=10, noise 0.1, from a memory-mapped file of ten million rows: time per row against a million, memory beyond it."""
    import laybare as lb

    _warm()
    per_row, memory, error = [], 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for size in (1_000_000, 10_000_000):
            truth, x, y = _planted_in(Path(folder) / str(size), size)
            found: list[lb.Recovery] = []
            begun = time.perf_counter()
            memory = peak_memory(
                lambda x=x, y=y, found=found: found.append(lb.recover(lb.Samples(x, y), width=10, rng=0)), own=True)
            per_row.append((time.perf_counter() - begun) / size)
            error = lb.compare(found[0].network, truth).max_error
    yield row("recover-file-per-row", ours=1e6 * per_row[1], baseline=1e6 * per_row[0], need=1 / 1.5, unit="us")
    yield row("recover-file-memory", ours=memory / 1e6, baseline=500.0, need=1.0, unit="MB")
    yield row("recover-file-error", ours=error, baseline=1e-2, need=1.0, unit="error")


def _planted_in(folder: Path, size: int) -> tuple[Any, Any, Any]:
    """The same in .npy files, block by block, memory-mapped."""
    import laybare as lb

    folder.mkdir()
    rng, block = np.random.default_rng(1), 200_000
    truth = lb.random_network(dim=20, width=10, rng=rng)
    scale = NOISE * truth(rng.standard_normal((block, 20))).std()
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float64, (size, 20))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (size,))
    for start in range(0, size, block):
        rows = slice(start, start + block)
        x[rows] = rng.standard_normal((len(x[rows]), 20))
        y[rows] = truth(x[rows]) + scale * rng.standard_normal(len(y[rows]))
    x.flush(), y.flush()
    return truth, np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def bench_recover_wide() -> Iterator[Row]:
    """784-32-1 from a start at cosine 0.9, 76,000 samples, certificate included; against Adam."""
    import laybare as lb

    rng = np.random.default_rng(11)
    truth = lb.random_network(784, 32, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((76_000, 784))
    y = truth(x)
    aside = rng.standard_normal(truth.layer.weights.shape)
    aside *= np.tan(np.arccos(0.9)) * np.linalg.norm(truth.layer.weights, axis=1, keepdims=True) / np.linalg.norm(
        aside, axis=1, keepdims=True)
    start = lb.Network(lb.Layer(truth.layer.weights + aside, truth.layer.biases), truth.readout, truth.offset)
    found: list[lb.Recovery] = []
    ours = seconds(lambda: found.append(lb.refine(lb.Samples(x, y), start, rng=0)))
    peer = _peer("adam", 32)
    theirs = seconds(lambda: peer.fit(x, y))
    yield row("recover-wide", ours=ours, baseline=theirs, need=0.0)
    yield row("recover-wide-minute", ours=ours, baseline=60.0, need=1.0)
    yield row(
        "recover-wide-error", ours=lb.compare(found[0].network, truth).max_error,
        baseline=lb.compare(lb.from_sklearn(peer), truth).max_error, need=1e6, unit="error")


def bench_passes() -> Iterator[Row]:
    """Passes over the data of a recovery with the width not given, against version 0.1; with noise many are refits of other
    activations, which that version did not try."""
    import laybare as lb

    for noise, before in BEFORE.items():
        rng = np.random.default_rng(1)
        truth = lb.random_network(dim=6, width=4, rng=rng)
        x = rng.standard_normal((1500, 6))
        y = truth(x)
        seen: Counter[str] = Counter()
        schedule = lb.source.Schedule(progress=lambda event, seen=seen: seen.update([event.stage]))
        lb.recover(lb.Samples(x, y + noise * y.std() * rng.standard_normal(1500), schedule=schedule), rng=0)
        yield row(f"passes-noise-{noise:g}", ours=seen.total(), baseline=before, need=1.5, unit="passes")


def _warm() -> None:
    """Everything imported, as it is for the peer."""
    import laybare as lb

    _, x, y = _planted(NOISE, 3, 2, 400)
    lb.recover(lb.Samples(x, y), rng=0)


def _planted(noise: float, dim: int = DIM, width: int = WIDTH, size: int = SIZE, seed: int = 1) -> tuple[Any, Any, Any]:
    """A teacher, inputs, and outputs with noise of such a share of their spread."""
    import laybare as lb

    rng = np.random.default_rng(seed)
    truth = lb.random_network(dim=dim, width=width, rng=rng)
    x = rng.standard_normal((size, dim))
    y = truth(x)
    return truth, x, y + noise * y.std() * rng.standard_normal(size)


def _against(name: str, noise: float, solvers: dict[str, float]) -> Iterator[Row]:
    import laybare as lb

    _warm()
    truth, x, y = _planted(noise)
    rng = np.random.default_rng(2)
    found: list[lb.Recovery] = []
    ours = seconds(lambda: found.append(lb.recover(lb.Samples(x, y), width=WIDTH, rng=0)))
    error = lb.compare(found[0].network, truth).max_error
    for solver, need in solvers.items():
        peer = _peer(solver, WIDTH)
        yield row(f"{name}-{solver}", ours=ours, baseline=seconds(lambda peer=peer: peer.fit(x, y)), need=need)
        theirs = lb.compare(lb.from_sklearn(peer), truth).max_error
        yield row(f"{name}-{solver}-error", ours=max(error, 1e-17), baseline=theirs, need=0.5, unit="error")
    if noise:
        fresh = rng.standard_normal((SIZE, DIM))
        sigma2, unknowns = (noise * truth(x).std()) ** 2, WIDTH * (DIM + 1) + 1
        excess = float(np.mean((found[0].network(fresh) - truth(fresh)) ** 2))
        yield row(f"{name}-floor", ours=excess, baseline=sigma2 * unknowns / (0.95 * SIZE), need=0.9, unit="excess")


def _peer(solver: str, width: int) -> Any:
    from sklearn.neural_network import MLPRegressor

    warnings.simplefilter("ignore")
    options = {"max_iter": 5000, "max_fun": 50_000, "tol": 1e-9, "alpha": 0.0} if solver == "lbfgs" else {}
    return MLPRegressor(hidden_layer_sizes=(width,), solver=solver, random_state=0, **options)
