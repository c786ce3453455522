"""Files that are damaged, empty, of another kind, or dangerous."""

from __future__ import annotations

import builtins
import contextlib
import io
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laybare.errors import InvalidInput
from laybare.source import open_samples

pytestmark = pytest.mark.usefixtures("unchecked")
X = np.random.default_rng(0).standard_normal((500, 3))
Y = X[:, 0]


class Bomb:
    """Unpickling it fails the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


def refused(path: Path, sentence: str, **arguments: Any) -> InvalidInput:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        open_samples(path, **arguments)
    return caught.value


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere.npz", "does not exist")


@pytest.mark.parametrize("name", ["data.txt", "data", "data.pkl", "x.npy"])
def test_unknown_ending(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"1,2,3")
    refused(tmp_path / name, "Known endings are .npz, .csv, .tsv, .parquet")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("keep", [0, 1, 40, 500, 0.5, 0.99])
def test_truncated_npz(save: Any, keep: float, tmp_path: Path) -> None:
    save(tmp_path / "data.npz", x=X, y=Y)
    whole = (tmp_path / "data.npz").read_bytes()
    (tmp_path / "data.npz").write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    refused(tmp_path / "data.npz", "not a readable archive")


def test_damaged_compressed_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "data.npz", x=X, y=Y)
    damaged = bytearray((tmp_path / "data.npz").read_bytes())
    damaged[1000:1020] = bytes(20)
    (tmp_path / "data.npz").write_bytes(damaged)
    refused(tmp_path / "data.npz", "not a readable archive")


def test_changed_number_in_a_compressed_npz(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, X)
    with zipfile.ZipFile(tmp_path / "data.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive:
        archive.writestr("x.npy", whole.getvalue())
        archive.writestr("y.npy", whole.getvalue())
    damaged = bytearray((tmp_path / "data.npz").read_bytes())
    damaged[5000] ^= 1  # level 0 is copied as it is: only the checksum can tell
    (tmp_path / "data.npz").write_bytes(damaged)
    refused(tmp_path / "data.npz", "not a readable archive .*CRC")


def test_member_that_ends_too_early(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, X)
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "data.npz", "w", kind) as archive:
            archive.writestr("y.npy", whole.getvalue())
            archive.writestr("x.npy", whole.getvalue()[:-8000])
        refused(tmp_path / "data.npz", "ends before its last value")


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_are_never_loaded(ending: str, protocol: int, tmp_path: Path) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"data{ending}"
    path.write_bytes(pickle.dumps({"x": Bomb()}, protocol))
    refused(path, "not a readable Parquet" if ending == ".parquet" else "contains pickled objects, never loaded")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_object_arrays_are_never_loaded(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "data.npz", x=X, y=np.array([Bomb()] * 500, dtype=object))
    refused(tmp_path / "data.npz", "contains pickled objects, never loaded")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array([Bomb()] * 500, dtype=object))
    refused(tmp_path, "contains pickled objects, never loaded")


def test_pickle_as_block_or_member(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.npy").write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path, "contains pickled objects, never loaded")
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("x.npy", pickle.dumps(Bomb()))
        archive.writestr("y.npy", pickle.dumps(Bomb()))
    refused(tmp_path / "data.npz", "contains pickled objects, never loaded")


def test_missing_target_lists_what_there_is(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X, price=Y)
    refused(tmp_path / "data.npz", "holds the arrays x, price")
    np.savez(tmp_path / "data.npz", a=X, b=X, y=Y)
    refused(tmp_path / "data.npz", "call the inputs x")
    refused(tmp_path / "data.npz", "2 targets were named", target="a,b")
    (tmp_path / "data.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    error = refused(tmp_path / "data.csv", "has no column price. Its columns are a, b, c", target="price")
    assert error.values["columns"] == ["a", "b", "c"]


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "is empty"),
    ("\n", "is empty"),
    ("a,y\n", "a header and no rows"),
    ("a,y\n\n  \n", "a header and no rows"),
    ("a,y\n1,2\n", "There is 1 row"),
    ("1.5,2\n1,2\n", "holds numbers"),
    ("a,a,y\n1,2,3\n1,2,3\n", "several columns called 'a'"),
    ("y\n1\n2\n", "has only the target y"),
    ("a,y\n1,2\n3,four\n", "Line 3 of .* has 'four' in column y"),
    ("a,y\n1,2\n\n\n,4\n", "Line 5 of .* has '' in column a"),
    ("a,y\n1,2\n3\n", "Line 3 of .* has 1 cells and the header has 2"),
    ("a,y\n1,2,3\n1,2,3\n", "Line 2 of .* has 3 cells and the header has 2"),
    ("a,y\n1,2\n3,1_0\n", "Line 3 of .* has '1_0' in column y"),
    ("a,y\n1,2\n3,nan\n", "y is nan in row 1, column y"),
    ("a,y\n1,2\n3,1e999\n", "y is inf in row 1, column y"),
    ("a,y\n1,2\n3,2\n", "All 2 rows of y are the same"),
    ('a,y\n1,2\n3,"4\n5,6\n', "Line 4 of .* in column y"),
    ("a,y\n1,2\n3,0x1A\n", "Line 3 of .* has '0x1A' in column y"),
])
def test_bad_csv(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(text)
    refused(tmp_path / "data.csv", sentence)


def test_binary_csv(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"a,y\n1,\xff\xfe\n")
    refused(tmp_path / "data.csv", "is not text")


def test_directory_without_blocks(tmp_path: Path) -> None:
    refused(tmp_path, "has 0 blocks of x and 0 of y")
    np.save(tmp_path / "x_0.npy", X)
    np.save(tmp_path / "x_1.npy", X)
    np.save(tmp_path / "y_0.npy", Y)
    refused(tmp_path, "block 1 has no partner")


@pytest.mark.parametrize(("x", "y"), [(X[:, :2], Y), (X, Y[:-1]), (X, np.stack([Y, Y], 1)), (X[0, 0], Y)])
def test_blocks_that_do_not_fit(x: np.ndarray, y: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x_00.npy", X)
    np.save(tmp_path / "y_00.npy", Y)
    np.save(tmp_path / "x_01.npy", x)
    np.save(tmp_path / "y_01.npy", y)
    refused(tmp_path, "In block 01 x has shape")


@pytest.mark.parametrize("keep", [0, 5, 30, 100, 4000])
def test_truncated_blocks(keep: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:keep])
    refused(tmp_path, "not an array|not a readable array|ends before")


def test_strings_in_blocks(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.astype(str))
    np.save(tmp_path / "y.npy", Y)
    refused(tmp_path, "x has dtype <U")


@pytest.mark.parametrize("seed", range(60))
def test_random_damage_is_a_sentence_or_harmless(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    (np.savez if seed % 2 else np.savez_compressed)(tmp_path / "data.npz", x=X[:20], y=Y[:20])
    damaged = bytearray((tmp_path / "data.npz").read_bytes())
    for place in rng.integers(0, len(damaged), 4):
        damaged[place] = rng.integers(256)
    (tmp_path / "data.npz").write_bytes(damaged)
    with contextlib.suppress(InvalidInput):
        x, y = open_samples(tmp_path / "data.npz").read(0, 20)
        assert np.array_equal(x, X[:20]) and np.array_equal(y[:, 0], Y[:20])


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    refused(tmp_path / "data.parquet", r"pip install 'laybare\[parquet\]'")


def test_bad_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    refused(path, "not a readable Parquet file")
    parquet.write_table(pyarrow.table({"a": ["x", "y"], "y": [1.0, 2.0]}), path)
    refused(path, "Column a of .* has type string")
    parquet.write_table(pyarrow.table({"a": [1, None, 3], "y": [1.0, 2.0, 3.0]}), path)
    refused(path, "x is nan in row 1, column a")
    parquet.write_table(pyarrow.table({"a": [1, 2], "b": [1.0, 2.0]}), path)
    refused(path, "has no column y. Its columns are a, b")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.csv").write_text("a,y\n1,2\n3,4\n")

    def denied(*arguments: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(io, "open", denied)
    monkeypatch.setattr(builtins, "open", denied)
    monkeypatch.setattr(Path, "open", denied)
    refused(tmp_path / "data.csv", "cannot be read .Permission denied.")
