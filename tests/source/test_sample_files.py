"""Samples from disk: the same numbers, mapped where they can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from laybare.source import Gaussian, Samples, Symmetric, open_samples
from laybare.source.samples import FILES


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((2500, 3))


@pytest.fixture
def y(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(2500)


def assert_holds(source: Samples, x: np.ndarray, y: np.ndarray) -> None:
    read = source.read(0, source.size)
    assert_array_equal(read.x, x)
    assert_array_equal(read.y, y.reshape(len(y), -1))
    half = source.read(700, 2100)
    assert_array_equal(half.x, x[700:2100])
    assert half.x.flags.aligned


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(save, x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    save(tmp_path / "data.npz", x=x, y=y, other=np.arange(3))
    source = open_samples(tmp_path / "data.npz", law=Symmetric())
    assert_holds(source, x, y)
    assert source.law == Symmetric()
    assert isinstance(source.x.base, np.memmap) == (save is np.savez)


def test_npz_with_other_names_and_orders(x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    both = np.stack([y, -y], axis=1)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "data.NPZ.npz", features=np.asfortranarray(x), labels=both.astype(">f8"))
        assert_holds(open_samples(str(tmp_path / "data.NPZ.npz"), target="labels"), x, both)


def test_directory_of_blocks_is_mapped_and_stacked(x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    for number, rows in enumerate(np.array_split(np.arange(2500), 12)):  # 0 ... 11: the order is that of numbers, not of text
        np.save(tmp_path / f"x_{number}.npy", x[rows])
        np.save(tmp_path / f"y_{number}.npy", y[rows])
    (tmp_path / "notes.txt").write_text("not a block")
    source = open_samples(tmp_path)
    assert_holds(source, x, y)
    assert all(isinstance(part.base, np.memmap) for part in source.x.parts)
    assert np.shares_memory(source.read(0, 100).x, source.x.parts[0])
    start = len(source.x.parts[0])
    assert np.shares_memory(source.read(start, start + 100).x, source.x.parts[1])


def test_directory_of_two_files(x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    np.save(tmp_path / "price.npy", y)
    assert_holds(open_samples(tmp_path, target="price"), x.astype(np.float32), y)


def test_blocks_of_any_number_of_rows(tmp_path: Path) -> None:
    sizes = [1, 0, 1025, 3, 0]
    rows = np.split(np.arange(1029.0), np.cumsum(sizes)[:-1])
    for number, part in enumerate(rows):
        np.save(tmp_path / f"x_{number:03}.npy", part[:, None])
        np.save(tmp_path / f"y_{number:03}.npy", -part)
    source = open_samples(tmp_path)
    for start, stop in ((0, 1), (0, 2), (1, 1026), (1025, 1029), (0, 1029), (5, 5)):
        assert_array_equal(source.read(start, stop).x[:, 0], np.arange(start, stop))
        assert_array_equal(source.read(start, stop).y[:, 0], -np.arange(start, stop))


def write_csv(path: Path, names: list[str], table: np.ndarray, delimiter: str = ",") -> None:
    rows = (delimiter.join(repr(float(value)) for value in row) for row in table)
    path.write_text(delimiter.join(names) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(delimiter: str, x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    write_csv(tmp_path / "data.csv", ["a", "price", "b", "c"], np.insert(x, 1, y, axis=1), delimiter)
    assert_holds(open_samples(tmp_path / "data.csv", target="price"), x, y)


@pytest.mark.parametrize("target", ["v, u", ["v", "u"]])
def test_csv_with_several_targets(target: str | list[str], x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    write_csv(tmp_path / "data.csv", ["u", "a", "b", "c", "v"], np.column_stack([y, x, -y]))
    assert_holds(open_samples(tmp_path / "data.csv", target), x, np.stack([-y, y], axis=1))


def test_csv_longer_than_a_chunk(tmp_path: Path) -> None:
    numbers = np.arange(float(FILES.chunk_rows + 10))
    write_csv(tmp_path / "data.csv", ["a", "y"], np.stack([numbers, -numbers], axis=1))
    source = open_samples(tmp_path / "data.csv")
    assert_array_equal(source.read(FILES.chunk_rows - 2, FILES.chunk_rows + 10).x[:, 0], numbers[-12:])


def test_csv_with_marks_quotes_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "data.CSV").write_bytes('\ufeffy, "a"\r\n2e0,"1"\r\n\r\n -4, 3 \r\n'.encode())
    source = open_samples(tmp_path / "data.CSV")
    assert_array_equal(source.read(0, 2).x, [[1], [3]])
    assert_array_equal(source.read(0, 2).y, [[2], [-4]])
    assert source.law == Gaussian()


def test_parquet(x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"a": x[:, 0], "y": y, "b": x[:, 1], "c": x[:, 2], "n": np.arange(2500)})
    parquet.write_table(table, tmp_path / "data.parquet", row_group_size=600)
    assert_holds(open_samples(tmp_path / "data.parquet", "y,n"), x, np.stack([y, np.arange(2500)], axis=1))
