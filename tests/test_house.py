"""The rules of the house, checked by their tools: layers, style, types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


@pytest.mark.parametrize(
    ("needs", "arguments"),
    [
        pytest.param("importlinter", ["-c", LAYERS], id="a module imports only from those below it"),
        pytest.param("ruff", ["-m", "ruff", "check", "--no-cache", "."], id="ruff"),
        pytest.param("mypy", ["-m", "mypy"], id="mypy --strict"),
    ],
)
def test_tool_has_no_complaint(needs: str, arguments: list[str]) -> None:
    pytest.importorskip(needs, reason="part of the dev extra")
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
