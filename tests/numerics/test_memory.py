"""The memory that a process may have: sizes beyond it are refused before anything is allocated."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from laybare.errors import InvalidInput
from laybare.numerics import checks
from laybare.numerics.checks import check_memory

ASKED = "from laybare.numerics.checks import memory_bytes; print(memory_bytes())"


def test_a_limit_of_the_process_counts() -> None:
    """`ulimit -v` is in kilobytes."""
    command = f'ulimit -v 3000000 && exec "{sys.executable}" -c "{ASKED}"'
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100, check=True).stdout
    assert float(said) == 3000000 * 1024


@pytest.mark.parametrize(("text", "limit"), [("1000000\n", 1e6), ("max\n", math.inf), (None, math.inf)])
def test_a_limit_of_the_container_counts(
    text: str | None, limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / "memory.max").write_text(text)
    monkeypatch.setattr(checks, "CONTAINER_LIMITS", (str(tmp_path / "memory.max"),))
    whole = checks.memory_bytes.__wrapped__()
    assert whole == limit if limit < math.inf else whole > 1e8
    if limit < math.inf:
        monkeypatch.setattr(checks, "memory_bytes", lambda: whole)
        with pytest.raises(InvalidInput, match=r"A table needs about 8 MB of memory\. This process may have 1 MB\."):
            check_memory("A table", 1e6)
