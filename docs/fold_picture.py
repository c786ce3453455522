"""Draw the picture of the page on deep networks: the surface of a unit of the second layer, which folds at those of the first.

    python docs/fold_picture.py        writes docs/pictures/fold.svg
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laybare.lines.folds.given import surface_points
from laybare.lines.folds.stack import KnownLayers, flipped, next_crossing
from laybare.numerics.shapes import Array
from laybare.report.drawings import Curve, LinesFigure, Panel

REACH = 3.0


def walk(known: KnownLayers, row: Array, x: Array, direction: float) -> list[Array]:
    """The corners of a surface in the plane, from a point of it one way: straight in a cell, folded at every wall."""
    corners, cell, outward = [x], known.cell(x), np.zeros(2)
    while np.abs(x).max() < REACH:
        maps = known.maps(cell)
        normal = (row[:-1] * cell[0]) @ maps.slopes[0]
        if not normal.any():
            break
        along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
        along *= np.sign(along @ outward) if outward.any() else direction
        step = next_crossing(maps, cell, x, along)
        x = x + min(step.distance, 2.0 * REACH) * along
        corners.append(x)
        if step.wall is None:
            break
        cell = flipped(cell, step.wall)
        outward = (1.0 if cell[0][step.wall.unit] else -1.0) * known.weights[0][step.wall.unit]
    return corners


def picture() -> LinesFigure:
    """Five units of the first layer, dashed, and one of the second."""
    rng = np.random.default_rng(11)
    known = KnownLayers(2, (rng.standard_normal((5, 2)),), (0.7 * rng.standard_normal(5),))
    row = np.append(rng.standard_normal(5), -0.3)

    def unit(x: Array) -> tuple[Array, Array]:
        z = known.preactivations(x)[0]
        return (row[:-1] * (z > 0.0)) @ known.weights[0], np.maximum(z, 0.0) @ row[:-1] + row[-1]

    start = surface_points(unit, rng.uniform(-1.0, 1.0, (40, 2)))[0]
    corners = np.array([*walk(known, row, start, 1.0)[::-1], *walk(known, row, start, -1.0)[1:]])
    walls = []
    for w, b in zip(known.weights[0], known.biases[0], strict=True):
        foot, along = -b * w / (w @ w), np.array([-w[1], w[0]]) / np.linalg.norm(w)
        ends = foot + np.array([[-2.0], [2.0]]) * REACH * along
        walls.append(Curve("units of layer 1", ends[:, 0].tolist(), ends[:, 1].tolist(), dashed=True))
    surface = Curve("a unit of layer 2", corners[:, 0].tolist(), corners[:, 1].tolist())
    return LinesFigure(
        [Panel("where the answers bend", "first input", "second input", [surface, *walls], "")],
        "The plane of two inputs: dashed lines where units of the first layer bend the answers, and a polygon where one of the "
        "second layer does, which folds wherever it crosses one of them")


if __name__ == "__main__":
    place = Path(__file__).parent / "pictures"
    (place / "fold.svg").write_text(picture().svg(), encoding="utf-8")
