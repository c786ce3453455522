"""Files of every format with flipped, missing and added bytes, files that never end, files under the ending of another format."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import absurd_arguments
import damaged_files
import numpy as np
import pytest

import laybare as lb
from laybare.errors import InvalidInput
from laybare.export import from_json, from_npz, to_json, to_npz
from laybare.numerics.file_borders import archive_bytes

FEW, MANY = 40, 1000
"""Damaged files of every format: in the fast part, and in the slow one (other seeds)."""

FORMATS = (
    "net.safetensors", "found.safetensors", "net.npz", "net.json", "net.onnx", "stored.npz", "packed.npz", "blocks", "t.csv",
    "t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.parquet", "group", "log")


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, damaged_files.Format]:
    return {form.name: form for form in damaged_files.formats(tmp_path_factory.mktemp("damaged"))}


def answers(form: damaged_files.Format, seeds: range) -> tuple[Counter[str], list[str]]:
    found = {seed: damaged_files.answer(form, seed) for seed in seeds}
    counts = Counter(seen.split()[0] for seen in found.values())
    print(f"{form.name}: {counts.total():,} damaged files: {dict(counts)}")
    return counts, [f"{form.name}, seed {seed}: {seen}" for seed, seen in found.items() if seen not in ("sentence", "accepted")]


@pytest.mark.parametrize("name", FORMATS)
def test_damage_ends_in_a_sentence_or_changes_nothing_that_has_a_checksum(
        name: str, forms: dict[str, damaged_files.Format]) -> None:
    counts, wrong = answers(forms[name], range(FEW))
    assert wrong == []
    assert counts["sentence"] > FEW // 4


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_thousand_damaged_files_of_each_format(name: str, forms: dict[str, damaged_files.Format]) -> None:
    _, wrong = answers(forms[name], range(FEW, FEW + MANY))
    assert wrong == []


READERS: dict[str, Callable[[Path], object]] = {
    ".safetensors": lb.load, ".npz": from_npz, ".json": from_json, ".onnx": lb.from_onnx, ".csv": lb.open_samples,
    ".csv.gz": lb.open_samples, ".parquet": lb.open_samples}


@pytest.mark.parametrize("ending", READERS)
def test_pipes_and_devices_are_refused_before_they_are_opened(ending: str, tmp_path: Path) -> None:
    pipe, device = tmp_path / f"pipe{ending}", tmp_path / f"zero{ending}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with absurd_arguments.limited(5), pytest.raises(InvalidInput, match="is not a regular file"):
            READERS[ending](path)


@pytest.mark.parametrize("ending", [".onnx", ".safetensors", ".json", ".npz"])
def test_a_pipe_is_no_black_box(ending: str, tmp_path: Path) -> None:
    """Opening one waits for a writer, inside of a library that no signal reaches: so it is asked for before it is opened."""
    os.mkfifo(tmp_path / f"model{ending}")
    with pytest.raises(InvalidInput, match=r"is not a regular file|is not the name"):
        lb.audit(str(tmp_path / f"model{ending}"), (20,))


@pytest.mark.parametrize("rows", [np.ones((4, 3), complex), np.array([["a", "b", "c"]] * 4), np.ones((4, 3), bool)])
def test_inputs_in_a_file_are_real_numbers(rows: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InvalidInput, match=r"rows.npy has dtype"):
        lb.Oracle(lambda x: x[:, 0], inputs=tmp_path / "rows.npy")


def test_a_model_of_no_inputs_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    parts = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 0]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", parts[:1], parts[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(InvalidInput, match="dim is 0"):
        lb.Oracle(str(tmp_path / "m.onnx"))


def test_pipes_inside_of_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "blocks").mkdir()
    (tmp_path / "tables").mkdir()
    os.mkfifo(tmp_path / "blocks" / "x.npy")
    os.mkfifo(tmp_path / "blocks" / "y.npy")
    os.mkfifo(tmp_path / "tables" / "part.parquet")
    for folder in ("blocks", "tables"):
        with absurd_arguments.limited(5), pytest.raises(InvalidInput, match="is not a regular file"):
            lb.open_samples(tmp_path / folder)


@pytest.mark.parametrize(("ending", "function"), [
    (".onnx", "to_onnx"), (".pt", "to_torch"), (".json", "to_json"), (".npz", "to_npz"), (".html", "report"),
    (".txt", ".safetensors"), (".CSV", ".safetensors"), (".pkl", ".safetensors")])
def test_a_network_is_not_saved_under_the_ending_of_another_format(ending: str, function: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"ends in {ending.lower()}.*{function}"):
        lb.random_network(2, 1, rng=0).save(tmp_path / f"net{ending}")
    assert os.listdir(tmp_path) == []


def test_an_export_is_not_written_under_the_ending_of_another_format(tmp_path: Path) -> None:
    net = lb.random_network(2, 1, rng=0)
    for write, ending in ((to_npz, ".onnx"), (to_json, ".npz"), (lb.to_onnx, ".safetensors")):
        with pytest.raises(InvalidInput, match=f"ends in {ending}"):
            write(net, tmp_path / f"net{ending}")
    net.save(tmp_path / "net")
    net.save(tmp_path / "net.v2")
    assert sorted(os.listdir(tmp_path)) == ["net", "net.v2"]


def absurd_header(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(4294967296, 4294967296)", "(-1,)", "(1e3,)", "None"])
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_announces_terabytes_allocates_nothing(shape: str, packing: int, tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name in ("x", "y", "weights"):
            archive.writestr(f"{name}.npy", absurd_header(shape))
    for read in (from_npz, lb.open_samples):
        with pytest.raises(InvalidInput, match=r"net\.npz"):
            read(path)


def test_a_stored_archive_is_compared_with_its_checksum(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((50, 2))
    np.savez(tmp_path / "data.npz", x=x, y=x[:, 0])
    data = bytearray((tmp_path / "data.npz").read_bytes())
    data[data.index(x.tobytes()) + 123] ^= 1
    (tmp_path / "data.npz").write_bytes(bytes(data))
    with pytest.raises(InvalidInput, match="Bad CRC-32"):
        lb.open_samples(tmp_path / "data.npz")


def test_archives_have_the_bytes_that_numpy_writes(tmp_path: Path) -> None:
    arrays = {"weights": np.arange(6.0).reshape(2, 3), "text": np.array("a")}
    memory = io.BytesIO()
    np.savez(memory, **arrays)
    assert archive_bytes(arrays) == memory.getvalue()


@pytest.mark.parametrize(("change", "words"), [
    ({"dim": 7}, r"weights has shape \(2, 3\), and the sizes around it say \(2, 7\)"), ({"dim": "3"}, "dim is '3'"),
    ({"dim": True}, "dim is True"), ({"outputs": 2}, "readout has shape"), ({"offset": "3"}, "offset has dtype"),
    ({"readout": ["1", "2"]}, "readout has dtype"), ({"layers": []}, "No layers"), ({"layers": 3}, "not a readable network"),
    ({"readout": [True, False]}, "readout has dtype bool")])
def test_json_that_contradicts_itself_is_refused(change: dict[str, object], words: str) -> None:
    held = json.loads(to_json(lb.random_network(3, 2, rng=0)))
    with pytest.raises(InvalidInput, match=words):
        from_json(json.dumps(held | change))


def table(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_an_index_that_pandas_wrote_is_no_input(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]}, index=["p", "q", "r"])
    frame.to_csv(tmp_path / "t.csv")
    with pytest.raises(InvalidInput, match=r"Column 1 of .* is without a name.*index=False"):
        lb.open_samples(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match=r"is an index.*index=False"):
        lb.open_samples(tmp_path / "t.parquet")
    assert lb.open_samples(tmp_path / "t.parquet", drop="__index_level_0__").dim == 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert lb.open_samples(tmp_path / "t.csv").dim == 1


def test_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    column = pyarrow.array([1.0, 2.0, 3.0])
    parquet.write_table(pyarrow.Table.from_arrays([column, column, column], names=["a", "a", "y"]), tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match="several columns called 'a'"):
        lb.open_samples(tmp_path / "t.parquet")


def test_a_cell_of_200000_characters_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, f"a,y\n1,2\n{'1' * 200_000}x,4\n")
    with pytest.raises(InvalidInput, match=r"t\.csv is not a readable table .*field larger"):
        lb.open_samples(path)


def test_a_compressed_table_without_line_breaks_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laybare.source.table_files.MAX_LINE_CHARACTERS", 1 << 16)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(InvalidInput, match="line of more than 65,536 characters"):
        lb.open_samples(tmp_path / "t.csv.gz")


def test_arrays_of_one_name_in_an_archive_are_refused(tmp_path: Path) -> None:
    memory = io.BytesIO()
    np.save(memory, np.eye(3))
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        for name in ("x.npy", "y.npy", "x"):
            archive.writestr(name, memory.getvalue())
    with pytest.raises(InvalidInput, match="several arrays called 'x'"):
        lb.open_samples(tmp_path / "t.npz")


def test_a_model_whose_biases_do_not_fit_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    lb.to_onnx(lb.random_network(2, 3, rng=0), tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    held = next(tensor for tensor in model.graph.initializer if tensor.name == "biases.0")
    held.CopyFrom(onnx.numpy_helper.from_array(np.zeros(5), "biases.0"))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(InvalidInput, match="5 biases for 3 units"):
        lb.from_onnx(tmp_path / "net.onnx")
    held.data_type = 99
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(InvalidInput, match=r"net\.onnx"):
        lb.from_onnx(tmp_path / "net.onnx")
