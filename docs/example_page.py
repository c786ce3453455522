"""Writes examples.md: every script of examples/ with what it prints. Run it (`python docs/example_page.py`) after changes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "examples.md"
ORDER = (
    "quick_start", "which_method", "pandas_pipeline", "extract_sklearn_model", "deep_model", "union_of_half_spaces",
    "papers_figure", "streaming_from_disk", "dask_cluster", "own_activation", "own_method")

HEAD = """# Examples

Scripts of `examples/`, each with what it prints. The tests run all of them and compare the output with this page, which
`python docs/example_page.py` writes.
"""


def section(name: str, printed: str) -> str:
    """One script: its docstring, its text, its output."""
    title, _, rest = ast.get_docstring(ast.parse(path_of(name).read_text(encoding="utf-8"))).partition(": ")
    rest = " ".join(rest.split())
    return (
        f"## {title}\n\n{rest[0].upper()}{rest[1:]}\n\n```{{literalinclude}} ../examples/{name}.py\n:language: python\n```\n\n"
        f"It prints:\n\n```text\n{printed.rstrip()}\n```\n")


def path_of(name: str) -> Path:
    """The script of that name."""
    return ROOT / "examples" / f"{name}.py"


def printed_by(name: str) -> str:
    """What the script prints, run in a folder of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(path_of(name))], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(name, printed_by(name)) for name in ORDER)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
