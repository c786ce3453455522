"""Figures of studies: every line and its name is drawn, a logarithmic axis is one, panels keep their order."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from laybare.report.plots import Line, Panel, lines_figure, rates_figure


def words(svg):
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_names_titles_and_meaning_are_in_the_figure():
    ours = Line("ours", [1, 2], [1e-3, 1e-5], low=[1e-4, 1e-6], high=[1e-2, 1e-4])
    lines = [ours, Line("theory", [1, 2], [1.0, 0.1], dashed=True)]
    figure = lines_figure([Panel("left", "n", "error", lines), Panel("right", "n", "rate", lines[:1], "")], "what it shows")
    assert 'aria-label="what it shows"' in figure
    text = words(figure)
    assert all(word in text for word in ("ours", "theory", "left", "right", "error", "rate"))
    assert text.index("left") < text.index("right")


def test_rates_name_both_quantities():
    text = words(rates_figure({"a": np.eye(2)}, (5, 10), (100, 200), row="units", column="queries"))
    assert all(word in text for word in ("units", "queries", "100", "10"))


def test_a_line_does_not_depend_on_earlier_figures():
    panel = Panel("one", "n", "error", [Line("ours", [1, 2], [1e-3, 1e-5])], "xy")
    assert lines_figure([panel], "m") == lines_figure([panel], "m")
