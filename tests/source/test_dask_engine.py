"""Passes on a Dask cluster: the bits of the local pass, whatever the chunks and the workers are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from dask_clusters import local_cluster
from numpy.testing import assert_array_equal

import laybare as lb
from laybare.numerics.shapes import Array, Event, Sums
from laybare.solver.normal import StepStatistic
from laybare.solver.point import point_of
from laybare.source import GRAIN, MixedOutputs, ProjectedInputs, RelabelledOutputs
from laybare.source.sums import PairwiseSum, pairwise_sum
from laybare.source.views import RowsInMemory, rows_with_smallest_key

SIZE, DIM = 20_000, 5
BLOCKS = lb.source.Schedule(block_bytes=1 << 16, keep_bytes=0)


@pytest.fixture(scope="session", params=[1, 2])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    with local_cluster(request.param, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    truth = lb.random_network(DIM, 3, rng=1)
    x = rng.standard_normal((SIZE, DIM)) @ rng.standard_normal((DIM, DIM)) + 2.0
    return x, truth(x) + 0.1 * rng.standard_normal(SIZE)


def both(data: tuple[Array, Array], client: Any, rows: int = 3001) -> tuple[lb.Source, lb.Source]:
    """The same rows here and on the cluster, in chunks that fit neither the blocks nor each other."""
    x, y = data
    there = lb.source.Schedule(BLOCKS.workers, BLOCKS.block_bytes, keep_bytes=0, engine=lb.source.DaskEngine(client))
    return lb.Samples(x, y, schedule=BLOCKS), lb.DaskSamples(
        da.from_array(x, chunks=(rows, 2)), da.from_array(y, chunks=(2500,)), schedule=there)


def gram(x: Array, y: Array) -> Sums:
    return x.T @ x, x.T @ y, np.asarray(len(x))


def assert_same(one: lb.Source, other: lb.Source, statistic: Any = gram) -> None:
    for here, there in zip(one.sum(statistic), other.sum(statistic), strict=True):
        assert_array_equal(here, there)


def test_a_tree_over_runs_is_the_tree_over_blocks(rng: np.random.Generator) -> None:
    """Any number of blocks, any power of two to a run, any depth: the order of additions is the same."""
    for count in (1, 2, 3, 7, 8, 9, 31, 37):
        blocks = [(rng.standard_normal(3) * 10.0 ** rng.integers(-8, 8),) for _ in range(count)]
        whole = PairwiseSum()
        for block in blocks:
            whole.add((block[0].copy(),))
        for length in (1, 2, 4, 8, 16):
            nodes = [pairwise_sum((b[0].copy(),) for b in blocks[at : at + length]) for at in range(0, count, length)]
            while len(nodes) > 1:
                nodes = [pairwise_sum(nodes[at : at + 4]) for at in range(0, len(nodes), 4)]
            assert_array_equal(nodes[0][0], whole.value()[0])


def test_the_same_bits_as_here(data: tuple[Array, Array], client: Any) -> None:
    here, there = both(data, client)
    assert (there.size, there.dim, there.outputs) == (SIZE, DIM, 1)
    assert_same(here, there)
    network = lb.random_network(DIM, 4, rng=2)
    assert_same(here, there, StepStatistic(point_of(network, biases=True, offset=True, linear=False)))


def test_views_and_changed_rows_too(data: tuple[Array, Array], client: Any) -> None:
    views = []
    for source in both(data, client):
        white = source.split(0.9, rng=3).first.whitened()
        inner = white.between(1500, 17_000).split(0.5, rng=4).second
        views.append((
            white, inner,
            RelabelledOutputs(ProjectedInputs(white, np.linalg.qr(np.ones((DIM, 2)) + np.eye(DIM, 2))[0]), lambda y: y[:, 0]),
            MixedOutputs(white, np.array([[1.0, -2.0]])).take(12_345)))
    for here, there in zip(*views, strict=True):
        assert_same(here, there)


def test_chosen_and_kept_rows_are_those_of_the_arrays(data: tuple[Array, Array], client: Any) -> None:
    here, there = both(data, client, rows=6000)
    assert_array_equal(there.read(2990, 3010).x, data[0][2990:3010])
    near = [rows_with_smallest_key(source, lambda x, y: np.abs(x[:, 0]), 50) for source in (here, there)]
    assert_array_equal(near[0].x, near[1].x)
    kept = there.with_schedule(lb.source.Schedule()).kept()
    assert isinstance(kept, RowsInMemory) and kept.schedule.engine is None
    assert_array_equal(kept.read(0, SIZE).x, data[0])
    assert_array_equal(kept.read(0, SIZE).y[:, 0], data[1])


def test_a_pass_ends_with_an_event(data: tuple[Array, Array], client: Any) -> None:
    seen: list[Event] = []
    both(data, client)[1].with_progress(seen.append).sum(gram, stage="gram")
    assert seen[-1].stage == "gram" and seen[-1].done == seen[-1].total > 1


def test_refinement_and_certificate_have_the_same_bits() -> None:
    """Every kind of pass of a recovery from a start: variation, least squares, Gauss-Newton, certificate."""
    with local_cluster(2, processes=False) as client:
        _check_refinement(client)


def _check_refinement(client: Any) -> None:
    truth = lb.random_network(2, 1, rng=1)
    x = np.random.default_rng(2).standard_normal((2500, 2))
    y = truth(x) + 0.1 * np.random.default_rng(3).standard_normal(2500)
    near = lb.Network(lb.Layer(truth.layer.weights + 0.1, truth.layer.biases - 0.1, lb.relu), truth.readout)
    found = [lb.refine(source, near, rng=0) for source in both((x, y), client, rows=1500)]
    assert found[0].certificate.verdict == found[1].certificate.verdict == "verified"
    for name in ("weights", "biases"):
        assert_array_equal(getattr(found[0].network.layer, name), getattr(found[1].network.layer, name))
    assert_array_equal(found[0].network.readout, found[1].network.readout)
    for one, other in zip(*(recovery.certificate.checks for recovery in found), strict=True):
        assert (one.name, one.value, one.passed) == (other.name, other.value, other.passed)


def test_pairs_of_dask_collections_mean_samples_on_the_cluster() -> None:
    """Without a client Dask's own threads carry the passes out; small data come here."""
    from laybare.pipeline.arguments import parse_arguments

    truth = lb.random_network(4, 2, rng=5)
    x = np.random.default_rng(6).standard_normal((1000, 4))
    arrays = da.from_array(x, chunks=(300, -1)), da.from_array(truth(x), chunks=300)
    assert isinstance(parse_arguments(*arrays[:1], arrays[1:]).source, lb.DaskSamples)
    found = lb.recover(*arrays, rng=0)
    assert found.certificate.verdict == "verified" and lb.compare(found.network, truth).max_error < 1e-10


def test_rows_in_random_order_are_split_by_ranges(data: tuple[Array, Array], client: Any) -> None:
    x, y = (da.from_array(part, chunks=(3001, *part.shape[1:])) for part in data)
    schedule = lb.source.Schedule(block_bytes=1 << 16, engine=lb.source.DaskEngine(client))
    there = lb.DaskSamples(x, y, schedule=schedule, exchangeable=True)
    parts = there.split(0.9, rng=0)
    assert_array_equal(parts.second.read(0, 10).x, data[0][18_000:18_010])
    assert_same(lb.Samples(*data, schedule=BLOCKS).take(18_000), parts.first)


def test_the_estimator_and_the_lowest_layer_take_it_as_it_is() -> None:
    truth = lb.random_network(4, 2, rng=5)
    x = np.random.default_rng(6).standard_normal((1000, 4))
    there, here = (
        lb.DaskSamples(da.from_array(x, chunks=(300, -1)), da.from_array(truth(x), chunks=300)), lb.Samples(x, truth(x)))
    models = [lb.NetworkRecovery(random_state=0).fit(source) for source in (here, there)]
    assert_array_equal(models[0].predict(x[:50]), models[1].predict(x[:50]))
    rare = lb.Network(lb.Layer(truth.layer.weights[:1], np.array([-2.0]), lb.relu), np.ones(1))
    layers = [
        lb.recover_layer(kind(*arrays), lb.HighThreshold(), 1, rng=0).layer
        for kind, arrays in ((lb.Samples, (x, rare(x))), (lb.DaskSamples, (there.x, da.from_array(rare(x), chunks=300))))]
    assert_array_equal(layers[0].weights, layers[1].weights)


def test_an_absent_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(lb.errors.InvalidInput, match=r"laybare\[dask\]"):
        lb.source.Simulation(np.sin, 1, 5000, schedule=lb.source.Schedule(engine=lb.source.DaskEngine())).sum(gram)


def test_data_frames(data: tuple[Array, Array]) -> None:
    import dask.dataframe as dd
    import pandas as pd

    x, y = (part[:3000] for part in data)
    frame = dd.from_pandas(pd.DataFrame(x, columns=list("abcde")).assign(y=y), npartitions=4)
    source = lb.DaskSamples(frame[list("abcde")], frame["y"])
    assert_same(lb.Samples(x, y), source)


def test_a_simulation_is_drawn_by_the_workers(client: Any) -> None:
    here = lb.source.Simulation(np.sin, 1, 50_000, rng=3, schedule=BLOCKS)
    schedule = lb.source.Schedule(block_bytes=1 << 16, engine=lb.source.DaskEngine(client))
    there = lb.source.Simulation(np.sin, 1, 50_000, rng=3, schedule=schedule)
    assert here.size == 50_000 and here.outputs == 1 and here.exchangeable
    assert_array_equal(here.read(1000, 5000).y, np.sin(here.read(1000, 5000).x))
    assert_same(here, there)


def test_workers_have_one_blas_thread(client: Any) -> None:
    """Where BLAS would take every core, tasks still have one thread each."""
    from threadpoolctl import threadpool_info

    def threads(x: Array, y: Array) -> Sums:
        return (np.asarray(max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")),)

    schedule = lb.source.Schedule(block_bytes=1, engine=lb.source.DaskEngine(client))
    source = lb.source.Simulation(np.sin, 1, 8 * GRAIN, schedule=schedule)
    assert source.sum(threads)[0] == 8  # eight blocks


@pytest.mark.parametrize(("told", "threads"), [("3", 3), ("1", 1)])
def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch, told: str, threads: int) -> None:
    monkeypatch.setenv("LAYBARE_THREADS", told)
    assert lb.source.Schedule().threads(100) == threads
    assert lb.source.Schedule(workers=2).threads(100) == 2


@pytest.mark.parametrize("told", ["0", "many", "-2", "1.5"])
def test_threads_that_are_no_number_are_refused(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("LAYBARE_THREADS", told)
    with pytest.raises(lb.errors.InvalidInput, match="LAYBARE_THREADS"):
        lb.source.Schedule().threads(100)


def test_what_is_no_dask_collection_is_refused(unchecked: None, data: tuple[Array, Array]) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="ndarray"):
        lb.DaskSamples(*data)
    with pytest.raises(lb.errors.InvalidInput, match="All 100 rows of y"):
        lb.DaskSamples(da.random.random((100, 2)), da.zeros(100))
