"""Draw the chart of the page on methods: questions, and where each answer leads.

    python docs/which_picture.py        writes docs/pictures/which.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laybare.report.drawings import ACCENT, INK, LINE, render_svg

QUESTIONS = (
    ("Can you ask the network?", "Lines()\nsmooth units: rounds of samples"),
    ("Only the lowest layer,\nof rarely active units?", "recover_layer(…, HighThreshold())"),
    ("Several outputs,\nx as likely as −x?", "SymmetricInputs()"),
    ("No biases, at most as many units\nas inputs, normal inputs?", "TensorInit()\npositive readout: LandscapeDesign()"),
    ("Normal inputs, biases,\nthe exact width matters?", "GeneralReLU()"),
)
LAST = "RandomStart(): anything else"


def picture() -> str:
    """Questions from the top; yes to the right, no down."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set(xlim=(0.0, 10.0), ylim=(-0.2, len(QUESTIONS) + 0.75))
        axes.set_axis_off()
        for number, (question, answer) in enumerate(QUESTIONS):
            height = len(QUESTIONS) + 0.3 - number
            _box(axes, 2.4, height, question, LINE, INK)
            _box(axes, 7.6, height, answer, ACCENT, "white")
            _arrow(axes, (4.35, height), (5.6, height), "yes")
            _arrow(axes, (2.4, height - 0.3), (2.4, height - 0.68), "no")
        _box(axes, 2.4, 0.3, LAST, ACCENT, "white")

    return render_svg(draw, 5.2, "Which method: questions from the top, the first that fits decides")


def _box(axes: Any, x: float, y: float, words: str, colour: str, ink: str) -> None:
    axes.text(x, y, words, ha="center", va="center", color=ink, bbox={"boxstyle": "round,pad=0.5", "fc": colour, "ec": colour})


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], word: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK})
    axes.text((start[0] + end[0]) / 2 + 0.12, (start[1] + end[1]) / 2 + 0.08, word, fontsize=8.0)


if __name__ == "__main__":
    place = Path(__file__).parent / "pictures"
    place.mkdir(exist_ok=True)
    (place / "which.svg").write_text(picture(), encoding="utf-8")
