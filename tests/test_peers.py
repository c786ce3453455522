"""The comparison with peers: what a line counts, who takes part, and one small run of ours and of training."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLACE = Path(__file__).parents[1] / "benchmarks" / "peers"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, imported as its own folder would."""
    monkeypatch.syspath_prepend(str(PLACE))
    return importlib.import_module("run")


def run_of(system: str, error: float, seconds: float = 1.0) -> dict[str, Any]:
    return {"task": "samples", "system": system, "error": error, "recovered": error <= 1e-2, "seconds": seconds, "read": 2000}


def test_lines_count_and_take_medians(peers: ModuleType) -> None:
    pages = importlib.import_module("pages")
    runs = [run_of("a", 1e-16), run_of("a", 3e-16), run_of("a", 0.9), run_of("b", float("inf"), 0.5)]
    task = peers.TASKS[0]
    table = pages.table_of(task, pages.lines_of(runs))
    assert "| a | 2 of 3 | 3e-16 | 1 | 2,000 |" in table and "| b | 0 of 1 | units wrong | 0.5 | 2,000 |" in table
    assert "| c | 0 of 1 | 1 | 1 | 2,000 |" in pages.table_of(task, pages.lines_of([run_of("c", 1.2)]))


def test_ours_and_the_control_are_in_every_task_of_samples(peers: ModuleType) -> None:
    for task in peers.TASKS:
        names = list(peers.systems_for(task))
        assert names[0] == "laybare" and ("laybare RandomStart" in names) == bool(task.samples)
    trained = {task.name: [name for name in peers.systems_for(task) if "scikit-learn" in name] for task in peers.TASKS}
    assert [len(trained[name]) for name in ("samples", "wider", "noisy", "bias-free", "outputs", "queries")] == [4, 3, 3, 1, 2, 0]


@pytest.mark.parametrize("system", ["laybare RandomStart", "scikit-learn L-BFGS, best of 10"])
def test_one_small_run(peers: ModuleType, system: str) -> None:
    task = peers.TASKS[0]._replace(dim=3, width=2, samples=300)
    found = peers.measured(task, system, peers.systems_for(task)[system], 0)
    assert found["recovered"] and found["read"] == 300 and found["said"] == ""
