"""Draw the picture of the page on lines: a network along a line, its kinks, and the slope that jumps there.

    python docs/line_picture.py        writes docs/pictures/line.svg
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import laybare as lb
from laybare.report.drawings import Curve, LinesFigure, Panel


def picture() -> LinesFigure:
    """Four ReLU units of two inputs, seen along one line."""
    rng = np.random.default_rng(5)
    network = lb.random_network(2, 4, rng=rng)
    point, direction = rng.standard_normal(2), rng.standard_normal(2)
    t = np.linspace(-4.0, 4.0, 1601)
    values = network(point + t[:, None] * direction)
    along = network.layer.weights @ direction
    kinks = np.sort(-(network.layer.weights @ point + network.layer.biases) / along)
    kinks = kinks[np.abs(kinks) < 4.0]
    heights = network(point + kinks[:, None] * direction)
    slopes = np.gradient(values, t)
    low, high = slopes.min(), slopes.max()
    drops = [Curve("kinks", [k, k], [values.min(), h], dashed=True) for k, h in zip(kinks, heights, strict=True)]
    jumps = [Curve("kinks", [k, k], [low, high], dashed=True) for k in kinks]
    return LinesFigure([
        Panel("outputs along a line", "t", "f(p + t u)", [Curve("network", t, values), *drops], ""),
        Panel("slope: every jump is a unit", "t", "slope", [Curve("network", t, slopes), *jumps], ""),
    ], "Four ReLU units along a line: straight pieces between four kinks, and a slope that jumps there by readout times weight")


if __name__ == "__main__":
    place = Path(__file__).parent / "pictures"
    place.mkdir(exist_ok=True)
    (place / "line.svg").write_text(picture().svg(), encoding="utf-8")
