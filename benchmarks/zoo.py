"""Real networks, trained by others, read under limits: objective x data x solver.

    python benchmarks/zoo.py --folder DIR [--only WORD ...] [--form float64|runtime] [--solver NAME ...] [--queries N] [--cpu S]
                             [--where rows|standard] [--seed N] [--out FILE.json] [--table FILE.md]
    python benchmarks/zoo.py --read FILE.json ... --table FILE.md

`zoo_data.py` says what a folder holds, `zoo_objective.py` how a result is judged, `zoo_solvers.py` who takes part. Every run is a
process of its own, which gets `--cpu` seconds to answer; one that goes on for `GRACE` times as long is ended, and the table says
so. laybare is given 1,000 rows of the domain (`--where rows`) or nothing but the black box (`--where standard`); controls are
given as many answers as laybare took on the same network, drawn from the domain, and the true shape.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from zoo_data import FORMS, RealNetwork, networks_in
from zoo_objective import row_of, score
from zoo_solvers import SOLVERS, Limits

GRACE, GRACE_SECONDS = 1.5, 20.0
"""A run is ended after this many times its CPU seconds and these beside: imports, and the certificate of what was read."""

HEADINGS = ("network", "shape", "form", "solver", "verdict", "units right", "unit error", "function error", "queries", "CPU s",
            "wrong and verified")


def main() -> int:
    given = _arguments()
    if given.run is not None:
        return run_here(given)
    rows = [row for path in given.read for row in json.loads(Path(path).read_text())]
    if given.folder is not None:
        rows += measure(given)
    if given.table is not None:
        Path(given.table).write_text(table(rows))
    if given.folder is None:
        print(table(rows))
    return 1 if any(row["wrong_and_verified"] for row in rows) else 0


def measure(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs, one after the other; every row is printed and written as soon as it is there."""
    rows: list[dict[str, Any]] = []
    for network in networks_in(Path(given.folder)):
        if given.only and not any(word in network.name for word in given.only):
            continue
        for form in network.forms if given.form is None else set(network.forms) & {given.form}:
            spent = given.queries
            for solver in given.solver or SOLVERS:
                row = run_apart(given, network, form, solver, spent)
                if row is None:
                    continue
                spent = row["queries"] if solver == "laybare" else spent
                rows.append(row)
                print(line(row), flush=True)
                if given.out is not None:
                    Path(given.out).write_text(json.dumps(rows, indent=1))
    return rows


def run_apart(
    given: argparse.Namespace, network: RealNetwork, form: str, solver: str, queries: int
) -> dict[str, Any] | None:
    """One run in a process of its own; what it printed last, or that it was ended."""
    call = [sys.executable, __file__, "--folder", given.folder, "--run", network.name, form, solver, "--queries", str(queries),
            "--cpu", str(given.cpu), "--where", given.where, "--seed", str(given.seed)]
    most = int(GRACE * given.cpu + GRACE_SECONDS)
    done = subprocess.run(
        call, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)))
    if done.returncode == 0:
        return dict(json.loads(done.stdout)) if done.stdout.strip() else None
    ended = f"ended after {most} CPU s" if done.returncode < 0 else f"failed with status {done.returncode}"
    outcome = {"verdict": ended, "queries": queries, "said": "", "cpu": float(most)}
    return row_of(network, form, solver, score(network, form, None), outcome)


def run_here(given: argparse.Namespace) -> int:
    """The run itself: prints its row as JSON, nothing if the solver does not apply."""
    name, form, solver = given.run
    network = next(one for one in networks_in(Path(given.folder)) if one.name == name)
    begun = time.process_time()
    limits = Limits(given.queries, begun + given.cpu, given.seed, given.where)
    found = SOLVERS[solver](network, form, limits)
    if found is None:
        return 0
    outcome = {
        "verdict": found.verdict, "queries": found.queries, "said": found.said, "cpu": round(time.process_time() - begun, 2)}
    print(json.dumps(row_of(network, form, solver, score(network, form, found.network), outcome)))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    head = ["| " + " | ".join(HEADINGS) + " |", "|---|---|---|---|---|---|---:|---:|---:|---:|---|"]
    return "\n".join([*head, *map(line, rows)]) + "\n"


def line(row: dict[str, Any]) -> str:
    """One row of it."""
    form = f"{row['form']} ({row['runtime']})" if row.get("runtime") else row["form"]
    cells = (
        row["network"], row["shape"], form, row["solver"], row["verdict"], ", ".join(map(_layer, row["layers"])),
        _error(row["unit_error"] or np.nan), _error(row["function"]), f"{row['queries']:,}", f"{row['cpu']:.0f}",
        "**yes**" if row["wrong_and_verified"] else "no")
    return "| " + " | ".join(cells) + " |"


def _layer(counts: list[int]) -> str:
    """Right of true units; how many were found, if that is another number."""
    right, true, found = counts
    return f"{right}/{true}" + (f" ({found} found)" if found not in (0, true) else "")


def _error(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if np.isfinite(value) else "-"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read real networks under limits.")
    parser.add_argument("--folder", help="networks as npz with a manifest (see zoo_data.py)")
    parser.add_argument("--only", nargs="+", default=[], help="networks with one of these words in their name")
    parser.add_argument("--form", choices=FORMS, help="only this form; by default both")
    parser.add_argument("--solver", nargs="+", choices=list(SOLVERS), help="only these; by default all that can run")
    parser.add_argument("--queries", type=int, default=1 << 20)
    parser.add_argument("--cpu", type=float, default=300.0, help="CPU seconds of a run")
    parser.add_argument("--where", choices=("rows", "standard"), default="rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="all rows as JSON")
    parser.add_argument("--table", help="the table as Markdown")
    parser.add_argument("--read", nargs="+", default=[], help="rows that were measured before")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is None and not given.read:
        parser.error("give --folder, or --read")
    return given


if __name__ == "__main__":
    sys.exit(main())
