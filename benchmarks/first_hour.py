"""The first hour of a newcomer: the code of README and of the three pages of five minutes, ten commands, objects as they show
themselves, and errors, in an empty folder. Everything is printed as a newcomer sees it, to be read line by line.

    python benchmarks/first_hour.py                      # of the environment that runs it
    python benchmarks/first_hour.py --columns 40         # a narrow terminal
    python benchmarks/first_hour.py --only errors        # one part: readme, pages, commands, objects, errors
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("first-fit", "first-audit", "first-study")

DATA = """
import numpy as np
rng = np.random.default_rng(0)
age, dose = rng.uniform(20, 80, 800), rng.uniform(0, 10, 800)
y = 2.0 * np.maximum(dose - 4.0, 0.0) - 0.1 * np.maximum(age - 50.0, 0.0) + 0.2 * rng.standard_normal(800)
with open("trial.csv", "w") as file:
    file.write("id,age,dose,site,effect\\n")
    for i, (a, d, e) in enumerate(zip(age, dose, y)):
        file.write(f"{i},{a:.3f},{d:.3f},{'north' if i % 3 else 'south'},{e:.4f}\\n")
"""

COMMANDS = (
    "laybare --help",
    "laybare check trial.csv --target effect --drop-columns id,site",
    "laybare plan --rows 1e6 --dim 20 --width 10",
    "laybare recover trial.csv --target effect --drop-columns id,site --out net.safetensors --report page.html",
    "laybare recover trial.csv --target effect --drop-columns id,site --width 2 --json",
    "laybare extract net.safetensors --out stolen.safetensors",
    "laybare compare stolen.safetensors net.safetensors",
    "laybare audit net.safetensors",
    "laybare reproduce --list",
    "laybare demo")

ERRORS = (
    "laybare recover trail.csv",
    "laybare recover trial.csv --target efect",
    "laybare recover trial.csv --target effect",
    "laybare recover trial.csv --target effect --drop-columns id,site --activation rellu",
    "laybare recoverr trial.csv",
    "laybare extract model.pt",
    "laybare extract function:f",
    "laybare compare trial.csv trial.csv")

OBJECTS = (
    "found = lb.recover(x, truth(x)); found",
    "found.certificate",
    "found.network",
    "lb.Samples(x, truth(x))",
    "lb.Oracle(truth)",
    "print(found.summary())",
    "found.predict(x[:3])",
    "lb.recover(x)",
    "lb.recover(x, truth(x)[:-1])",
    "lb.recover(x[:20], truth(x[:20]))",
    "lb.recover(np.where(x > 3, np.nan, x), truth(x))",
    "lb.recover(x, truth(x), method='tensor')")


def say(line: str) -> None:
    """Print at once: the output of programs stands between."""
    print(line, flush=True)


def run(command: str, folder: Path, columns: int) -> None:
    """A command as it was typed, what it says, how it ends."""
    say(f"\n$ {command}")
    words = shlex.split(command)
    program = [sys.executable, "-m", "laybare", *words[1:]] if words[0] == "laybare" else [sys.executable, *words[1:]]
    begun = time.perf_counter()
    ended = subprocess.run(
        program, cwd=folder, env={**os.environ, "COLUMNS": str(columns)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False)
    say(ended.stdout.rstrip())
    say(f"[status {ended.returncode}, {time.perf_counter() - begun:.1f} s]")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of every block of code."""
    for match in re.finditer(r"^```(python|sh|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        yield match.group(1), match.group(2)


def show_page(page: Path, folder: Path, columns: int) -> None:
    """The blocks of a page one by one, in order, those of Python in one session."""
    say(f"\n==== {page.name}")
    earlier = ""
    for language, text in blocks(page):
        if language == "python":
            _program(text, earlier, folder, columns)
            earlier += text
            continue
        for line in text.replace("\\\n", " ").splitlines():
            command = " ".join(line.removeprefix("$ ").split("#")[0].split())
            if command.startswith("laybare"):
                run(command, folder, columns)


def _program(text: str, earlier: str, folder: Path, columns: int) -> None:
    """A block after those before it, which print nothing this time."""
    again = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    exec(open('earlier.py').read())\n"
    (folder / "earlier.py").write_text(earlier)
    (folder / "typed.py").write_text(again * bool(earlier) + text)
    say("\n" + "\n".join(f">>> {line}".rstrip() for line in text.rstrip().splitlines()))
    run("python typed.py", folder, columns)


def show_objects(folder: Path, columns: int) -> None:
    """What a REPL shows, and the last line of every error."""
    (folder / "repl.py").write_text(
        "import sys, traceback\nimport numpy as np, laybare as lb\n"
        "truth = lb.random_network(dim=10, width=5, rng=1)\nx = np.random.default_rng(0).standard_normal((2000, 10))\n"
        f"for typed in {OBJECTS!r}:\n"
        "    print('>>>', typed)\n"
        "    *first, last = typed.split('; ')\n"
        "    try:\n"
        "        for part in first:\n            exec(part)\n"
        "        shown = eval(last)\n"
        "        if shown is not None:\n            print(repr(shown))\n"
        "    except Exception as error:\n        print(f'{type(error).__name__}: {error}')\n")
    run("python repl.py", folder, columns)


def main() -> None:
    """All parts, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=80, help="width of the terminal")
    parser.add_argument("--only", choices=("readme", "pages", "commands", "objects", "errors"))
    given = parser.parse_args()
    parts = {
        "readme": lambda folder: show_page(ROOT / "README.md", folder, given.columns),
        "pages": lambda folder: [show_page(ROOT / "docs" / f"{page}.md", folder, given.columns) for page in PAGES],
        "commands": lambda folder: [run(command, folder, given.columns) for command in COMMANDS],
        "objects": lambda folder: show_objects(folder, given.columns),
        "errors": lambda folder: [run(command, folder, given.columns) for command in ERRORS]}
    for part, show in parts.items():
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "data.py").write_text(DATA)
            subprocess.run([sys.executable, "data.py"], cwd=name, check=True)
            if given.only in (None, part):
                show(Path(name))


if __name__ == "__main__":
    main()
