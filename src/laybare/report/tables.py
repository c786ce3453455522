"""Numbers and tables as text: tables lose nothing, numbers on a page have a true minus sign.

A table too wide for the terminal or the pipe goes on in further blocks below the first. Headings are broken between words, cells
never. Every block of a table that is folded begins with the number of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from textwrap import wrap
from typing import NamedTuple

import numpy as np

Cell = str | int | float
GAP = "  "


class ListingOptions(NamedTuple):
    """How many units, weights of a unit and readouts of a unit are listed; figures show all of them.

    Convention: a notebook has 8 units of 6 weights, a page 200 units of 10 weights and 4 readouts.
    """

    units: int
    inputs: int
    outputs: int


class TextColumn(NamedTuple):
    """A heading, the cells as they are printed, and whether they are numbers, which stand at the right."""

    name: str
    cells: list[str]
    right: bool

    @property
    def width(self) -> int:
        """That of the longest cell, or of the longest word of the heading."""
        return max(map(len, [*self.name.split(), *self.cells]), default=0)

    @property
    def heading(self) -> list[str]:
        """Lines of the heading."""
        return wrap(self.name, max(self.width, 1)) or [""]

    def padded(self, line: str) -> str:
        """A line of this column, as wide as all others."""
        return line.rjust(self.width) if self.right else line.ljust(self.width)


def text_table(names: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> str:
    """The table in lines of at most `width` characters, unless a single cell is longer than that."""
    columns = [_column(name, [row[i] for row in rows]) for i, name in enumerate(names)]
    if _wide(columns) <= width:
        return _block(columns)
    first = _column("row", list(range(1, len(rows) + 1)))
    return "\n\n".join(_block([first, *part]) for part in _folded(columns, width - first.width - len(GAP)))


def format_cell(cell: Cell) -> str:
    """A cell as it is printed: numbers with four digits, and without a power of ten from 0.001 up to a million."""
    if not isinstance(cell, float):
        return str(cell)
    if cell != cell:
        return "none"
    if abs(cell) < 1e6 and cell == round(cell):
        return str(round(cell))
    if not 1e-3 <= abs(cell) < 1e6:
        return f"{cell:.3g}"
    return f"{cell:.{max(3 - floor(log10(abs(cell))), 0)}f}"


def _column(name: str, cells: Sequence[Cell]) -> TextColumn:
    return TextColumn(name, [format_cell(cell) for cell in cells], all(not isinstance(cell, str) or not cell for cell in cells))


def _wide(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _folded(columns: Sequence[TextColumn], width: int) -> list[list[TextColumn]]:
    """As many columns in a block as fit, and one at least."""
    parts: list[list[TextColumn]] = [[]]
    for column in columns:
        if parts[-1] and _wide([*parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    return parts


def _block(columns: Sequence[TextColumn]) -> str:
    tall = max(len(column.heading) for column in columns)
    heads = [[""] * (tall - len(column.heading)) + column.heading for column in columns]
    lines = [GAP.join(c.padded(h[i]) for c, h in zip(columns, heads, strict=True)) for i in range(tall)]
    lines.append("-" * _wide(columns))
    lines += [GAP.join(c.padded(c.cells[i]) for c in columns) for i in range(len(columns[0].cells))]
    return "\n".join(line.rstrip() for line in lines)


def format_decimals(value: float) -> str:
    """Four decimals; powers of ten where those would not show the number."""
    size = abs(value)
    text = f"{value:.4f}" if size == 0.0 or 1e-3 <= size < 1e4 else f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")


def format_digits(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def format_size(value: float) -> str:
    """A size, such as a difference or a standard error."""
    if value in (0.0, np.inf):
        return "0" if value == 0.0 else "\N{INFINITY}"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "\N{MINUS SIGN}")


def format_headline(value: float) -> str:
    """A size in large print: two digits, without a power of ten from a thousandth up to a thousand."""
    return f"{value:.2g}" if 1e-3 <= value < 1e3 else format_size(value)
