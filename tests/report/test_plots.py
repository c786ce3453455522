"""Figures of studies: every line and its name is drawn, a logarithmic axis is one, panels keep their order."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from laybare.report.drawings import Curve, LinesFigure, Panel, RatesFigure


def words(svg):
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_names_titles_and_meaning_are_in_the_figure():
    ours = Curve("ours", [1, 2], [1e-3, 1e-5], low=[1e-4, 1e-6], high=[1e-2, 1e-4])
    lines = [ours, Curve("theory", [1, 2], [1.0, 0.1], dashed=True)]
    figure = LinesFigure([Panel("left", "n", "error", lines), Panel("right", "n", "rate", lines[:1], "")], "what it shows").svg()
    assert 'aria-label="what it shows"' in figure
    text = words(figure)
    assert all(word in text for word in ("ours", "theory", "left", "right", "error", "rate"))
    assert text.index("left") < text.index("right")


def test_rates_name_both_quantities():
    text = words(RatesFigure({"a": np.eye(2)}, (5, 10), (100, 200), row="units", column="queries").svg())
    assert all(word in text for word in ("units", "queries", "100", "10", "share of runs that succeed"))


def test_a_line_does_not_depend_on_earlier_figures():
    panel = Panel("one", "n", "error", [Curve("ours", [1, 2], [1e-3, 1e-5])], "xy")
    assert LinesFigure([panel], "m").svg() == LinesFigure([panel], "m").svg()


def test_ticks_stand_by_their_own_names():
    curve = [Curve("ours", [1, 2], [1.5, 6.5])]
    named = words(LinesFigure([Panel("one", "n", "ratio", curve, "xy", {1.5: "1.5", 6.5: "> 5"})], "m").svg())
    assert "1.5" in named and "> 5" in named
    assert "> 5" not in words(LinesFigure([Panel("one", "n", "ratio", curve, "xy")], "m").svg())


def test_a_name_stands_once_in_the_legend_and_below_the_curves():
    """Two panels share their lines: one entry each, and its text lies below the labels of the axes."""
    lines = [Curve("ours", [1, 2], [1.0, 2.0]), Curve("theirs", [1, 2], [2.0, 1.0])]
    text = LinesFigure([Panel("left", "n", "error", lines), Panel("right", "n", "error", lines)], "m").svg()
    assert text.count(">ours<") == text.count(">theirs<") == 1
    where = [(node.text, node) for node in ElementTree.fromstring(text).iter() if node.tag.endswith("text")]
    heights = {name: float(node.get("y", node.get("transform", "").split(" ")[-1].rstrip(")") or 0)) for name, node in where}
    assert heights["ours"] > heights["n"] > heights["left"]


def test_points_are_what_is_drawn():
    panel = Panel("left", "n", "error", [Curve("ours", [1, 2], [0.1, 1e-16], low=[0.0, 0.0], high=[1.0, 1.0])])
    columns, rows = LinesFigure([panel], "m").points()
    assert columns == ("panel", "line", "x", "y", "low", "high")
    assert rows == [("left", "ours", 1, 0.1, 0.0, 1.0), ("left", "ours", 2, 1e-16, 0.0, 1.0)]
    columns, rows = RatesFigure({"a": np.array([[0.25, 1.0]])}, (5,), (100, 200)).points()
    assert columns == ("map", "dimension", "samples", "shade") and rows == [("a", 5, 100, 0.25), ("a", 5, 200, 1.0)]
