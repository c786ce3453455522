"""Is printed output the same but for what a machine's last bits change in a fit of noisy data?"""

from __future__ import annotations

import re

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)")
RELATIVE = 0.2
"""Largest relative difference of two numbers: minima of fits to noisy rows end where steps no longer gain, which is a small share
of a standard error; errors themselves move by up to a fifth where one row more lies beyond a kink (0.028 and 0.034 of a direction
of the sunspots, on two machines)."""
SURE = 1e-9
"""Chances below this are all alike: their logarithm moves with the last digits of the fit."""


def assert_reads_alike(printed: str, page: str) -> None:
    """The same words and signs in the same order, and numbers that agree to rounding."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", page).split(), printed
    for one, other in zip(NUMBER.findall(printed), NUMBER.findall(page), strict=True):
        a, b = float(one), float(other)
        assert abs(a - b) <= max(RELATIVE * max(abs(a), abs(b)), SURE, _last_digit(one), _last_digit(other)), f"{one} for {other}"


def _last_digit(number: str) -> float:
    """One unit of the last printed digit."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
