"""The gallery's pictures are those that its code draws."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_picture_of_the_gallery_is_drawn_by_the_code_above_it() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^axes = (\w+)\.plot\(.*\n```\n\n!\[[^\]]+\]\(pictures/gallery-(\w+)\.png\)", page, re.MULTILINE)
    assert len(drawn) == page.count(".plot(") == page.count("![") and all(code == picture for code, picture in drawn)
    assert {f"gallery-{name}.png" for name, _ in drawn} == {
        path.name for path in (ROOT / "docs" / "pictures").glob("gallery-*.png")}
