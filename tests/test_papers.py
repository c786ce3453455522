"""The index of the five papers is what the docstrings say and has all that they number; every study of them was read."""

from __future__ import annotations

import csv
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from laybare.cli.literal_forms import FORMS, LAYER_FORMS
from laybare.report.tables import format_cell, text_table
from laybare.studies import PAPERS, STUDIES

ROOT = Path(__file__).parent.parent
DOCS, READINGS = ROOT / "docs", ROOT / "docs" / "studies"

COUNTED = {
    "tensor-init": {"3": 5, "4": 4, "5": 6, "6": 1},
    "landscape-design": {"2": 7, "A": 9, "B": 7, "C": 9, "D": 2, "E": 5},
    "general-relu": {"A": 5, "B": 1, "D": 14}}
"""Papers with one counter in a section: the section, and its highest number. Of general-relu the appendix alone is at hand."""

HIGHEST = {
    "symmetric-inputs": {"Algorithm": 4, "Theorem": 10, "Lemma": 38, "Claim": 3, "Definition": 3, "Corollary": 1, "Figure": 5},
    "high-threshold": {
        "Algorithm": 3, "Theorem": 13, "Lemma": 23, "Claim": 5, "Definition": 1, "Corollary": 2, "Assumption": 4, "Remark": 1,
        "Fact": 7}}
"""Papers with a counter for each kind: its highest number."""

@pytest.fixture(scope="module")
def index() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        yield importlib.import_module("paper_index")


@pytest.fixture(scope="module")
def listed(index) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Items that the index must have and items that have nothing to compute, by page."""
    lists = importlib.import_module("paper_items")
    return tuple(
        {page: {item for _, item in index.items(" ".join(text.split()))} for page, text in each.items()}
        for each in (lists.ITEMS, lists.ASIDE))


@pytest.fixture(scope="module")
def page(index):
    return index.page()


def test_page_is_what_the_docstrings_say(page) -> None:
    assert (ROOT / "docs" / "papers.md").read_text(encoding="utf-8") == page, "run: python docs/paper_index.py"


def items_of(page: str, paper) -> set[str]:
    """First column of the rows of a paper."""
    (section,) = (part for part in page.split("\n## ")[1:] if part.startswith(paper.title))
    return {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")}


def test_index_has_every_item_and_nothing_that_is_set_aside(page, index, listed) -> None:
    wanted, aside = listed
    assert set(wanted) == set(aside) == {paper.page for paper in index.PAPERS}
    for paper in index.PAPERS:
        rows = items_of(page, paper)
        assert len(wanted[paper.page]) > 20 and not wanted[paper.page] - rows
        assert not aside[paper.page] & rows, "it is in the code now: move it to ITEMS"


def test_lists_have_all_that_the_papers_number(listed) -> None:
    """Nothing between the first and the last number is missing, and nothing is listed twice."""
    wanted, aside = listed
    for page, sections in COUNTED.items():
        numbers = [item.split()[1] for item in wanted[page] | aside[page] if not item.startswith(("Equation", "Figure", "Alg"))]
        for section, last in sections.items():
            assert [f"{section}.{n}" for n in range(1, last + 1) if f"{section}.{n}" not in numbers] == []
    for page, kinds in HIGHEST.items():
        for kind, last in kinds.items():
            assert [n for n in range(1, last + 1) if f"{kind} {n}" not in wanted[page] | aside[page]] == []
    assert not any(wanted[page] & aside[page] for page in wanted)


def test_every_row_has_a_place_in_the_code_or_a_test(page) -> None:
    """Algorithms and figures have both, and figures a command."""
    for row in page.splitlines():
        if re.match(r"\| (Algorithm|Figure|Theorem|Lemma)", row):
            item, literal, other, tests, command = (cell.strip() for cell in row.strip("|").split(" | "))
            assert literal or other or tests, row
            assert not item.startswith("Algorithm") or (literal and tests), row
            assert not item.startswith("Figure") or ("laybare reproduce" in command and tests), row


def test_every_literal_form_has_its_command_in_the_index(page) -> None:
    for method, forms in FORMS.items():
        assert all(f"--method {method} --literal --form {form}`" in page for form in forms)
    assert all(f"laybare recover-layer DATA --literal --form {form}`" in page for form in LAYER_FORMS)
    for row in (row for row in page.splitlines() if row.startswith("| Algorithm")):
        assert "laybare re" in row.split(" | ")[-1], row


def test_items_belong_to_their_own_paper(page) -> None:
    """Closed forms of one paper do not stand under another."""
    parts = {part.splitlines()[0].split(",")[0]: part for part in page.split("\n## ")[1:]}
    assert "| Lemma " not in parts["Zhong"] and "Algorithm 3" not in parts["Zhong"]
    forms = "theory.high_threshold_forms"
    assert forms not in parts["Zhong"] and forms in parts["Goel and Panigrahy (2019)"]


def test_items_are_read_one_by_one(index) -> None:
    text = (
        "Source: Ge et al (2019), Properties 3.1-3.2, Lemmas 6, 7 and Algorithms 1 to 3; Figure 1(a), Theorem C.4; Claim 2; "
        "equations (2.8), (A.6) and (11), which (3) is not; FIXSIGNS")
    assert [item for _, item in index.items(text)] == [
        "Property 3.1", "Property 3.2",
        "Lemma 6", "Lemma 7", "Algorithm 1", "Algorithm 2", "Algorithm 3", "Figure 1(a)", "Theorem C.4", "Claim 2",
        "Equation 2.8", "Equation A.6", "Equation 11", "Procedure FixSigns"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_study_of_the_papers_was_read(name: str) -> None:
    """A page with its command, commit and seeds, the sentence, all digits, and the figure where the study draws one."""
    text = (READINGS / f"{name}.md").read_text(encoding="utf-8")
    assert re.search(rf"Command\n: `laybare reproduce {name} --seeds \d+-\d+`\n", text), "a quick grid, its seeds named"
    assert re.search(r"Commit\n: [0-9a-f]{12}\n", text), "the code was committed"
    assert int(re.search(r"Processor time\n: (\d+) s\n", text).group(1)) < 600
    assert STUDIES[name].title in text and STUDIES[name].claim in text and re.search(r"Measured\n: \S", text)
    table = (READINGS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) > 1 and table[0].count(",") >= 2
    files = [f"{name}.svg", f"{name}-figure.csv"]
    assert all((f"{name}.svg" in text) == (READINGS / file).exists() for file in files)


@pytest.mark.parametrize("name", PAPERS)
def test_tables_of_the_readings_keep_their_digits_in_80_columns(name: str) -> None:
    """Every cell of the page, where lines have 120 characters, stands in the narrow table too; rounding is the only loss."""
    with (READINGS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    cells = [[_number(cell) for cell in row] for row in rows]
    narrow, page = text_table(columns, cells, 80), (READINGS / f"{name}.md").read_text(encoding="utf-8")
    assert max(map(len, narrow.splitlines())) <= 80
    assert all(format_cell(cell) in narrow and format_cell(cell) in page for row in cells for cell in row)


def _number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def test_all_studies_of_the_papers_take_less_than_half_an_hour_on_two_cores() -> None:
    """Processor seconds as the readings have them, scaled to the seeds of `make studies` where a reading has fewer."""
    total = 0.0
    for name in PAPERS:
        text = (READINGS / f"{name}.md").read_text(encoding="utf-8")
        first, last, seconds = map(int, re.search(r"--seeds (\d+)-(\d+).*?Processor time\n: (\d+) s", text, re.DOTALL).groups())
        total += seconds * STUDIES[name].seeds / (last - first + 1)
    assert total < 2 * 1800


def test_every_figure_of_the_papers_has_its_reading(page) -> None:
    """What the index names for a figure is among the studies that were read, and was drawn."""
    figures = [row for row in page.splitlines() if row.startswith("| Figure")]
    names = {name for row in figures for name in re.findall(r"laybare reproduce ([\w-]+)", row)}
    assert len(figures) == 10 and len(names) == 10 and all((READINGS / f"{name}.svg").exists() for name in names)
