"""Numbers as a page shows them, with a true minus sign."""

from __future__ import annotations

import numpy as np


def fixed(value: float) -> str:
    """Four decimals; powers of ten where those would not show the number."""
    size = abs(value)
    text = f"{value:.4f}" if size == 0.0 or 1e-3 <= size < 1e4 else f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")


def short(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def power(value: float) -> str:
    """A size, such as a difference or a standard error."""
    if value in (0.0, np.inf):
        return "0" if value == 0.0 else "\N{INFINITY}"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "\N{MINUS SIGN}")


def plain(value: float) -> str:
    """A size in large print: two digits, without a power of ten from a thousandth up to a thousand."""
    return f"{value:.2g}" if 1e-3 <= value < 1e3 else power(value)
