"""What a recovery takes, foreseen and carried out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from laybare.cli import checking, commands
from laybare.cli.checking import Rates, measured_rates, plan_recovery


@pytest.fixture(scope="module", autouse=True)
def once() -> Iterator[None]:
    """Rates are measured once for this module; `ratio` measures its own."""
    rates = measured_rates(10, 4, 1)
    with patch.object(checking, "measured_rates", lambda *sizes: rates):
        yield


def plan_of(*arguments: str) -> Any:
    return CliRunner().invoke(commands, ["plan", *arguments])


def test_the_command_says_what_a_billion_rows_take() -> None:
    shown = plan_of("--rows", "1e9", "--dim", "20", "--width", "10", "--workers", "100")
    assert shown.exit_code == 0, shown.output
    for word in ("1,000,000,000 rows", "100 workers", "passes over all rows", "bytes moved", "memory of a worker", "time"):
        assert word in shown.output
    given = json.loads(plan_of("--rows", "1e9", "--dim", "20", "--width", "10", "--workers", "100", "--json").output)
    assert given["rows"] == 10**9 and given["seconds"] > 0 and given["data_bytes"] == 8e9 * 21
    assert float(plan_of("--rows", "1e4", "--dim", "5", "--width", "2", "--quiet").output) > 0


@pytest.mark.parametrize("rows", ["0", "many", "1.5", "-3"])
def test_numbers_that_are_none_are_refused(rows: str) -> None:
    shown = plan_of("--rows", rows, "--dim", "5", "--width", "2")
    assert shown.exit_code == 2 and "whole number" in shown.output


def test_more_workers_take_less_and_more_rows_more() -> None:
    """At the rates of a core of 5e9 operations a second: on a faster one scheduling weighs more."""
    rates = Rates(dict.fromkeys(measured_rates(10, 4, 1).flops, 5e9), 1e9)
    one, many = (plan_recovery(10**8, 10, 4, workers=workers, rates=rates) for workers in (1, 50))
    assert 10 < one.seconds / many.seconds < 50
    assert plan_recovery(10**9, 10, 4, rates=rates).seconds == pytest.approx(10 * one.seconds, rel=0.05)


RUN = """
import sys, time
import numpy as np
import laybare as lb
rows, dim, width = map(int, sys.argv[1:])
truth = lb.random_network(dim, width, rng=11)
rng = np.random.default_rng(12)
x = rng.standard_normal((rows, dim))
y = truth(x)
y += 0.1 * y.std() * rng.standard_normal(rows)
begun = time.process_time()
lb.recover(lb.Samples(x, y, schedule=lb.source.Schedule(workers=1)), width=width, rng=0)
print(time.process_time() - begun)
"""


def ratio(rows: int, dim: int, width: int) -> float:
    """Foreseen seconds over those that a recovery takes, on one thread, in seconds of the processor."""
    foreseen = plan_recovery(rows, dim, width, rates=measured_rates(dim, width, 1)).seconds
    took = float(subprocess.run(
        [sys.executable, "-c", RUN, str(rows), str(dim), str(width)], capture_output=True, text=True, check=True,
        timeout=600).stdout)
    print(f"{rows} rows, {dim} inputs, {width} units: foreseen {foreseen:.1f} s, took {took:.1f} s")
    return foreseen / took


def test_a_plan_is_good_to_a_factor_of_two() -> None:
    assert 0.5 < ratio(30_000, 10, 4) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "dim", "width"), [
    (200_000, 10, 4), (100_000, 20, 5), (60_000, 30, 8), (100_000, 50, 20), (10**6, 20, 10)])
def test_plans_of_five_sizes_are_good_to_a_factor_of_two(rows: int, dim: int, width: int) -> None:
    assert 0.5 < ratio(rows, dim, width) < 2.0
