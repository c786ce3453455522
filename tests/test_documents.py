"""The Python of every page runs, block after block, and pages that recover something find what they say they find."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laybare import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
    if "docs/first-" not in page and "```python" in (ROOT / page).read_text(encoding="utf-8"))
VERIFIED = {"README.md", "docs/index.md", "docs/quickstart.md", "docs/black-boxes.md", "docs/lines.md", "docs/which-method.md"}

PRINTED = {"docs/gallery.md", "docs/adding.md", "docs/which-method.md", "docs/index.md", "docs/papers.md"}
"""Where a comment behind print(...) is what it prints; words after a colon explain it."""


def blocks_of(page: str) -> list[str]:
    """The blocks of a page, without those that need a package that is not there."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    needed = [re.match(r"# needs (\w+)", block) for block in blocks]
    return [block for block, need in zip(blocks, needed, strict=True) if need is None or find_spec(need[1]) is not None]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # training is not the question there
@pytest.mark.parametrize("page", PAGES)
def test_python_of_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the page's files go
    said: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: said.append(" ".join(map(str, words)))} if page in PRINTED else {}
    code = "\n".join(blocks_of(page))
    exec(compile(code, page, "exec"), names)
    if page in VERIFIED:
        assert names["found"].certificate.verdict == "verified"
        assert names["lb"].compare(names["found"].network, names["truth"]).max_error < 1e-8
    if page in PRINTED:
        assert said == [words.partition(":")[0].strip() for words in re.findall(r"^print\(.*\) +# (.+)", code, re.MULTILINE)]


def test_every_page_is_reached_from_the_first() -> None:
    listed = set(re.findall(r"^([\w-]+)$", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.MULTILINE))
    included = {"peers-measured", "pipelines-measured", "zoo-measured"}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} - included
    assert pages <= listed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", ["docs/first-audit.md", "docs/first-fit.md", "docs/first-study.md"])
def test_commands_of_the_first_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder that their Python has filled."""
    test_python_of_page_runs(page, tmp_path, monkeypatch)
    text = (ROOT / page).read_text(encoding="utf-8")
    typed = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
             for line in block.replace("\\\n", "").splitlines()]
    assert typed
    for line in typed:
        program, *words = shlex.split(line)
        assert program == "laybare"
        result = CliRunner().invoke(cli.commands, words)
        assert result.exit_code in ((3, 4) if "--literal" in words else (0,)), result.output


WIDEST_CODE = 90
"""Characters of code that a page shows at 1280 px without a scroll bar. Derived: 708 px of a column over 7.8 px."""


def test_code_of_the_pages_fits_their_column() -> None:
    """Code and commands, and scripts that pages show; tables of text may scroll."""
    for script in sorted((ROOT / "examples").rglob("*.py")):
        wide = [line for line in script.read_text(encoding="utf-8").splitlines() if len(line) > WIDEST_CODE]
        assert not wide, f"{script.name}: {wide}"
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:python|sh|console|bibtex)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            wide = [line for line in block.splitlines() if len(line) > WIDEST_CODE]
            assert not wide, f"{page.name}: {wide}"
