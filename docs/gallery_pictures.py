"""Draw the pictures of gallery.md: run its Python, block after block, and keep what every `axes = name.plot(...)` draws.

    MPLBACKEND=agg python docs/gallery_pictures.py        writes docs/pictures/gallery-NAME.png
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent


def draw(folder: Path) -> list[str]:
    """The files that were written."""
    names: dict[str, Any] = {}
    written = []
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "gallery.md", "exec"), names)
        for drawn in re.findall(r"^axes = (\w+)\.plot\(", block, re.MULTILINE):
            written.append(f"gallery-{drawn}.png")
            names["axes"][0].figure.savefig(folder / written[-1], dpi=90)
    return written


if __name__ == "__main__":
    draw(DOCS / "pictures")
