"""What lines promise, over fresh seeds: errors, queries counted by the caller, and RandomStart from as many samples beside it.

    pytest -m slow -s tests/lines/test_acceptance.py          prints the table of docs/lines.md

Nothing was set on these seeds. Small versions are in test_read_network.py.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from lines_boxes import Counted, float32_inside, parameters, scaled_teacher, teacher
from numpy.random import Generator
from unfinished_certificate import without_certificate

import laybare as lb
from laybare.assembly.sign_decoding import SIGNS
from laybare.errors import LaybareError
from laybare.numerics.shapes import Array

FIRST, SECOND = 63_000, 65_000
"""The first of the seeds, and of those where a failure on the first ones was mended."""

CONTROL_SECONDS = 5.0
"""Time that each run of the control has."""

Answers = Callable[[lb.Network], Callable[[Array], Array]]


class LinesOutcome(NamedTuple):
    """One network: errors of its numbers and of its function (relative), and what it took. `control`: largest error of
    RandomStart, infinite if it refused."""

    error: float
    function: float
    verdict: str
    width: int
    queries: int
    share: float
    seconds: float
    control: float


def outcome(truth: lb.Network, rng: Generator, answer: Callable[[Array], Array], precision: float | None = None) -> LinesOutcome:
    """Read one black box, the width not told."""
    box, begun = Counted(answer), time.process_time()
    method = lb.Lines(precision=precision) if precision else None
    found = lb.recover(lb.Oracle(box, truth.dim, budget=20 * parameters(truth) + 500), method, rng=rng)
    seconds = time.process_time() - begun
    assert box.queries == sum(found.queries.values())
    x = rng.standard_normal((1000, truth.dim))
    function = np.abs(found(x) - truth(x)).max() / np.abs(truth(x)).max()
    return LinesOutcome(
        lb.compare(found.network, truth).max_error, float(function), found.certificate.verdict, found.network.width,
        found.reading_queries, found.reading_queries / parameters(truth), seconds, control(truth, answer, box.queries, rng))


def control(truth: lb.Network, answer: Callable[[Array], Array], samples: int, rng: Generator) -> float:
    """RandomStart from as many Gaussian samples, the width told; infinite if it refuses. Nobody asks for its certificate."""
    x = rng.standard_normal((samples, truth.dim))
    try:
        with without_certificate():
            found = lb.recover(lb.Samples(x, answer(x)), lb.RandomStart(), truth.width, rng=rng, seconds=CONTROL_SECONDS)
    except LaybareError:
        return np.inf
    return lb.compare(found.network, truth).max_error


def told(name: str, runs: list[LinesOutcome], tol: float) -> None:
    """A row of the table."""
    beside = f"{sum(run.control < tol for run in runs)}/{len(runs)}"
    mean = {field: np.mean([getattr(run, field) for run in runs]) for field in ("queries", "share", "seconds")}
    print(
        f"\n| {name} | {sum(run.error < tol for run in runs)}/{len(runs)} below {tol:g} | {max(run.error for run in runs):.0e} "
        f"| {mean['queries']:,.0f} | {mean['share']:.2f} | {mean['seconds']:.2g} | {beside} |", flush=True)


def exactly(truth: lb.Network) -> Callable[[Array], Array]:
    return truth


def several(
    name: str, make: Callable[[Generator], lb.Network], count: int, tol: float, answers: Answers = exactly, *,
    precision: float | None = None, first: int = FIRST,
) -> list[LinesOutcome]:
    """One outcome for each seed, printed as a row. No network that is wrong may be verified."""
    runs = []
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        truth = make(rng)
        runs.append(outcome(truth, rng, answers(truth), precision))
    told(name, runs, tol)
    assert not [run for run in runs if run.verdict == "verified" and run.error > tol]
    return runs


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "most"), [(10, 5, 200), (10, 10, 380), (20, 10, 500)])
def test_small_networks_to_1e_10(dim: int, width: int, most: int) -> None:
    runs = several(f"{dim}-{width}-1", lambda rng: teacher(dim, width, rng), 20, 1e-10)
    assert all(run.error < 1e-10 and run.verdict == "verified" for run in runs)
    assert np.mean([run.queries for run in runs]) <= most


@pytest.mark.slow
@pytest.mark.parametrize("width", [30, 50])
def test_more_units_than_inputs_to_1e_9(width: int) -> None:
    name, first = f"10-{width}-1, readouts from 0.05", SECOND if width == 50 else FIRST
    runs = several(name, lambda rng: teacher(10, width, rng, smallest=0.05), 20, 1e-9, first=first)
    assert sum(run.error < 1e-9 for run in runs) >= 19
    assert np.mean([run.share for run in runs]) <= 3.0


@pytest.mark.slow
def test_a_hundred_inputs_to_1e_10() -> None:
    runs = several("100-16-1", lambda rng: teacher(100, 16, rng), 20, 1e-10)
    assert all(run.error < 1e-10 for run in runs)
    assert np.mean([run.share for run in runs]) <= 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("width", "count", "precision", "tol", "most", "seconds"), [
    (32, 5, None, 1e-8, 1.3, 20.0), (32, 5, 1e-11, 1e-11, 2.5, np.inf), (128, 3, None, 1e-8, 1.5, 180.0)])
def test_784_inputs(width: int, count: int, precision: float | None, tol: float, most: float, seconds: float) -> None:
    name = f"784-{width}-1" + (f", precision {precision:g} asked" if precision else "")
    runs = several(name, lambda rng: teacher(784, width, rng), count, tol, precision=precision)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest memory so far: {memory:.1f} GB", flush=True)
    assert all(run.error < tol and run.share <= most and run.seconds < seconds for run in runs)
    assert memory < 4.0


@pytest.mark.slow
def test_scales_of_any_size_and_rare_units() -> None:
    """Rows of length 0.01 to 100, biases up to 20, three of sixteen units active on less than 1e-4 of Gaussian inputs."""
    runs = several("10-16-1, rows of 0.01 to 100, rare units", lambda rng: scaled_teacher(10, 16, rng), 20, 1e-6)
    assert all(run.error < 1e-6 and run.width == 16 for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width"), [(10, 16), (64, 32)])
def test_networks_that_compute_in_float32(dim: int, width: int) -> None:
    runs = several(f"{dim}-{width}-1 in float32", lambda rng: teacher(dim, width, rng), 20, 1e-3, float32_inside)
    print(f"function: {max(run.function for run in runs):.0e} of its largest value", flush=True)
    assert all(run.error < 1e-3 and run.function < 1e-5 and run.verdict == "verified" for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width"), [(6, 4), (10, 5), (10, 16)])
def test_four_decimals_are_never_wrong_and_verified(dim: int, width: int) -> None:
    """Recovered to the floor, or doubtful."""
    runs = several(
        f"{dim}-{width}-1, answers of 4 decimals", lambda rng: teacher(dim, width, rng), 20, 1e-2,
        lambda truth: lambda x: np.round(truth(x), 4))
    verified = [run for run in runs if run.verdict == "verified"]
    print(f"verified: {len(verified)}, function {max((run.function for run in verified), default=np.nan):.0e}", flush=True)
    assert all(run.width == width and run.function < 1e-3 for run in verified)
    assert not [run for run in runs if run.verdict == "refuted" and run.error < 1e-2]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "width"), [
    ("diabetes", 16), ("diabetes", 64), ("digits", 32), ("breast_cancer", 20), ("wine", 12)])
def test_trained_regressors(name: str, width: int) -> None:
    from sklearn import datasets
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    data = getattr(datasets, f"load_{name}")()
    x, y = StandardScaler().fit_transform(data.data), (data.target - data.target.mean()) / data.target.std()
    runs = []
    for seed in range(FIRST, FIRST + 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MLPRegressor(hidden_layer_sizes=(width,), random_state=seed, max_iter=300).fit(x, y)
        runs.append(outcome(lb.from_sklearn(model), np.random.default_rng(seed), model.predict))
    told(f"trained on {name}, {x.shape[1]}-{width}-1", runs, 1e-9)
    assert all(run.error < 1e-9 and run.share <= 4.0 for run in runs)
    decided = "verified" if width <= x.shape[1] + SIGNS.max_free else "doubtful"  # which side of a unit is active
    assert {run.verdict for run in runs} == {decided}


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 2.0)])
def test_boxes_are_never_left(low: float, high: float) -> None:
    """10-8-1: units that bend on more than 1 % of the box are exact, and the others are said to be part of its linear map."""
    visible = exact = 0
    queries, missed = [], []
    for seed in range(FIRST, FIRST + 20):
        rng = np.random.default_rng(seed)
        truth = teacher(10, 8, rng)
        box = Counted(truth)
        found = lb.recover(lb.Oracle(box, 10, box=(low, high)), rng=rng)
        assert low <= box.low and box.high <= high
        assert "do not bend inside the box are part of its linear map" in found.certificate.explain()
        x = rng.uniform(low, high, (20_000, 10))
        often = (lambda share: np.minimum(share, 1.0 - share) > 0.01)(np.mean(truth.layer.before(x) > 0.0, axis=0))
        rows = found.network.layer.rows / np.linalg.norm(found.network.layer.weights, axis=1)[:, None]
        apart = np.minimum(*(np.abs(truth.layer.rows[:, None] - sign * rows).max(axis=2) for sign in (1.0, -1.0))).min(axis=1)
        visible, exact = visible + int(often.sum()), exact + int(np.sum(apart[often] < 1e-8))
        missed.append(float(np.mean(np.abs(found(x) - truth(x)) > 1e-8)))
        queries.append(found.reading_queries)
    print(
        f"\n| 10-8-1 in [{low:g}, {high:g}]^10 | {exact} of {visible} units that bend on 1 % of the box | function wrong on "
        f"{np.mean(missed):.1e} of it, at most {max(missed):.1e} | {np.mean(queries):,.0f} |", flush=True)
    assert exact == visible and max(missed) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parallel", "duplicate", "opposite"])
def test_units_on_parallel_hyperplanes_or_on_one(kind: str) -> None:
    """Parallel ones are two, duplicates one; an opposite pair is said to be that."""
    for seed in range(FIRST, FIRST + 20):
        rng = np.random.default_rng(seed)
        truth = teacher(8, 6, rng)
        row, bias = truth.layer.weights[0], truth.layer.biases[0]
        w, b, width = {
            "parallel": (row, bias + 0.7, 7), "duplicate": (3.0 * row, 3.0 * bias, 6), "opposite": (-row, -bias, 7)}[kind]
        layer = lb.Layer(np.vstack([truth.layer.weights, w]), np.append(truth.layer.biases, b))
        double = lb.Network(layer, np.append(truth.readout, 0.8), 0.3)
        found = lb.recover(lb.Oracle(Counted(double), 8), rng=rng)
        x = rng.standard_normal((300, 8))
        assert found.certificate.verdict == "verified" and found.network.width == width
        assert np.abs(found(x) - double(x)).max() < 1e-9
        said = found.certificate.explain()
        assert "share a hyperplane and its active side are one" in said
        assert ("carry two opposite units" in said) == (kind == "opposite")
