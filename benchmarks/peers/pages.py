"""What was measured as a Markdown table and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tasks import TASKS, Task

from laybare.networks.network_files import write_atomically
from laybare.report.drawings import ACCENT, LINE, SOFT, render_svg

Runs = Sequence[dict[str, Any]]


class Line(NamedTuple):
    """One system on one task."""

    task: str
    system: str
    recovered: int
    runs: int
    error: float
    seconds: float
    read: float

    @property
    def cells(self) -> list[str]:
        error = f"{self.error:.0e}".replace("e-0", "e-").replace("e+00", "") if np.isfinite(self.error) else "units wrong"
        return [self.system, f"{self.recovered} of {self.runs}", error, f"{self.seconds:.2g}", f"{self.read:,.0f}"]


def lines_of(runs: Runs) -> list[Line]:
    """Counts and medians, in the order in which they were measured."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["task"], run["system"]), []).append(run)
    return [
        Line(task, system, sum(run["recovered"] for run in own), len(own), *(
            float(np.median([run[key] for run in own])) for key in ("error", "seconds", "read")))
        for (task, system), own in groups.items()]


def table_of(task: Task, lines: Sequence[Line]) -> str:
    """A Markdown table of one task."""
    heads = ["", "recovered", "median largest error", "CPU s", "queries" if not task.samples else "samples"]
    rows = [heads, ["---", *["---:"] * 4], *(line.cells for line in lines if line.task == task.name)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def figure_of(lines: Sequence[Line]) -> str:
    """Success rates as bars, a panel for each task."""
    tasks = [task for task in TASKS if task.samples and any(line.task == task.name for line in lines)]

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(tasks), squeeze=False, sharex=True)[0]
        names = list(dict.fromkeys(line.system for line in lines if line.task in {task.name for task in tasks}))[::-1]
        for axes, task in zip(panels, tasks, strict=True):
            own = {line.system: line for line in lines if line.task == task.name}
            shares = [own[name].recovered / own[name].runs if name in own else 0.0 for name in names]
            axes.barh(names, shares, color=[ACCENT if name.startswith("laybare") else SOFT for name in names], height=0.65)
            for place, name in enumerate(names):
                if name not in own:
                    axes.text(0.02, place, "not run", va="center", fontsize=7.0, color=SOFT)
            axes.set(title=task.words.replace(", ", ",\n"), xlim=(0.0, 1.0), xlabel="share recovered")
            axes.title.set_fontsize(8.0)
            axes.grid(axis="x", color=LINE, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0, labelleft=axes is panels[0])

    return render_svg(draw, 4.6, "Share of networks recovered by every system on every task")


def write_pages(runs: Runs, into: Path | None) -> str:
    """All tables as text; the figure and the tables as files where a folder is given."""
    lines = lines_of(runs)
    text = "\n\n".join(f"**{task.words}**\n\n{table_of(task, lines)}" for task in TASKS if any(
        line.task == task.name for line in lines))
    if into is not None:
        (into / "pictures").mkdir(parents=True, exist_ok=True)
        if (into.parent / "README.md").exists():
            _into_readme(into.parent / "README.md", lines)
        write_atomically(into / "pictures" / "peers.svg", figure_of(lines).encode())
        write_atomically(into / "peers-measured.md", (text + "\n").encode())
    return text


def _into_readme(page: Path, lines: Sequence[Line]) -> None:
    """Three of the tasks between the marks of the README."""
    before, rest = page.read_text(encoding="utf-8").split("<!-- peers -->")
    after = rest.split("<!-- /peers -->")[1]
    tables = [f"{task.words}:\n\n{table_of(task, lines)}" for task in TASKS if task.name in ("wider", "noisy", "queries")]
    both = "\n\n".join(tables)
    write_atomically(page, f"{before}<!-- peers -->\n{both}\n\n<!-- /peers -->{after}".encode())
