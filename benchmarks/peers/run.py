"""laybare beside its peers, on the same data and one core each: success, error of the parameters, CPU seconds, samples.

    python benchmarks/peers/run.py [TASK ...] [--seeds 0-19] [--out FILE] [--only WORD]     measures; FILE keeps every run
    python benchmarks/peers/run.py --read FILE ... [--into FOLDER]           table and figure of what was measured before

Recovered means: compare(found, truth) finds no unit missing or too many, and no weight, bias or readout off by more than the
task's tolerance, rows scaled to length 1. What is not installed (torch, ART) is left out and said.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import ours
import tensors
import toolbox
import trained
from clusters import expand_and_cluster
from pages import write_pages
from tasks import TASKS, Given, Outcome, System, Task, given
from threadpoolctl import threadpool_limits

import laybare as lb

LIMIT = 120.0
"""CPU seconds of the first two seeds on average beyond which a system is not run on more of them."""

TRAINED = {
    "samples": ("",), "wider": ("L-BFGS", "1 start"), "noisy": ("L-BFGS", "1 start"),
    "bias-free": ("scikit-learn L-BFGS, 1",), "outputs": ("scikit-learn L-BFGS",)}
"""Which of those that train take part, by words of their names: Adam from ten starts, the slowest, where networks are smallest,
and L-BFGS alone where the question is what moments can do."""


def systems_for(task: Task) -> dict[str, System]:
    """Who takes part; ours first."""
    if not task.samples:
        return {"laybare": ours.asked, **toolbox.systems()}
    named: dict[str, System] = {"laybare": ours.sampled(None), "laybare RandomStart": ours.sampled(lb.RandomStart())}
    if task.name == "bias-free":
        named |= {"laybare TensorInit": ours.sampled(lb.TensorInit()), **ours.literal(), **tensors.systems()}
    elif task.name == "outputs":
        named |= {
            "laybare SymmetricInputs": ours.sampled(lb.SymmetricInputs()),
            "Ge et al. 2019, as printed": ours.sampled(lb.SymmetricInputs.literal(noise=False, halves=False), stated=True)}
    else:
        named |= {
            "laybare GeneralReLU": ours.sampled(lb.GeneralReLU()),
            "Awasthi et al. 2021, as printed": ours.sampled(lb.GeneralReLU.literal(), stated=True),
            "expand-and-cluster": expand_and_cluster}
    return named | {
        name: system for name, system in trained.systems().items() if any(word in name for word in TRAINED[task.name])}


def measured(task: Task, name: str, system: System, seed: int) -> dict[str, Any]:
    """One run; a system that refuses or breaks has recovered nothing."""
    instance: Given = given(task, seed)
    begun = time.process_time()
    try:
        outcome: Outcome | None = system(instance)
        said = ""
    except Exception as error:
        outcome, said = None, f"{type(error).__name__}: {error}"[:200]
    seconds = time.process_time() - begun
    error = _error(outcome, instance)
    return {
        "task": task.name, "system": name, "seed": seed, "error": error, "recovered": error <= task.tol, "seconds": seconds,
        "read": outcome.asked if outcome is not None else task.samples, "said": said}


def _error(outcome: Outcome | None, instance: Given) -> float:
    """Largest error of any number; infinite where a unit is missing or there is none."""
    if outcome is None or outcome.network is None or not trained.finite(outcome.network):
        return float("inf")
    match = lb.compare(outcome.network, instance.truth)
    return float("inf") if match.missing or match.spurious else float(match.max_error)


def measure(tasks: list[Task], seeds: range, out: Path, only: str) -> list[dict[str, Any]]:
    """Every system on every seed, a line each; the file is written after every system."""
    runs: list[dict[str, Any]] = []
    for task in tasks:
        for name, system in systems_for(task).items():
            if only not in name:
                continue
            own: list[dict[str, Any]] = []
            for seed in seeds:
                own.append(measured(task, name, system, seed))
                if len(own) == 2 and np.mean([run["seconds"] for run in own]) > LIMIT:
                    break
            runs += own
            error, seconds = (np.median([run[key] for run in own]) for key in ("error", "seconds"))
            print(f"{task.name}: {name}: {sum(run['recovered'] for run in own)}/{len(own)}, error {error:.1e}, {seconds:.2f} s",
                  flush=True)
            out.write_text(json.dumps(runs, indent=0) + "\n")
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description="laybare beside its peers.")
    parser.add_argument("task", nargs="*", help=f"of {', '.join(task.name for task in TASKS)}; all if left out")
    parser.add_argument("--seeds", default="0-19", help="FIRST-LAST")
    parser.add_argument("--only", default="", metavar="WORD", help="only systems with this in their name")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/peers/runs.json"), help="where every run is kept")
    parser.add_argument("--read", type=Path, nargs="+", metavar="FILE", help="measure nothing: table and figure of these runs")
    parser.add_argument("--into", type=Path, help="folder of the page and the figure, for example docs")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    chosen = [task for task in TASKS if not asked.task or task.name in asked.task]
    if asked.read:
        runs = [run for file in asked.read for run in json.loads(file.read_text())]
    else:
        with threadpool_limits(1):
            runs = measure(chosen, range(int(first), int(last or first) + 1), asked.out, asked.only)
    print(write_pages(runs, asked.into))
    return 0


if __name__ == "__main__":
    sys.exit(main())
