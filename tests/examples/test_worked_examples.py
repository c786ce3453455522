"""Every script of examples/worked prints what the page of worked examples says, and draws what the page shows."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from printed_output import assert_reads_alike

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
    page = maker().PAGE.read_text(encoding="utf-8")
    shown = re.search(rf"worked/{name}\.py\n.*?```text\n(.*?)```", page, re.S)
    assert shown is not None
    assert_reads_alike(printed, shown[1])
    assert maker().section(name, shown[1], pictures) in page
    assert len(maker().path_of(name).read_text(encoding="utf-8").splitlines()) <= LINES


def test_every_worked_example_is_on_the_page():
    assert {path.stem for path in (ROOT / "examples" / "worked").glob("*.py")} == set(maker().ORDER)


@pytest.mark.parametrize(("printed", "page"), [
    ("kink at 213 ± 7", "kink at 213 ± 9"), ("slope -2.6", "slope 2.6"), ("verified", "doubtful"), ("1 unit", "1 unit more"),
    ("p = 0.0005", "p = 0.3"), ("within [196, 227]", "within [96, 227]")])
def test_outputs_that_say_something_else_are_told_apart(printed, page):
    with pytest.raises(AssertionError):
        assert_reads_alike(printed, page)


def test_last_digits_make_no_difference():
    assert_reads_alike("36.8 ± 2.5, p = 5e-42, lag_2 0.05", "36.8 ± 2.4, p = 1e-42, lag_2 0.05")
