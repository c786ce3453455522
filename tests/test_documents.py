"""The Python in the README, the quickstart and the page on black boxes runs, and finds the network it says it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/black-boxes.md", "docs/lines.md", "docs/estimator.md"])
def test_python_of_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the page's files go
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(compile("\n".join(blocks), page, "exec"), names)
    assert names["found"].certificate.verdict == "verified"
    assert names["lb"].compare(names["found"].network, names["truth"]).max_error < 1e-8
