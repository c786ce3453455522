"""Numbers with their errors, rounded by these: 27.31 ± 0.42, as physicists print them."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import NamedTuple

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
        return f"${_tex(value)}$" if not error else f"${_tex(value)} \\pm {_tex(error)}$"

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


def _tex(text: str) -> str:
    number, _, power = text.partition("e")
    if number == "inf":
        return "\\infty"
    return number if not power else f"{number} \\cdot 10^{{{power}}}"
