"""What a study is: a grid, a run for every cell of it and every seed, and a summary that reads the runs.

    Settings (seeds, grid)  ->  measure: cell -> runs  ->  summary: rows, sentence, figure  ->  StudyResult (table, CSV, SVG)

A row is a NamedTuple of the study: its fields are the columns of the table and of the CSV, "median_s" under the heading
"median s", and what sentences and figures read. Nothing is rounded before it is printed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from laybare.networks.storage import put
from laybare.report.plots import LinesFigure, RatesFigure
from laybare.shapes import Event, Progress

EXACT_ERROR = 1e-10
"""Largest error of any weight, bias or readout of a network that counts as recovered exactly."""

Cell = str | int | float
"""What stands in a table; an empty text where there is nothing to tell."""

Row: TypeAlias = tuple[Cell, ...]

Grid = TypeVar("Grid")
Place = TypeVar("Place", bound=Hashable)
Run = TypeVar("Run")
Runs = TypeVar("Runs")


@dataclass(frozen=True)
class Settings(Generic[Grid]):
    """Which seeds to run, the grid, and where ticks of progress go."""

    seeds: Sequence[int]
    grid: Grid
    progress: Progress | None = None

    def first(self, count: int) -> Settings[Grid]:
        """The same with no more than so many seeds."""
        return replace(self, seeds=self.seeds[:count])

    def tick(self, stage: str, done: int, total: int, detail: str) -> None:
        """Say that `done` of `total` are done."""
        if self.progress is not None:
            self.progress(Event(stage, done, total, detail))


class StudyResult(NamedTuple):
    """Rows of the table under their headings, one sentence that reads it, and a figure if there is one."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    sentence: str
    figure: LinesFigure | RatesFigure | None = None

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write `name`.csv and `name`.txt into `folder`, which is made if missing, and the figure with its points in a CSV."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{name}.csv": _csv(self.columns, self.rows), f"{name}.txt": self.sentence + "\n"}
        if self.figure is not None:
            files[f"{name}.svg"] = self.figure.svg()
            files[f"{name}-figure.csv"] = _csv(*self.figure.points())
        for file, content in files.items():
            put(folder / file, content.encode())
        return [folder / file for file in files]


@dataclass(frozen=True)
class Study(Generic[Grid, Runs]):
    """A comparison that anybody can run again: `title` says what is measured, `claim` what was stated before."""

    name: str
    title: str
    claim: str
    quick: Grid
    full: Grid
    measure: Callable[[Settings[Grid]], Runs]
    summary: Callable[[Grid, Runs], StudyResult]
    seeds: int = 20
    """Seeds that `laybare reproduce` takes unless it is told others: 0 to one less."""

    def settings(self, seeds: Sequence[int], *, full: bool = False, progress: Progress | None = None) -> Settings[Grid]:
        """Those seeds on the quick grid, or on the full one."""
        return Settings(seeds, self.full if full else self.quick, progress)

    def run(self, settings: Settings[Grid]) -> StudyResult:
        """Measure, then read."""
        return self.summary(settings.grid, self.measure(settings))


def over(
    cells: Callable[[Grid], Sequence[Place]], run: Callable[[Place, int], Run], *, stage: str = "cells"
) -> Callable[[Settings[Grid]], dict[Place, list[Run]]]:
    """A measurement: `run` once for every cell and seed, with a tick after every cell."""

    return lambda settings: every(settings, cells(settings.grid), run, stage=stage)


def every(
    settings: Settings[Any], places: Sequence[Place], run: Callable[[Place, int], Run], *, stage: str = "cells"
) -> dict[Place, list[Run]]:
    """The runs of every place, one for each seed, with a tick after every place."""
    runs: dict[Place, list[Run]] = {}
    for done, place in enumerate(places):
        runs[place] = [run(place, seed) for seed in settings.seeds]
        settings.tick(stage, done + 1, len(places), spelled(place))
    return runs


def spelled(place: Any) -> str:
    """A cell in a line: its fields by name, or the cell as it is."""
    if hasattr(place, "_asdict"):
        return ", ".join(f"{name}={value}" for name, value in place._asdict().items())
    return ", ".join(map(str, place)) if isinstance(place, tuple) else str(place)


def headings(row: type[Any]) -> tuple[str, ...]:
    """The columns of a NamedTuple class of rows."""
    return tuple(name.replace("_", " ") for name in row._fields)


def spread(values: Sequence[float]) -> tuple[float, float, float, int]:
    """Median, lowest and highest tenth of what is finite, and how many are not."""
    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return np.nan, np.nan, np.nan, len(values)
    return float(np.median(kept)), float(np.quantile(kept, 0.1)), float(np.quantile(kept, 0.9)), len(values) - len(kept)


def radians(angle: float) -> str:
    """A median angle in a sentence; NaN is that of runs which were all refused."""
    return f"{angle:.2g} rad" if np.isfinite(angle) else "refused in every run"


class Count(NamedTuple):
    """Exact recoveries of an arm, of so many runs, and runs that were verified though they were wrong."""

    exact: int
    runs: int
    wrong: int


def tally(counts: Mapping[str, Sequence[Count]]) -> str:
    """Exact recoveries of every arm, and how often a certificate was wrong."""
    parts = ", ".join(f"{arm} {sum(c.exact for c in each)}/{sum(c.runs for c in each)}" for arm, each in counts.items())
    return f"{parts}; verified but wrong: {sum(c.wrong for each in counts.values() for c in each)}"


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
