"""Figures 2, 3 and 4 of Ge, Kuditipudi, Li and Wang (2019), each with plain descent from random starts beside.

Figure 2: A and W random orthonormal, x ~ N(0, I), no noise; errors over the number of samples at 10x10 and 32x32, and root mean
errors over the dimension at n = 10,000. Figure 3: 10x10, n = 10,000, label noise, Gaussian inputs and the mixture N(±1, I).
Figure 4: 10x10, n = 20,000, mixture, condition number of W or of A. The paper takes five trials each. Its text gives one number,
an average error of about 0.15 for the printed form at 10x10, n = 10,000; axes are not in the text, so the grids of noise and of
condition numbers are ours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.planted import gaussian_inputs, mixture_inputs, orthonormal_weights
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Event
from laybare.studies.ge_arms import ARMS, FRESH, MOMENTS, OURS, PRINTED, Problem, Run, conditioned, planted, run
from laybare.studies.study import EXACT_ERROR, Cell, Outcome, Settings, Study

COLUMNS = ("panel", "value", "arm", "runs", "mean errA", "mean errW", "mean MSE", "errors < 1e-10", "median s")
PRINTED_ERROR = 0.15
"""What the paper reports for its printed form, 10x10, n = 10,000, ten trials."""


Draw: TypeAlias = Callable[[Generator], Problem]
Pick: TypeAlias = Callable[[Run], float]
Runs: TypeAlias = dict[tuple[str, float, str], list[Run]]
"""Runs of every panel, number on its axis, and arm."""


class Setting(NamedTuple):
    """One point of a panel: its number on the axis, and how a problem is drawn for it."""

    panel: str
    value: float
    draw: Draw


def _square(size: int, samples: int, noise: float = 0.0, *, mixture: bool = False, w: float = 1.0, a: float = 1.0) -> Draw:
    """Square problems: orthonormal layers, or of condition `w` and `a`."""

    def draw(rng: Generator) -> Problem:
        W, A = (
            orthonormal_weights(size, size, rng=rng) if condition == 1.0 else conditioned(size, condition, rng)
            for condition in (w, a))
        make = mixture_inputs if mixture else gaussian_inputs
        x, fresh = (make(n, size, rng=rng) for n in (samples, FRESH))
        return Problem(planted(W, A), x, fresh, noise)

    return draw


def _measured(settings: Settings, points: list[Setting]) -> Runs:
    runs: Runs = {}
    total = len(points) * len(ARMS)
    for done, (point, arm) in enumerate((point, arm) for point in points for arm in ARMS):
        key = (point.panel, point.value, arm)
        runs[key] = []
        for seed in settings.seeds:
            rng = np.random.default_rng([seed, zlib.crc32(point.panel.encode()), round(1e6 * point.value)])
            runs[key].append(run(arm, point.draw(rng), rng))
        if settings.progress is not None:
            settings.progress(Event("points", done + 1, total, f"{point.panel} {point.value:g}, {arm}"))
    return runs


def _mean(runs: list[Run], pick: Pick) -> float:
    values = [pick(one) for one in runs if np.isfinite(pick(one))]
    return float(np.mean(values)) if values else float("nan")


def _rows(runs: Runs) -> list[tuple[Cell, ...]]:
    return [
        (panel, value, arm, len(some), _mean(some, _readout), _mean(some, lambda r: r.weights), _mean(some, _mse),
         sum(r.largest < EXACT_ERROR for r in some), round(float(np.median([r.seconds for r in some])), 2))
        for (panel, value, arm), some in runs.items()]


def _figure(runs: Runs, axis: str, pick: Pick, label: str, meaning: str) -> str:
    panels = []
    for panel in dict.fromkeys(key[0] for key in runs):
        values = list(dict.fromkeys(key[1] for key in runs if key[0] == panel))
        lines = [Line(arm, values, [max(_mean(runs[panel, value, arm], pick), 1e-32) for value in values]) for arm in ARMS]
        panels.append(Panel(panel, axis, label, lines, "xy"))
    return lines_figure(panels, meaning)


def _count(runs: Runs, arm: str) -> str:
    mine = [one for key, some in runs.items() if key[2] == arm for one in some]
    return f"{arm} {sum(one.largest < EXACT_ERROR for one in mine)}/{len(mine)}"


def _readout(run: Run) -> float:
    return run.readout


def _mse(run: Run) -> float:
    return run.mse


def _total(run: Run) -> float:
    return run.readout + run.weights


def figure_2(settings: Settings) -> Outcome:
    """Errors over the number of samples, and over the dimension."""
    small = (160, 500, 1000, 2000, 5000, 10_000) if settings.full else (160, 500, 2000, 10_000)
    large, dims = ((1600, 2500, 5000, 10_000), (10, 16, 20, 26, 32)) if settings.full else ((1600,), (10, 20))
    points = [Setting("10x10", float(n), _square(10, n)) for n in small]
    points += [Setting("32x32", float(n), _square(32, n)) for n in large]
    points += [Setting("n = 10,000, dimension", float(d), _square(d, 10_000)) for d in dims]
    runs = _measured(settings, points)
    literal = _mean(runs["10x10", 10_000.0, PRINTED], _readout)
    flat = {d: np.sqrt(_mean(runs["n = 10,000, dimension", float(d), MOMENTS], _readout) / d) for d in dims}
    sentence = (
        f"The printed form has a mean error of A of {literal:.2g} at 10x10 and n = 10,000; the paper says about {PRINTED_ERROR}. "
        f"Root mean error of A by our moments alone: {', '.join(f'{v:.2g} at dimension {d}' for d, v in flat.items())}. "
        f"Every number within 1e-10: {', '.join(_count(runs, arm) for arm in ARMS)}.")
    figure = _figure(runs, "samples, or dimension", _total, "squared error of A and W", "Errors over samples and dimension")
    return Outcome(COLUMNS, _rows(runs), sentence, figure)


def figure_3(settings: Settings) -> Outcome:
    """Errors over the noise of the outputs."""
    size, samples = 10, 10_000
    levels = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0) if settings.full else (0.05, 0.5)
    points = [
        Setting(panel, noise, _square(size, samples, noise, mixture=panel == "mixture"))
        for panel in ("Gaussian", "mixture") for noise in levels]
    runs = _measured(settings, points)
    used = samples - samples // 20
    free = size * (2 * size - 1) + size
    ratios = [
        _mean(some, _mse) / (noise**2 * free / (used * size)) for (_, noise, arm), some in runs.items() if arm == OURS]
    means = {arm: np.nanmean([_mean(some, _readout) for key, some in runs.items() if key[2] == arm]) for arm in ARMS}
    errors = ", ".join(f"{arm} {value:.2g}" for arm, value in means.items())
    sentence = (
        f"SymmetricInputs' error of the outputs is {min(ratios):.2f} to {max(ratios):.2f} of noise² · free numbers / (samples · "
        f"outputs), so it grows in step with the noise, as the paper says of its own. Mean error of A over all points: {errors}.")
    figure = _figure(runs, "noise", _mse, "mean squared error without noise", "Error of the outputs over label noise")
    return Outcome(COLUMNS, _rows(runs), sentence, figure)


def figure_4(settings: Settings) -> Outcome:
    """Errors over the condition number of either layer."""
    grid = (1.0, 3.0, 10.0, 100.0, 1e3, 1e4) if settings.full else (10.0, 100.0)
    points = [Setting("condition of W", c, _square(10, 20_000, mixture=True, w=c)) for c in grid]
    points += [Setting("condition of A", c, _square(10, 20_000, mixture=True, a=c)) for c in grid]
    runs = _measured(settings, points)
    worst = {arm: max(_mean(some, _mse) for key, some in runs.items() if key[2] == arm) for arm in ARMS}
    sentence = (
        f"Every number within 1e-10: {', '.join(_count(runs, arm) for arm in ARMS)}. Largest mean squared error of the outputs: "
        f"{', '.join(f'{arm} {value:.1e}' for arm, value in worst.items())}.")
    figure = _figure(runs, "condition number", _total, "squared error of A and W", "Errors over condition numbers")
    return Outcome(COLUMNS, _rows(runs), sentence, figure)


FIGURE_2 = Study(
    "ge19-fig2", "Symmetric inputs: errors of both layers over samples and dimension, no noise",
    "A few times as many samples as parameters suffice; the root of the normalised error is flat in the dimension.", figure_2)
FIGURE_3 = Study(
    "ge19-fig3", "Symmetric inputs: errors over label noise, Gaussian and mixture inputs",
    "The error of the outputs grows in step with the noise.", figure_3)
FIGURE_4 = Study(
    "ge19-fig4", "Symmetric inputs: errors over the condition numbers of W and A, mixture inputs",
    "Steady for well-conditioned layers, then it fluctuates; the error of the outputs stays low.", figure_4)
