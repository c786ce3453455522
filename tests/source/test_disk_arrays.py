"""Arrays that stay on disk: the same numbers and bits as in memory, workers that read for themselves, faults by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pyarrow
import pytest
import zarr
from dask_clusters import local_cluster
from numpy.testing import assert_array_equal
from pyarrow import parquet

import laybare as lb
from laybare.numerics.shapes import Array, Sums
from laybare.source.sample_files import NpyRows

SIZE = 6000
DISK = lb.source.Schedule(block_bytes=1 << 16, keep_bytes=0)


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.standard_normal((SIZE, 3))
    return x, np.tanh(x @ np.ones(3))


def write_npy(x: Array, y: Array, path: Path) -> None:
    path.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(SIZE), 4)):
        np.save(path / f"x_{number}.npy", np.asfortranarray(x[rows]) if number == 2 else x[rows])
        np.save(path / f"y_{number}.npy", y[rows])


def write_npz(x: Array, y: Array, path: Path) -> None:
    np.savez(path.with_suffix(".npz"), x=x, y=y)


def write_stack(x: Array, y: Array, path: Path) -> None:
    path.mkdir()
    for name, array in (("x", x), ("y", y)):
        da.to_npy_stack(str(path / name), da.from_array(array, chunks=(700, *array.shape[1:])), axis=0)


def write_dataset(x: Array, y: Array, path: Path) -> None:
    path.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(SIZE), 3)):
        table = pyarrow.table({"a": x[rows, 0], "y": y[rows], "b": x[rows, 1], "c": x[rows, 2]})
        parquet.write_table(table, path / f"part-{number}.parquet", row_group_size=900)


def write_zarr(x: Array, y: Array, path: Path) -> None:
    group = zarr.open_group(str(path), mode="w")
    for name, array in (("x", x), ("y", y)):
        chunks = (800, 2)[: array.ndim]
        group.create_array(name, shape=array.shape, chunks=chunks, dtype="f8")[:] = array


WRITERS = {"npy": write_npy, "npz": write_npz, "stack": write_stack, "parquet": write_dataset, "zarr": write_zarr}


def opened(kind: str, data: tuple[Array, Array], folder: Path, schedule: lb.source.Schedule = DISK) -> lb.Samples:
    path = folder / "data"
    if not path.exists() and not path.with_suffix(".npz").exists():
        WRITERS[kind](*data, path)
    return lb.open_samples(path.with_suffix(".npz") if kind == "npz" else path, schedule=schedule)


def gram(x: Array, y: Array) -> Sums:
    return x.T @ x, x.T @ y


@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_rows_and_bits_as_in_memory(kind: str, data: tuple[Array, Array], tmp_path: Path) -> None:
    source = opened(kind, data, tmp_path)
    assert source.is_portable and (source.size, source.dim, source.outputs) == (SIZE, 3, 1)
    for start, stop in ((0, SIZE), (1499, 1502), (2999, 4501), (5, 5)):
        assert_array_equal(source.read(start, stop).x, data[0][start:stop])
        assert_array_equal(source.read(start, stop).y[:, 0], data[1][start:stop])
    views = [source.split(0.7, rng=1).first.whitened() for source in (source, lb.Samples(*data, schedule=DISK))]
    for here, there in zip(*(view.sum(gram) for view in views), strict=True):
        assert_array_equal(here, there)


def test_workers_read_for_themselves(data: tuple[Array, Array], tmp_path: Path) -> None:
    """In another process, where nothing of this one's memory is."""
    expected = lb.Samples(*data, schedule=DISK).split(0.7, rng=1).first.sum(gram)
    with local_cluster(1, processes=True) as client:
        for kind in WRITERS:
            schedule = lb.source.Schedule(block_bytes=1 << 16, keep_bytes=0, engine=lb.source.DaskEngine(client))
            (tmp_path / kind).mkdir()
            source = opened(kind, data, tmp_path / kind, schedule)
            assert source.schedule.engine.can_read(source)  # type: ignore[union-attr]
            for here, there in zip(expected, source.split(0.7, rng=1).first.sum(gram), strict=True):
                assert_array_equal(here, there)
        blocks = lb.DaskSamples(*(da.from_array(part, chunks=1000) for part in data), schedule=schedule)
        assert_array_equal(blocks.split(0.7, rng=1).first.sum(gram)[0], expected[0])


def test_small_arrays_are_mapped_and_large_ones_read(data: tuple[Array, Array], tmp_path: Path) -> None:
    assert not opened("npz", data, tmp_path, lb.source.Schedule()).is_portable
    assert isinstance(opened("npz", data, tmp_path).x, NpyRows)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _chunk_of(path: Path) -> Path:
    return next(file for file in sorted((path / "x").rglob("*")) if file.is_file() and file.name not in ("zarr.json", ".zarray"))


FAULTS: dict[str, tuple[str, Any, str]] = {
    "npy cut off": ("npy", lambda path: _truncate(path / "x_1.npy"), r"x_1\.npy has changed"),
    "npy gone": ("npy", lambda path: (path / "y_3.npy").unlink(), r"y_3\.npy cannot be read"),
    "parquet cut off": ("parquet", lambda path: _truncate(path / "part-1.parquet"), r"part-1\.parquet has changed"),
    "zarr chunk gone": ("zarr", lambda path: _chunk_of(path).unlink(), "is missing"),
    "zarr chunk cut off": ("zarr", lambda path: _truncate(_chunk_of(path)), "data: x cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_block_that_breaks_between_passes_is_named(fault: str, data: tuple[Array, Array], tmp_path: Path) -> None:
    kind, damage, sentence = FAULTS[fault]
    source = opened(kind, data, tmp_path)
    source.sum(gram)
    source.read(0, 10)
    damage(tmp_path / "data")
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        source.sum(gram)


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr"])
def test_a_block_with_nan_is_named(kind: str, data: tuple[Array, Array], tmp_path: Path) -> None:
    x = data[0].copy()
    x[4500, 1] = np.nan
    with pytest.raises(lb.errors.InvalidInput, match=r"(x_3\.npy|part-2\.parquet|data: x) has nan in column 1"):
        opened(kind, (x, data[1]), tmp_path)


def test_other_columns_in_one_file_are_refused(data: tuple[Array, Array], tmp_path: Path) -> None:
    write_dataset(*data, tmp_path / "data")
    parquet.write_table(pyarrow.table({"a": [1.0], "y": [2.0]}), tmp_path / "data" / "part-9.parquet")
    with pytest.raises(lb.errors.InvalidInput, match="part-9"):
        lb.open_samples(tmp_path / "data")


def test_a_group_without_x_is_refused(tmp_path: Path) -> None:
    zarr.open_group(str(tmp_path / "g"), mode="w").create_array("z", shape=(3,), dtype="f8")
    with pytest.raises(lb.errors.InvalidInput, match="holds the arrays z"):
        lb.open_samples(tmp_path / "g")
