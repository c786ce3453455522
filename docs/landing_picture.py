"""Draw the picture of the first page: the weights of a hidden network, what laybare and training get wrong.

    python docs/landing_picture.py        writes docs/pictures/landing.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from laybare.report import pair_units
from laybare.report.drawings import draw_map, draw_weights, render_svg
from laybare.studies import real_data

WIDTH, SAMPLES = 12, 400


def picture() -> str:
    """Weights of the truth, rows scaled to length 1, and how far off every one of them is, on one logarithmic scale."""
    truth = real_data.train(WIDTH, seed=0)
    case = real_data.extract(truth, SAMPLES, seed=0)
    rows = case.found.samples_used
    student = real_data.retrain(truth, rows, seed=0)
    pairs = pair_units(case.found.network, truth)
    trained = pair_units(student.network, truth)
    errors = {
        f"error of laybare, {rows} queries:\n{len(pairs)} of {WIDTH} units right": pairs,
        f"error of training, {rows} samples:\n{student.right} of {WIDTH} units right to 1 %": trained}

    def draw(figure: Any) -> None:
        left, *others = figure.subplots(1, 3, sharey=True)
        draw_weights(left, np.array([pair.true.weights for pair in pairs]), "the hidden network's weights\n")
        for axes, (title, own) in zip(others, errors.items(), strict=True):
            levels = np.log10(np.array([np.abs(pair.true.weights - pair.found.weights) for pair in own]) + 1e-16)
            draw_map(axes, levels, "viridis", (-16.0, 0.0), title)
            axes.set_ylabel("")

    meaning = "The weights of a hidden network, the errors of laybare and those of training from as many samples"
    return render_svg(draw, 3.3, meaning)


if __name__ == "__main__":
    place = Path(__file__).parent / "pictures"
    place.mkdir(exist_ok=True)
    (place / "landing.svg").write_text(picture(), encoding="utf-8")
