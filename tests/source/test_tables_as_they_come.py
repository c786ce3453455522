"""Tables as people have them: decimal commas, Feather, JSON lines, text labels, constant columns, missing values, labels."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

import laybare as lb
from laybare import cli
from laybare.errors import InvalidInput
from laybare.methods.choosing import name_labels


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((300, 3))


def write(path: Path, table: np.ndarray, delimiter: str = ",", decimal: str = ".") -> Path:
    rows = (delimiter.join(repr(float(value)).replace(".", decimal) for value in row) for row in table)
    path.write_text(delimiter.join("aby") + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(params=["pyarrow", "numpy"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to parse text; without pyarrow NumPy reads it."""
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return str(request.param)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas(delimiter: str, table: np.ndarray, tmp_path: Path) -> None:
    read = lb.open_samples(write(tmp_path / "de.csv", table, delimiter, ",")).read(0, 300)
    assert_array_equal(read.x, table[:, :2])
    assert_array_equal(read.y[:, 0], table[:, 2])


@pytest.mark.usefixtures("reader")
def test_both_readers_drop_columns_and_count_rows_with_missing_values(table: np.ndarray, tmp_path: Path) -> None:
    path = write(tmp_path / "holes.csv", table)
    lines = path.read_text(encoding="utf-8").splitlines()
    for line, cell in ((3, ""), (7, "NaN"), (11, "n/a"), (12, "?")):
        lines[line] = ",".join([cell, *lines[line].split(",")[1:]])
    path.write_text("\n".join(lines), encoding="utf-8")
    samples = lb.open_samples(path, drop_missing=True)
    assert (samples.size, samples.dropped) == (296, 4)
    assert "4 dropped" in repr(samples)
    assert_array_equal(samples.read(0, 296).x, np.delete(table, [2, 6, 10, 11], axis=0)[:, :2])
    assert_array_equal(lb.open_samples(path, drop="a").read(0, 300).x, table[:, 1:2])
    with pytest.raises(InvalidInput, match=r"Line 4 .*drop_missing=True"):
        lb.open_samples(path)


def test_feather_and_json_lines_hold_the_same_numbers(table: np.ndarray, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(table, columns=list("aby"))
    frame.to_feather(tmp_path / "data.feather")
    rows = "\n".join(json.dumps(dict(zip("aby", map(float, row), strict=True))) for row in table)
    (tmp_path / "data.jsonl").write_text(rows, encoding="utf-8")
    for name in ("data.feather", "data.jsonl"):
        samples = lb.open_samples(tmp_path / name)
        assert_array_equal(samples.read(0, 300).x, table[:, :2])
        assert samples.columns.inputs == ("a", "b")


@pytest.mark.parametrize("name", ["data.feather", "data.jsonl"])
def test_what_is_no_such_table_gets_a_sentence(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"\x00\x01 no table")
    with pytest.raises(InvalidInput, match=r"not a readable"):
        lb.open_samples(tmp_path / name)


def test_text_labels_are_not_to_be_dropped(tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a,kind\n1,yes\n2,no\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"'yes' in column kind.*as 0 and 1") as caught:
        lb.open_samples(tmp_path / "text.csv", target="kind")
    assert "drop=" not in str(caught.value)
    with pytest.raises(InvalidInput, match=r"drop='kind'"):
        lb.open_samples(tmp_path / "text.csv", target="a")


def test_constant_and_dependent_columns_are_named(table: np.ndarray, tmp_path: Path) -> None:
    held = write(tmp_path / "constant.csv", np.column_stack([table[:, 0], np.ones(300), table[:, 2]]))
    with pytest.raises(InvalidInput, match=r"Column b is constant.*drop='b'"):
        lb.open_samples(held).whitened()
    twice = write(tmp_path / "twice.csv", np.column_stack([table[:, 0], 2.0 * table[:, 0], table[:, 2]]))
    with pytest.raises(InvalidInput, match=r"Columns a and b are linearly dependent.*drop='b'"):
        lb.open_samples(twice).whitened()


def test_labels_are_named(table: np.ndarray) -> None:
    assert "labels of two classes" in name_labels(lb.Samples(table[:, :2], 1.0 * (table[:, 2] > 0.0)))
    assert "Write them as 0 and 1" in name_labels(lb.Samples(table[:, :2], np.sign(table[:, 2])))
    assert name_labels(lb.Samples(table[:, :2], table[:, 2])) == ""
    assert "labels of two classes" in lb.choose(lb.Samples(table[:, :2], (table[:, 2] > 0.0).astype(float))).explain()


def test_check_names_labels_dropped_rows_and_repeated_inputs(table: np.ndarray, tmp_path: Path) -> None:
    labelled = np.column_stack([table[:, :2], table[:, 2] > 0.0])
    path = write(tmp_path / "labels.csv", np.vstack([labelled, labelled[:20]]))
    path.write_text(path.read_text(encoding="utf-8") + ",1,1\n", encoding="utf-8")
    result = CliRunner().invoke(cli.commands, ["check", str(path), "--drop-missing"])
    assert "1 of 321 rows miss a value and were left out" in result.stderr
    assert "labels of two classes" in result.stderr
    assert '--loss "bernoulli"' in result.stderr
    assert "20 rows repeat the inputs of another row" in result.stdout


def test_a_product_of_inputs_is_named_a_polynomial(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2000, 4))
    assert "polynomial of degree 2" in lb.choose(lb.Samples(x, x[:, 0] * x[:, 1])).explain()
    for y in (np.abs(x[:, 0]), x[:, 0] * x[:, 1] + 1e-3 * np.maximum(x[:, 2], 0.0), x[:, 0] ** 3):
        assert "polynomial" not in lb.choose(lb.Samples(x, y)).explain()


def test_no_sample_proves_that_there_are_no_biases(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2000, 4))
    held = {}
    for bias in (0.0, 1.0):
        y = np.maximum(x[:, 0] - bias, 0.0) - np.maximum(-x[:, 1] - bias, 0.0)
        row = next(row for row in lb.choose(lb.Samples(x, y)).table if row.method == "TensorInit")
        held[bias] = next(one.holds for one in row.conditions if one.assumption == "units without biases")
    assert held == {0.0: None, 1.0: False}
