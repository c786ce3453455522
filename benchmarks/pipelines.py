"""Classifiers as people train them, read from their own answers: a battery that is counted by one command.

    python benchmarks/pipelines.py [--data WORD ...] [--scaler WORD ...] [--hidden 8 16 8,8] [--seeds 0-4] [--form pipeline|onnx]
                                   [--by python|command] [--queries N] [--out FILE.json] [--read FILE.json ...] [--table FILE.md]

Breast cancer and iris of scikit-learn, `StandardScaler` or `MinMaxScaler` in front of an `MLPClassifier`, read as the pipeline
(float64) and as the ONNX file that holds it (float32, sigmoid or softmax at the end), by `lb.recover` or by `laybare extract
--inputs rows.csv`. Each is given the rows it was trained on and `--queries` queries. *Within* counts those whose log-odds on
these rows are right to `ROW_TOL`, whatever they are called, and *doubtful* those of them that say that not all was read. What is
verified and not within is wrong. A network on which the black box itself still stands is not within.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from scaled_classifiers import log_odds, trained, write_onnx

import laybare as lb
from laybare.errors import LaybareError

ROW_TOL = 1e-4
"""Largest error of log-odds on the user's rows."""

DATA, SCALERS, HIDDEN, FORMS, WAYS = (
    ("breast_cancer", "iris"), ("StandardScaler", "MinMaxScaler"), ("8", "16", "8,8"), ("pipeline", "onnx"),
    ("python", "command"))
HEADINGS = ("form", "read by", "hidden", "data", "within 1e-4", "of these doubtful", "others, doubtful", "wrong and verified",
            "refused", "largest error", "most queries", "most seconds")


def main() -> int:
    given = _arguments()
    rows = [row for path in given.read for row in json.loads(Path(path).read_text())]
    if not given.read:
        for row in measure(given):
            rows.append(row)
            print("  ".join(f"{value}" for value in row.values()), flush=True)
            if given.out is not None:
                Path(given.out).write_text(json.dumps(rows, indent=1))
    print(table(rows))
    if given.table is not None:
        Path(given.table).write_text(table(rows))
    return 1 if any(is_wrong(row) for row in rows) else 0


def measure(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for every model, form and way."""
    with tempfile.TemporaryDirectory() as place:
        for hidden, data, scaler, seed in product(given.hidden, given.data, given.scaler, given.seeds):
            model, x = trained(data, scaler, tuple(map(int, hidden.split(","))), seed)
            write_onnx(model, Path(place) / "model.onnx")
            names = ",".join(f"c{i}" for i in range(x.shape[1]))
            np.savetxt(Path(place) / "rows.csv", x, delimiter=",", header=names, comments="")
            for form, way in product(given.form, given.by):
                if (form, way) == ("pipeline", "command"):
                    continue  # a pipeline is an object; the command reads files
                begun = time.process_time()
                read = read_by_command(Path(place), given.queries) if way == "command" else read_by_python(
                    model if form == "pipeline" else str(Path(place) / "model.onnx"), x, given.queries)
                network, verdict, queries, said = read
                error = np.inf if network is None or network.top is not None else float(
                    np.abs(network(x).reshape(len(x), -1) - log_odds(model, x)).max())
                yield {
                    "form": form, "by": way, "hidden": hidden, "data": data, "scaler": scaler, "seed": seed, "verdict": verdict,
                    "error": float(f"{error:.2g}"), "queries": queries, "seconds": round(time.process_time() - begun, 2),
                    "said": said}


def read_by_python(target: Any, x: np.ndarray, queries: int) -> tuple[lb.Network | None, str, int, str]:
    """Network, verdict, queries, and the sentence with which it stopped."""
    oracle = lb.Oracle(target, inputs=x, budget=queries)
    try:
        found = lb.recover(oracle)
    except LaybareError as error:
        return None, "refused", oracle.spent, str(error)
    failed = [claim for claim in found.certificate.claims if not claim.passed]
    return found.network, found.certificate.verdict, oracle.spent, f"{failed[0].name}: {failed[0].explanation}" if failed else ""


def read_by_command(place: Path, queries: int) -> tuple[lb.Network | None, str, int, str]:
    """The same by the command line."""
    from click.testing import CliRunner

    from laybare import cli

    out = place / "found.safetensors"
    out.unlink(missing_ok=True)
    result = CliRunner().invoke(cli.commands, [
        "extract", str(place / "model.onnx"), "--inputs", str(place / "rows.csv"), "--budget", str(queries), "--out", str(out),
        "--json"])
    if not out.is_file():
        return None, "refused", queries, result.output
    said = json.loads(result.stdout)
    return lb.load(out), said["verdict"], sum(said.get("queries", {}).values()), ""


def is_within(row: dict[str, Any]) -> bool:
    """Whether the function is right on the user's rows."""
    return bool(row["error"] <= ROW_TOL)


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether a network was verified that is not right there."""
    return bool(row["verdict"] == "verified" and not is_within(row))


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table, one line per form, way, hidden sizes and data."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    keys = ("form", "by", "hidden", "data")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        part = [row for row in rows if tuple(row[name] for name in keys) == key]
        within = [row for row in part if is_within(row)]
        worst = max((row["error"] for row in within), default=np.nan)
        others = [row for row in part if not is_within(row)]
        cells = (
            *key, f"{len(within)}/{len(part)}", _doubtful(within), _doubtful(others), sum(map(is_wrong, part)),
            sum(row["verdict"] == "refused" for row in part), f"{worst:.0e}" if within else "-",
            f"{max(row['queries'] for row in part):,}", f"{max(row['seconds'] for row in part):.1f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _doubtful(rows: list[dict[str, Any]]) -> int:
    return sum(row["verdict"] == "doubtful" for row in rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read classifiers that scikit-learn has trained.")
    for name, choices in (("data", DATA), ("scaler", SCALERS), ("hidden", HIDDEN), ("form", FORMS), ("by", WAYS)):
        parser.add_argument(f"--{name}", nargs="+", default=choices)
    parser.add_argument("--seeds", type=_range, default=range(5))
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--out", help="all rows as JSON")
    parser.add_argument("--read", nargs="+", default=[], help="rows that were measured before")
    parser.add_argument("--table", help="the table as Markdown")
    return parser.parse_args()


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    raise SystemExit(main())
