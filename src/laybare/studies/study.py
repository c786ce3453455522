"""What a study is: a name, a claim, and a function from seeds to a table, a figure and a sentence."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from laybare.networks.storage import put
from laybare.shapes import Progress

EXACT_ERROR = 1e-10
"""Largest error of any weight, bias or readout of a network that counts as recovered exactly."""

Cell = str | int | float


class Outcome(NamedTuple):
    """Columns and rows of the table, one sentence that reads it, and a figure (SVG text) if there is one."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    sentence: str
    figure: str | None = None

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write `name`.csv, `name`.svg and `name`.txt into `folder`, which is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        files = {f"{name}.csv": text.getvalue(), f"{name}.txt": self.sentence + "\n"}
        if self.figure is not None:
            files[f"{name}.svg"] = self.figure
        for file, content in files.items():
            put(folder / file, content.encode())
        return [folder / file for file in files]


def tally(rows: list[tuple[Cell, ...]], arms: Iterable[str], at: int) -> str:
    """Exact recoveries an arm, for rows with arm, exact, runs and verified but wrong in four columns from `at` on."""
    own = {arm: [row for row in rows if row[at] == arm] for arm in arms}
    parts = ", ".join(
        f"{arm} {sum(int(r[at + 1]) for r in part)}/{sum(int(r[at + 2]) for r in part)}" for arm, part in own.items())
    return f"{parts}; verified but wrong: {sum(int(row[at + 3]) for row in rows)}"


class Settings(NamedTuple):
    """Which seeds to run, whether to run the whole grid, and where ticks of progress go."""

    seeds: Sequence[int]
    full: bool = False
    progress: Progress | None = None


@dataclass(frozen=True)
class Study:
    """A reproducible comparison. `title` says what is measured, `claim` what was stated before the measurement."""

    name: str
    title: str
    claim: str
    run: Callable[[Settings], Outcome]
