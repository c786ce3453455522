"""Every script of examples/ runs, is short and quick, and prints what the page of examples says."""

from __future__ import annotations

import importlib.util
import runpy
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
LINES, SECONDS = 60, 60.0


def maker():
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("example_page", ROOT / "docs" / "example_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("unchecked")  # as users run them
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_prints_what_the_page_says(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    begun = time.process_time()
    runpy.run_path(str(script), run_name="__main__")
    seconds, printed = time.process_time() - begun, capsys.readouterr().out
    assert maker().section(script.stem, printed) in maker().PAGE.read_text(encoding="utf-8"), printed
    assert len(script.read_text(encoding="utf-8").splitlines()) <= LINES
    assert seconds < SECONDS


def test_every_example_is_on_the_page():
    assert {script.stem for script in SCRIPTS} == set(maker().ORDER)
