"""Writes worked-examples.md and its pictures: every script of examples/worked with what it prints and draws.

Run it (`MPLBACKEND=agg python docs/worked_page.py`) after changes; it needs statsmodels, whose data sets come with it.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "worked-examples.md", ROOT / "docs" / "pictures"
ORDER = ("diabetes_hinges", "school_thresholds", "sunspot_threshold")

HEAD = """# Worked examples: real data

Three data sets that come with scikit-learn and statsmodels: what a fit of hinges says about them, and what its verdict means.
`python docs/worked_page.py` writes this page, and a test compares what the scripts print.
"""

READINGS = {
    "diabetes_hinges": (
        "Below a combination of blood values the disease progresses alike in all patients (a fifth of them); above it every "
        "measurement has its slope. A straight line, boosting or an MLP have no such place to report, MARS would bend along one "
        "column at a time and give no error of it. **Doubtful** means: the data support this kink (p, and its error), but not "
        "that hinges are the only shape: a smooth bend would fit as well, and a unit that adds less than a third of the spread "
        "of y could hide in 442 rows. Cite the kink with its error; do not cite the single weights as the mechanism."),
    "school_thresholds": (
        "Each percent of pupils with low income costs half a point, until about four in five are poor: beyond that the share of "
        "pupils above the national median has reached its floor. The kink is a hyperplane over all columns, which segmented "
        "regression in one column cannot express. **Doubtful** again means: the kink is there, but smooth saturation would look "
        "the same in 303 districts. The floor itself, about 21 percent, is well determined either way."),
    "sunspot_threshold": (
        "In all years there is the usual autoregression, with lag 1 in front. The unit is on in one year of seven, those of a "
        "steep ascent out of a minimum, and its threshold is a combination of lags 1 to 3, with lag 2 in front and a sharp "
        "direction; classical threshold autoregressions are given one lag, and try them in turn. Its p-value, some percent, "
        "is a bound that allows for a unit whose place is free. **Doubtful** means here: a description that predicts, not a "
        "mechanism. Another unit or a smooth shape would do as well, and years are no independent rows: errors allow for "
        "residuals of neighbouring years that go together."),
}


def title_of(name: str) -> tuple[str, str]:
    """Title and sentence of the script's docstring."""
    title, _, rest = (ast.get_docstring(ast.parse(path_of(name).read_text(encoding="utf-8"))) or "").partition(": ")
    rest = " ".join(rest.split())
    return title, f"{rest[0].upper()}{rest[1:]}"


def path_of(name: str) -> Path:
    """The script of that name."""
    return ROOT / "examples" / "worked" / f"{name}.py"


def section(name: str, printed: str, pictures: list[str]) -> str:
    """One script: its docstring, its text, its output, its pictures, and how to read them."""
    title, sentence = title_of(name)
    drawn = "\n\n".join(f"![{title}, {one.rpartition('-')[2].removesuffix('.png')}](pictures/{one})" for one in pictures)
    return (
        f"## {title}\n\n{sentence}\n\n```{{literalinclude}} ../examples/worked/{name}.py\n:language: python\n```\n\n"
        f"It prints:\n\n```text\n{printed.rstrip()}\n```\n\n{drawn}\n\n{READINGS[name]}\n")


def run(name: str, folder: Path) -> str:
    """What the script prints, run in a folder."""
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, str(path_of(name))], cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parts = [HEAD]
    for name in ORDER:
        with tempfile.TemporaryDirectory() as folder:
            printed = run(name, Path(folder))
            pictures = sorted(path.name for path in Path(folder).glob("*.png"))
            for picture in pictures:
                shutil.copy(Path(folder) / picture, PICTURES / picture)
        parts.append(section(name, printed, pictures))
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
