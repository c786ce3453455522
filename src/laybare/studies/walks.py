"""Stochastic gradients with fresh samples, as the figures of Ge, Lee & Ma (2018) show them: value and error over the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.landscape import Steps, Stream, Teacher, stochastic_descent
from laybare.landscape.objective import unit_rows
from laybare.networks import landscape_error
from laybare.report.plots import Curve, Panel
from laybare.shapes import Array
from laybare.source import Gaussian, Samples

RUNS = 5
"""Stochastic runs that the paper draws; more seeds than these are given to the deterministic descents alone."""


class WalkRun(NamedTuple):
    """A stochastic run: steps, the metric (4.1) there, the value of the objective on the batch; infinite if it diverged."""

    at: tuple[int, ...]
    errors: tuple[float, ...]
    values: tuple[float, ...]


def identity_teacher(dim: int, activation: Activation) -> Teacher:
    """B* = I, a* = 1."""
    return Teacher(np.ones(dim), np.eye(dim), activation)


def fresh(dim: int, rows: int, activation: Activation, rng: Generator) -> Samples:
    """New samples of the identity teacher."""
    x = rng.standard_normal((rows, dim))
    return Samples(x, activation(x).sum(axis=1), law=Gaussian(0, 1))


def walk(stream: Stream, start: Array, steps: Steps, rows: Callable[[Array], Array]) -> WalkRun:
    """Walk from `start`; `rows` takes the directions out of a point."""
    try:
        walked = stochastic_descent(stream, start, steps)
    except InvalidInput:  # the noise of a batch threw the rows out of reach
        return WalkRun((0,), (np.inf,), (np.nan,))
    errors = tuple(landscape_error(unit_rows(rows(point))) for point in walked.points)
    return WalkRun(walked.at, errors, walked.values)


def walk_panels(runs: Mapping[str, Sequence[WalkRun]], value: str, *, logarithmic: str = "y") -> tuple[Panel, Panel]:
    """Value of the objective on the batch, and error, over the steps."""
    drawn = {name: run for name, run in _named(runs).items() if np.isfinite(run.errors).all()}
    values = [Curve(name, run.at, run.values) for name, run in drawn.items()]
    errors = [Curve(name, run.at, [max(error, 1e-6) for error in run.errors]) for name, run in drawn.items()]
    return Panel(value, "step", "value", values, logarithmic), Panel("Error of the parameters (4.1)", "step", "error", errors)


def ends(runs: Mapping[str, Sequence[WalkRun]]) -> str:
    """The error at the end of every run."""
    last = ((name, run.errors[-1]) for name, run in _named(runs).items())
    return ", ".join(f"{name} {error:.2g}" if np.isfinite(error) else f"{name} diverged" for name, error in last)


def _named(runs: Mapping[str, Sequence[WalkRun]]) -> dict[str, WalkRun]:
    """Every run under a name of its own: that of its kind, with a number if the kind has several."""
    return {
        name if len(each) == 1 else f"{name}, run {i + 1}": run for name, each in runs.items() for i, run in enumerate(each)}
