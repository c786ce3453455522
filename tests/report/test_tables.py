"""Tables as text: nothing is cut, and numbers keep their digits."""

from __future__ import annotations

import pytest

from laybare.report.tables import format_cell, text_table


@pytest.mark.parametrize(("cell", "text"), [
    (10_000.0, "10000"), (0.0, "0"), (123_456.7, "123457"), (3.14159, "3.142"),
    (0.00123, "0.001230"), (0.0123456, "0.01235"), (1.23456e-16, "1.23e-16"),
    (2.5e7, "2.5e+07"), (float("nan"), "none"), ("text", "text"), (7, "7"), (-0.5, "-0.5000"), (float("inf"), "inf")])
def test_numbers_are_written_without_powers_of_ten_where_they_can_be(cell, text):
    assert format_cell(cell) == text


def test_a_narrow_table_is_one_block_with_numbers_at_the_right():
    lines = text_table(("arm", "mean error"), [("ours", 0.5), ("theirs", 12)], 80).splitlines()
    assert lines == ["          mean", "arm      error", "--------------", "ours    0.5000", "theirs      12"]


@pytest.mark.parametrize("width", [13, 20, 40, 80])
def test_a_wide_table_is_folded_and_nothing_is_lost(width):
    names = [f"column {i}" for i in range(20)]
    rows = [[1.5e-17 * (i + 1) * 10**j for i in range(20)] for j in range(3)]
    text = text_table(names, rows, width)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    assert all(words.count(format_cell(cell)) >= 1 for row in rows for cell in row)
    assert words.count("row") == len(text.split("\n\n"))


def test_an_empty_table_has_its_headings():
    assert text_table(("arm", "runs"), [], 80).splitlines()[0] == "arm  runs"
