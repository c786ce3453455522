"""What a study is: a grid of cells, a run for every cell and seed, a table of the runs, a sentence and a figure that read the
table.

    Settings (seeds, grid)  ->  cell -> runs  ->  table: rows  ->  sentence, figure  ->  StudyResult (table, CSV, SVG)

A study is a declaration of these parts. A column of a table is a function of a cell and its runs. Its name, "median_s", is the
heading "median s" and the field of a row that sentences and figures read. Nothing is rounded before it is printed.

A reading: what one run of a study came to, as a page that says how to get it again.

Command, commit, seeds, processor time, what was stated before, what was measured, the table and the figure. The table on the page
is rounded; the CSV beside it has every digit, and the points of the figure have a CSV of their own.
"""

from __future__ import annotations

import csv
import io
import subprocess
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, wraps
from itertools import product
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from numpy.random import Generator

import laybare
from laybare.errors import LaybareError
from laybare.networks.network_files import write_atomically
from laybare.numerics.shapes import Array, Event, Progress
from laybare.report.drawings import LinesFigure, RatesFigure
from laybare.report.tables import text_table
from laybare.source import Gaussian, Samples
from laybare.studies.columns import Column, Value, field

Grid = TypeVar("Grid")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, kw_only=True)
class SuccessRules:
    """When a result of a study counts as right."""

    exact_error: float = 1e-10
    """Largest error of a parameter of an exact recovery from noiseless samples. Checked by `pytest tests/studies`."""
    read_error: float = 1e-8
    """The same for large networks and for deep ones read along lines. Checked by `pytest tests/studies`."""
    minimum_error: float = 1e-4
    """Largest row error at which a minimum of a landscape counts as the truth. Checked by `pytest tests/studies`."""
    near_angle: float = 0.05
    """Largest angle of a row, in radians, at which a lowest layer counts as found. Checked by `pytest tests/studies`."""
    wrong_angle: float = 0.1
    """Angle in radians beyond which a verified lowest layer counts as wrong. Checked by `pytest tests/studies`."""


SUCCESS = SuccessRules()


@dataclass(frozen=True)
class Settings(Generic[Grid]):
    """Which seeds to run, the grid, and where ticks of progress go."""

    seeds: Sequence[int]
    grid: Grid
    progress: Progress | None = None

    def first(self, count: int) -> Settings[Grid]:
        """The same with at most `count` seeds."""
        return replace(self, seeds=self.seeds[:count])

    def tick(self, stage: str, done: int, total: int, detail: str) -> None:
        """Say that `done` of `total` are done."""
        if self.progress is not None:
            self.progress(Event(stage, done, total, detail))


class StudyResult(NamedTuple):
    """Rows of the table under their headings, one sentence that reads it, a figure if there is one, and headings and rows of all
    cells if they are too many for the table."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]
    sentence: str
    figure: LinesFigure | RatesFigure | None = None
    cells: tuple[tuple[str, ...], Sequence[Sequence[Value]]] | None = None

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write `name`.csv into `folder`, which is made if missing; all cells and the figure's points have CSVs of their own."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{name}.csv": _csv(self.columns, self.rows)}
        if self.cells is not None:
            files[f"{name}-cells.csv"] = _csv(*self.cells)
        if self.figure is not None:
            files[f"{name}.svg"] = self.figure.svg()
            files[f"{name}-figure.csv"] = _csv(*self.figure.points())
        for file, content in files.items():
            write_atomically(folder / file, content.encode())
        return [folder / file for file in files]


@dataclass(frozen=True)
class Table:
    """Columns by name; `row` is the class of its rows."""

    columns: Mapping[str, Column]

    @cached_property
    def row(self) -> Any:
        return namedtuple("Row", list(self.columns))

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(name.replace("_", " ") for name in self.columns)

    def rows(self, runs: Mapping[Any, Any]) -> list[Any]:
        """A row for every cell."""
        return [self.row(*(column(cell, each) for column in self.columns.values())) for cell, each in runs.items()]


def table(*fields: str, **columns: Column) -> Table:
    """The fields of the cell that are columns, then further columns."""
    return Table({**{name: field(name) for name in fields}, **columns})


class StudyMeasurement(NamedTuple):
    """What sentences and figures read: the grid, the runs of its cells, the rows of the table."""

    grid: Any
    runs: Any
    rows: list[Any]

    @property
    def all_runs(self) -> list[Any]:
        return [run for each in self.runs.values() for run in each]


@dataclass(frozen=True)
class Study(Generic[Grid]):
    """A comparison that anybody can run again: `title` says what is measured, `claim` what was stated before.

    Every cell is run with every seed; with `in_turns` seed s runs cell s modulo their number. `measure_grid` replaces that
    where the next run depends on the last. `group` turns the runs of the cells into those of the rows; `cell_table` has the
    columns of the cells, for a CSV, where rows leave out what they say.
    """

    name: str
    title: str
    claim: str
    _: KW_ONLY
    quick: Grid
    full: Grid
    cells: Callable[[Any], Sequence[Any]] = tuple
    run_cell: Callable[[Any, int], Any] | None = None
    in_turns: bool = False
    measure_grid: Callable[[Settings[Any]], Mapping[Any, Any]] | None = None
    group: Callable[[Any, Any], Mapping[Any, Any]] = lambda grid, runs: runs
    table: Table
    cell_table: Table | None = None
    sentence: Callable[[StudyMeasurement], str]
    figure: Callable[[StudyMeasurement], LinesFigure | RatesFigure] | None = None
    seeds: int = 20
    """Seeds that `laybare reproduce` takes by default: 0 to one less."""
    with_method: Callable[[str, Any], Study[Any]] | None = None
    """(name, method) -> the same study with the method as one more arm; None where arms are no methods."""

    def settings(self, seeds: Sequence[int], *, full: bool = False, progress: Progress | None = None) -> Settings[Grid]:
        """Those seeds on the quick grid, or on the full one."""
        return Settings(seeds, self.full if full else self.quick, progress)

    def measure(self, settings: Settings[Grid]) -> Mapping[Any, Any]:
        """The runs of every cell."""
        if self.measure_grid is not None:
            return self.measure_grid(settings)
        assert self.run_cell is not None
        return run_cells(settings, self.cells(settings.grid), self.run_cell, in_turns=self.in_turns)

    def summary(self, grid: Grid, runs: Mapping[Any, Any]) -> StudyResult:
        """The table of the runs, and what reads it."""
        measured = StudyMeasurement(grid, runs, self.table.rows(self.group(grid, runs)))
        figure = None if self.figure is None else self.figure(measured)
        cells = None if self.cell_table is None else (self.cell_table.headings, self.cell_table.rows(runs))
        return StudyResult(self.table.headings, measured.rows, self.sentence(measured), figure, cells)

    def run(self, settings: Settings[Grid]) -> StudyResult:
        """Measure, then read."""
        return self.summary(settings.grid, self.measure(settings))


def run_cells(
    settings: Settings[Any], cells: Sequence[Any], run: Callable[[Any, int], Any], *, in_turns: bool = False
) -> dict[Any, list[Any]]:
    """The runs of every cell, one per seed, with a tick after every run; in turns, cells without a seed are left out."""
    seeds = settings.seeds
    pairs = ((cell, seed) for cell in cells for seed in seeds)
    if in_turns:
        pairs = ((cells[seed % len(cells)], seed) for seed in seeds)
    total = len(seeds) * (1 if in_turns else len(cells))
    runs: dict[Any, list[Any]] = {cell: [] for cell in cells}
    for done, (cell, seed) in enumerate(pairs, 1):
        runs[cell].append(run(cell, seed))
        settings.tick("runs", done, total, spell(cell))
    return {cell: each for cell, each in runs.items() if each}


def spell(cell: Any) -> str:
    """A cell in a line: its fields by name, or the cell as it is."""
    if hasattr(cell, "_asdict"):
        return ", ".join(f"{name}={value}" for name, value in cell._asdict().items())
    return ", ".join(map(str, cell)) if isinstance(cell, tuple) else str(cell)


def cross(cell: Callable[..., Result], *axes: Iterable[Any]) -> list[Result]:
    """A cell for every combination of values, the last axis fastest."""
    return [cell(*values) for values in product(*axes)]


def timed(run: Callable[[], Result]) -> tuple[Result | None, float]:
    """What `run` returns, None if the library refuses, and its seconds."""
    begun = time.perf_counter()
    try:
        result = run()
    except LaybareError:
        result = None
    return result, time.perf_counter() - begun


def refused_as(value: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A run whose result is `value` where the library refuses."""

    def decorate(run: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(run)
        def attempt(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            try:
                return run(*args, **options)
            except LaybareError:
                return value  # type: ignore[no-any-return]

        return attempt

    return decorate


def gaussian_samples(function: Callable[[Array], Array], dim: int, rows: int, rng: Generator) -> Samples:
    """Rows of N(0, I) and the function there, declared as Gaussian."""
    x = rng.standard_normal((rows, dim))
    return Samples(x, function(x), law=Gaussian(0, 1))


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


@dataclass(frozen=True)
class StudyReading:
    """A study, the seeds and the grid it was run with, what came out, how much processor time that took, an arm of one's own."""

    study: Study[Any]
    seeds: Sequence[int]
    full: bool
    result: StudyResult
    seconds: float
    arm: str | None = None

    @property
    def command(self) -> str:
        """What runs it again."""
        options = " --full" * self.full + (f" --arm {self.arm}" if self.arm else "")
        return f"laybare reproduce {self.study.name} --seeds {self.seeds[0]}-{self.seeds[-1]}{options}"

    def page(self) -> str:
        """The reading in Markdown; the figure is referred to by name."""
        name, result = self.study.name, self.result
        figure = f"\n![{result.figure.meaning}]({name}.svg)\n" if result.figure is not None else ""
        points = f", all cells in `{name}-cells.csv`" if result.cells is not None else ""
        points += f", points of the figure in `{name}-figure.csv`" if result.figure is not None else ""
        return f"""# {name}

{self.study.title}.

Stated before
: {self.study.claim}

Measured
: {result.sentence}

Command
: `{self.command}`

Commit
: {commit() or "not known: the code was not in a repository"}

Processor time
: {self.seconds:.0f} s

All digits are in `{name}.csv`{points}.
{figure}
```text
{text_table(result.columns, result.rows, width=120)}
```
"""

    def write(self, folder: Path) -> list[Path]:
        """The page, the tables and the figure, into `folder`, which is made if missing."""
        files = self.result.write(folder, self.study.name)
        page = folder / f"{self.study.name}.md"
        write_atomically(page, self.page().encode())
        return [*files, page]


def commit() -> str:
    """The commit that last changed the code, with a word if it was changed since; empty outside of a repository."""
    last = _git("log", "-1", "--format=%h", "--abbrev=12", "--", ".")
    return f"{last}, changed since" if last and _git("status", "--porcelain", "--", ".") else last


def _git(*words: str) -> str:
    """What git says about the folder of the package; nothing if it says no."""
    try:
        said = subprocess.run(
            ["git", *words], cwd=Path(laybare.__file__).parent, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
