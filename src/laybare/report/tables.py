"""Tables, and numbers rounded by their errors.

Numbers and tables as text: tables lose nothing, numbers on a page have a true minus sign.

A table too wide for the terminal or the pipe goes on in further blocks below the first. Headings are broken between words, cells
never. Every block of a table that is folded begins with the number of the row.

Numbers with their errors, rounded by these: 27.31 ± 0.42, as physicists print them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, log10
from textwrap import wrap
from typing import NamedTuple

import numpy as np

MOST_TWO_DIGITS = 354
"""Three leading digits of an error up to which two of them are shown, else one. Convention: the Particle Data Group's rule."""

FULL_DIGITS = 5
"""Digits of a number whose error is not known. Convention: a table's column."""


SURELY_KNOWN = 1e-8
"""Relative error below which a number is shown with six digits. Convention: nobody reads more of them in a table."""


class Quantity(NamedTuple):
    """A value and its standard error (NaN: not known; inf: undetermined)."""

    value: float
    se: float

    def __str__(self) -> str:
        """With as many digits as the error has a meaning for."""
        value, error = round_by_error(self.value, self.se)
        return value if not error else f"{value} ± {error}"

    @property
    def latex(self) -> str:
        """For a table of LaTeX."""
        value, error = round_by_error(self.value, self.se)
        return tex_number(value) if not error else f"{tex_number(value)[:-1]} \\pm {tex_number(error)[1:]}"

    @property
    def z(self) -> float:
        """The value in standard errors."""
        return self.value / self.se if self.se > 0.0 else float("nan")


def round_by_error(value: float, se: float) -> tuple[str, str]:
    """Both as text, with the same number of decimals; no error where there is none."""
    if not isfinite(value):
        return str(value), ""
    if se == float("inf"):
        return f"{value:.{FULL_DIGITS}g}", "inf"
    if not se > 0.0:
        return f"{value:.{FULL_DIGITS}g}", ""
    if abs(value) >= se / SURELY_KNOWN:
        return f"{value:.{FULL_DIGITS + 1}g}", f"{se:.1g}"
    decimals = _digits(se) - 1 - floor(log10(se))
    if decimals > 8 or max(abs(value), se) >= 1e7 or decimals < -3:
        power = floor(log10(max(abs(value), se)))
        value, se, decimals = value / 10.0**power, se / 10.0**power, decimals + power
        return f"{value:.{max(0, decimals)}f}e{power}", f"{se:.{max(0, decimals)}f}e{power}"
    rounded, error = (round(number, decimals) for number in (value, se))
    return f"{rounded + 0.0:.{max(0, decimals)}f}", f"{error:.{max(0, decimals)}f}"


def _digits(se: float) -> int:
    """One or two, by the first three digits of the error."""
    three = round(se / 10.0 ** (floor(log10(se)) - 2))
    return 2 if three <= MOST_TWO_DIGITS else 1


def tex_number(text: str) -> str:
    """A number as LaTeX has it, between dollar signs."""
    number, _, power = text.partition("e")
    if number == "inf":
        return "$\\infty$"
    return f"${number}$" if not power else f"${number} \\cdot 10^{{{int(power)}}}$"


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
