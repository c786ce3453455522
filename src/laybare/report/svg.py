"""Drawings as SVG text in one style. Figure objects only: no pyplot, no global state."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, ACCENT, SOFT, LINE = "#1f2933", "#0b7285", "#616e7c", "#e4e7eb"
WIDE = 9.0
"""Width of a figure in inches; the page shrinks it to the window."""

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "laybare", "svg.fonttype": "none", "font.size": 9.0, "axes.titlesize": 10.0, "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": False,
}


def svg(draw: Callable[[Figure], None], tall: float, meaning: str) -> str:
    """The drawing as an <svg> element that says what it shows; ids are left out where nothing refers to them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDE, tall), layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = re.sub(r'<g id="[^"]*">', "<g>", buffer.getvalue())
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(meaning)}"', 1)


def themed(text: str) -> str:
    """The drawing for a page: its ink is the page's, light or dark, and its paper is the page itself."""
    for colour, name in ((INK, "ink"), (SOFT, "soft"), (LINE, "line"), (ACCENT, "verified")):
        text = text.replace(f": {colour}", f": var(--{name})")
    return text.replace("fill: #ffffff", "fill: none")
