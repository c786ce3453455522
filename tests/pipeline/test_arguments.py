"""What users write by mistake is understood, or answered with one sentence that says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.pipeline.arguments import parse_arguments

pytestmark = pytest.mark.usefixtures("unchecked")
TRUTH = lb.random_network(4, 3, rng=1)
X = np.random.default_rng(0).standard_normal((400, 4))
Y = TRUTH(X)


def right(found: lb.Recovery) -> bool:
    return found.certificate.verdict == "verified" and lb.compare(found.network, TRUTH).max_error < 1e-8


PAIRS = [(X, Y), ((X, Y),), ([X, Y],), (X, Y, lb.RandomStart(), 3), (X, Y, 3), (X.tolist(), Y.tolist())]


@pytest.mark.parametrize("arguments", PAIRS, ids=range(len(PAIRS)))
def test_pairs_are_samples(arguments: tuple[Any, ...]) -> None:
    assert right(lb.recover(*arguments))


def test_names_may_follow_pairs() -> None:
    assert right(lb.recover(X, Y, method=lb.RandomStart, width=3, activation="relu", law="unknown"))


def test_a_model_is_a_black_box() -> None:
    found = lb.recover(TRUTH)
    assert right(found) and sum(found.queries.values()) - found.queries["assurance"] <= 200


def test_a_fitted_model_is_a_black_box() -> None:
    model = lb.to_sklearn(TRUTH)
    assert right(lb.recover(model))


def test_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=X, y=Y)
    TRUTH.save("net.safetensors")
    assert right(lb.recover("data.npz")) and right(lb.recover(tmp_path / "net.safetensors"))


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "jsonl", "feather", "parquet"])
def test_tables_of_every_kind_are_samples_and_no_black_boxes(ending: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table, path = pandas.DataFrame(np.column_stack([X[:50], Y[:50]]), columns=[*"abcd", "y"]), tmp_path / f"table.{ending}"
    match ending:
        case "jsonl":
            table.to_json(path, orient="records", lines=True)
        case "feather":
            table.to_feather(path)
        case "parquet":
            table.to_parquet(path)
        case _:
            table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    source = parse_arguments(str(path)).source
    assert (source.size, source.dim, source.outputs) == (50, 4, 1)


def test_names_and_classes_stand_for_objects() -> None:
    source, leaky = parse_arguments(X, (Y,)).source, lb.leaky_relu(0.2)
    assert parse_arguments(source, (None, 3, "tanh")).activation == lb.tanh
    assert parse_arguments(source, (lb.TensorInit, 3, None)).method == lb.TensorInit()
    assert parse_arguments(source, (lb.TensorInit, 3, "leaky_relu(0.2)")).method == lb.TensorInit(activation=leaky)
    assert parse_arguments(source, (lb.RandomStart(activation="tanh"), 3, None)).method == lb.RandomStart(activation=lb.tanh)


@pytest.mark.parametrize("law", ["gaussian", "Gaussian", lb.Gaussian, lb.Gaussian()], ids=str)
def test_laws_by_name(law: Any) -> None:
    assert lb.Samples(X, Y, law=law).law == lb.Gaussian()
    assert lb.Oracle(TRUTH, law=law).law == lb.Oracle(TRUTH).law
    assert parse_arguments(X, (Y,), law=law).source.law == lb.Gaussian()


def test_progress_true_is_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert right(lb.recover(X, Y, progress=True))
    said = capsys.readouterr()
    assert "certifying" in said.err and said.out == ""


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "inputs alone": ((X,), {}, "Write recover\\(x, y\\)"),
    "outputs beside a source": ((lb.Samples(X, Y), Y), {}, "recover\\(x, y, method\\)"),
    "a function of unknown dimension": ((lambda x: x[:, 0],), {}, "Give it with dim="),
    "method as text": ((X, Y, "tensor-unit"), {}, "No method has that name.*tensor-init.*lb.TensorInit\\(\\)"),
    "method of a layer": ((X, Y, lb.HighThreshold), {}, "recover_layer"),
    "family without its number": ((X, Y), {"activation": lb.leaky_relu}, "leaky_relu\\(0.1\\)"),
    "no such activation": ((X, Y), {"activation": "swish"}, "Known are relu"),
    "no such law": ((X, Y), {"law": "poisson"}, "lb.Gaussian\\(\\)"),
    "width twice": ((X, Y, lb.RandomStart(), 3), {"width": 3}, "width was given twice"),
    "too many": ((X, Y, None, 3, None, 5), {}, "4 arguments stand after the source"),
    "two laws": ((lb.Samples(X, Y),), {"law": "gaussian"}, "Give the law to the source"),
    "progress as text": ((X, Y), {"progress": "yes"}, "Give a function"),
    "width zero": ((X, Y), {"width": 0}, "width is 0"),
    "a number": ((3,), {}, "Give a function f"),
    "nothing": ((None,), {}, "Give a function f"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_rest_is_one_sentence(name: str) -> None:
    arguments, options, given = WRONG[name]
    with pytest.raises(lb.errors.InvalidInput, match=given):
        lb.recover(*arguments, **options)


@pytest.mark.parametrize("name", ["tensor-init", "tensor_init", "TensorInit"])
def test_methods_are_known_by_name(name: str) -> None:
    assert parse_arguments((X, Y), (name,)).method == lb.TensorInit()
    assert parse_arguments((X, Y), method=name, activation="tanh").method == lb.TensorInit(activation=lb.tanh)
