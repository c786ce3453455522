"""Every script of examples/worked prints what the page of worked examples says, and draws what the page shows."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = 60


def maker():
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("worked_page", ROOT / "docs" / "worked_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", maker().ORDER)
def test_worked_example_prints_and_draws_what_the_page_says(name, tmp_path):
    pytest.importorskip("statsmodels", reason="its data sets are those of the examples (pip install laybare[dev])")
    printed = maker().run(name, tmp_path)
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures and all((maker().PICTURES / picture).exists() for picture in pictures)
    assert maker().section(name, printed, pictures) in maker().PAGE.read_text(encoding="utf-8"), printed
    assert len(maker().path_of(name).read_text(encoding="utf-8").splitlines()) <= LINES


def test_every_worked_example_is_on_the_page():
    assert {path.stem for path in (ROOT / "examples" / "worked").glob("*.py")} == set(maker().ORDER)
