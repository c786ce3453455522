"""A reading: what one run of a study came to, as a page that says how to get it again.

Command, commit, seeds, processor time, what was stated before, what was measured, the table and the figure. The table on the page
is rounded; the CSV beside it has every digit, and the points of the figure have a CSV of their own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import laybare
from laybare.networks.storage import write_atomically
from laybare.report.tables import text_table
from laybare.studies.study import Study, StudyResult


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
        points = f", points of the figure in `{name}-figure.csv`" if result.figure is not None else ""
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
