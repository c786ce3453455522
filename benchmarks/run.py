"""Run the benchmarks: python benchmarks/run.py [WORD ...] (only those with a WORD in their name) [--list].

A benchmark is a function whose name starts with `bench_`, in a file bench_*.py of this folder; it yields rows (measure.Row).
The rows go to benchmarks/results.json as a list. The exit code is 0 only if every ratio reaches what its row needs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from measure import Row, blas_threads
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
Benchmark = Callable[[], Iterator[Row]]


def main() -> int:
    wanted, only_list = _arguments()
    chosen = {name: run for name, run in discover().items() if not wanted or any(word in name for word in wanted)}
    console = Console()
    if only_list or not chosen:
        console.print(*(chosen or [f"No benchmark is called like {', '.join(wanted)}."]), sep="\n")
        return 0 if chosen else 1
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, {blas_threads()} BLAS threads, NumPy {np.__version__}")
    rows, failed = run_all(chosen, console)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(table(rows))
    missed = [row["name"] for row in rows if not reached(row)]
    for name in missed + failed:
        console.print(f"[red]{name}: {'missed' if name in missed else 'stopped with an error'}[/red]")
    return 1 if missed or failed else 0


def discover() -> dict[str, Benchmark]:
    """Every bench_* function of every bench_*.py, under its name with dashes: bench_sum_gram -> sum-gram."""
    modules = [importlib.import_module(path.stem) for path in sorted(HERE.glob("bench_*.py"))]
    found = [(name, run) for module in modules for name, run in vars(module).items() if name.startswith("bench_")]
    return {name.removeprefix("bench_").replace("_", "-"): run for name, run in found}


def run_all(chosen: dict[str, Benchmark], console: Console) -> tuple[list[Row], list[str]]:
    """Rows of all benchmarks, and the names of those that raised: one that breaks does not stop the rest."""
    rows: list[Row] = []
    failed: list[str] = []
    for name, run in chosen.items():
        start = time.perf_counter()
        try:
            rows.extend(run())
        except Exception:
            console.print(traceback.format_exc(), markup=False, highlight=False)
            failed.append(name)
        console.print(f"[dim]{name}: {time.perf_counter() - start:.1f} s[/dim]")
    return rows, failed


def reached(row: Row) -> bool:
    return row["ratio"] >= row["need"]


def table(rows: list[Row]) -> Table:
    shown = Table("benchmark", title="ratio = baseline / ours")
    for heading in ("ours", "baseline", "ratio", "need"):
        shown.add_column(heading, justify="right")
    for row in rows:
        amounts = [f"{row['ours']:.4g} {row['unit']}", f"{row['baseline']:.4g} {row['unit']}"]
        shown.add_row(row["name"], *amounts, f"{row['ratio']:.2f}", f"{row['need']:g}", style="" if reached(row) else "red")
    return shown


def _arguments() -> tuple[list[str], bool]:
    parser = argparse.ArgumentParser(description="Measure every claim against its baseline.")
    parser.add_argument("word", nargs="*", help="run only benchmarks with one of these words in their name")
    parser.add_argument("--list", action="store_true", help="only list their names")
    given = parser.parse_args()
    return given.word, given.list


if __name__ == "__main__":
    sys.exit(main())
