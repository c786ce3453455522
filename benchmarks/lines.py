"""Networks read by lines: error, queries per parameter, seconds.

    python benchmarks/lines.py [row ...] [--seeds 0-19]

Rows: small wide large scaled coarse trained box. Queries are counted by the black box itself.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

import laybare as lb
from laybare.lines import LinesFound, Reader, read_network

Answer = Callable[[np.ndarray], np.ndarray]


class Run(NamedTuple):
    """One network: its error (infinite if a unit is missing or spurious), queries, queries per parameter, seconds."""

    error: float
    queries: int
    share: float
    seconds: float
    found: LinesFound


def teacher(dim: int, width: int, rng: Generator, smallest: float = 0.5) -> lb.Network:
    weights = rng.standard_normal((width, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    readout = rng.uniform(smallest, 1.5, width) * rng.choice([-1.0, 1.0], width)
    return lb.Network(lb.Layer(weights, 0.5 * rng.standard_normal(width)), readout, 0.3)


def scaled(dim: int, width: int, rng: Generator) -> lb.Network:
    """Rows of length 0.01 to 100, biases up to 20, three units active on less than 1e-4 of Gaussian inputs."""
    net = teacher(dim, width, rng)
    scale, biases = 10.0 ** rng.uniform(-2.0, 2.0, width), rng.uniform(-20.0, 20.0, width)
    biases[:3] = -rng.uniform(3.8, 4.5, 3) * scale[:3]
    return lb.Network(lb.Layer(net.layer.weights * scale[:, None], biases), net.readout, 0.3)


def measure(truth: lb.Network, rng: Generator, f: Answer | None = None, reader: Reader = Reader()) -> Run:
    count = [0]

    def box(x: np.ndarray) -> np.ndarray:
        count[0] += len(x)
        return (f or truth)(x)

    begun = time.perf_counter()
    found = read_network(box, truth.dim, reader, rng=rng)
    seconds = time.perf_counter() - begun
    share = count[0] / (truth.width * (truth.dim + 2) + 1)
    return Run(lb.compare(found.network, truth).max_error, count[0], share, seconds, found)


def show(name: str, runs: list[Run], tol: float) -> None:
    errors, shares = np.array([run.error for run in runs]), np.array([run.share for run in runs])
    wrong = sum(run.found.complete and run.error > tol for run in runs)
    print(
        f"{name:<34}{np.sum(errors < tol):3d}/{len(runs)} < {tol:g}  median {np.median(errors):.0e} max {errors.max():.0e}  "
        f"queries {np.mean([run.queries for run in runs]):9.1f}  per parameter {shares.mean():.2f} max {shares.max():.2f}  "
        f"seconds {np.mean([run.seconds for run in runs]):.2f} max {max(run.seconds for run in runs):.2f}  "
        f"wrong and complete {wrong}", flush=True)


def many(
    name: str, make: Callable[[Generator], lb.Network], seeds: range, tol: float, reader: Reader = Reader(),
    answers: Callable[[lb.Network], Answer] | None = None,
) -> None:
    runs = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = make(rng)
        runs.append(measure(truth, rng, None if answers is None else answers(truth), reader))
    show(name, runs, tol)


def single(truth: lb.Network) -> Answer:
    """The network computed in float32 throughout."""
    W, b, a = (np.asarray(part, dtype=np.float32) for part in (truth.layer.weights, truth.layer.biases, truth.readout))
    return lambda x: np.maximum(x.astype(np.float32) @ W.T + b, 0.0) @ a + np.float32(truth.offset)


def rounded(truth: lb.Network) -> Answer:
    return lambda x: truth(x).astype(np.float32)


def trained(name: str, width: int, seeds: range) -> None:
    from sklearn import datasets
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    data = getattr(datasets, f"load_{name}")()
    x, y = StandardScaler().fit_transform(data.data), (data.target - data.target.mean()) / data.target.std()
    runs = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MLPRegressor(hidden_layer_sizes=(width,), random_state=seed, max_iter=300).fit(x, y)
        layer = lb.Layer(model.coefs_[0].T, model.intercepts_[0])
        truth = lb.Network(layer, model.coefs_[1][:, 0], float(model.intercepts_[1][0]))
        runs.append(measure(truth, np.random.default_rng(seed), model.predict))
    show(f"trained {name} {x.shape[1]}-{width}-1", runs, 1e-9)


def box(low: float, high: float, seeds: range) -> None:
    """Units that bend on more than 1 % of the box are found; the function is exact at random points of it."""
    outside = missed = visible = 0
    errors, queries = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = teacher(10, 8, rng)
        seen: list[float] = []

        def watched(x: np.ndarray, truth: lb.Network = truth, seen: list[float] = seen) -> np.ndarray:
            seen.extend((x.min(), x.max()))
            return truth(x)

        found = read_network(watched, 10, box=(np.full(10, low), np.full(10, high)), rng=rng)
        outside += min(seen) < low or max(seen) > high
        x = rng.uniform(low, high, (100_000, 10))
        share = np.mean(truth.layer.before(x) > 0.0, axis=0)
        near = np.abs(np.abs(found.book.units.normals @ truth.layer.weights.T) - 1.0).min(axis=0) < 1e-9
        often = np.minimum(share, 1.0 - share) > 0.01
        visible, missed = visible + often.sum(), missed + np.sum(often & ~near)
        errors.append(np.abs(found.network(x) - truth(x)).max())
        queries.append(sum(found.queries.values()))
    print(
        f"box [{low:g}, {high:g}]^10, 8 units: {outside} runs asked outside; {missed} of {visible} units that bend on > 1 % "
        "missed; "
        f"median largest error of f on 1e5 points {np.median(errors):.0e}; queries {np.mean(queries):.0f}", flush=True)


def rows(seeds: range) -> dict[str, Callable[[], None]]:
    def small() -> None:
        for dim, width in ((10, 5), (10, 10), (20, 10), (100, 16)):
            many(f"{dim}-{width}-1", lambda rng, d=dim, m=width: teacher(d, m, rng), seeds, 1e-10)

    def wide() -> None:
        for width in (30, 50):
            many(f"10-{width}-1, readouts from .05", lambda rng, m=width: teacher(10, m, rng, 0.05), seeds, 1e-9)

    def large() -> None:
        many("784-32-1", lambda rng: teacher(784, 32, rng), seeds[:5], 1e-8)
        many("784-32-1, precision 1e-11", lambda rng: teacher(784, 32, rng), seeds[:5], 1e-11, Reader(precision=1e-11))
        many("784-128-1", lambda rng: teacher(784, 128, rng), seeds[:3], 1e-8)

    def far() -> None:
        many("10-16-1, scales .01-100, biases 20", lambda rng: scaled(10, 16, rng), seeds, 1e-8)

    def coarse() -> None:
        many("10-16-1, float32 answers", lambda rng: teacher(10, 16, rng), seeds, 1e-3, answers=rounded)
        many("10-16-1, float32 inside", lambda rng: teacher(10, 16, rng), seeds, 1e-3, answers=single)
        many("64-32-1, float32 inside", lambda rng: teacher(64, 32, rng), seeds, 1e-3, answers=single)
        many("10-5-1, 4 decimals", lambda rng: teacher(10, 5, rng), seeds, 1e-2, answers=lambda t: lambda x: np.round(t(x), 4))

    def fitted() -> None:
        for name, width in (("diabetes", 16), ("diabetes", 64), ("breast_cancer", 20), ("wine", 12), ("digits", 32)):
            trained(name, width, seeds[:5])

    def boxes() -> None:
        box(0.0, 1.0, seeds)
        box(-2.0, 2.0, seeds)

    return {"small": small, "wide": wide, "large": large, "scaled": far, "coarse": coarse, "trained": fitted, "box": boxes}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--seeds", default="0-19", help="first and last")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split("-"))
    available = rows(range(first, last + 1))
    for row in given.rows or available:
        available[row]()
        print(f"largest memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB", flush=True)
