"""The index of the five papers has all that they number, and every name and command in it works; every study was read."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

import laybare as lb
from laybare import theory
from laybare.cli import commands
from laybare.cli.samples_commands import FORMS, LAYER_FORMS, literal_layer, literal_method
from laybare.report.tables import format_cell, text_table
from laybare.studies import PAPERS, STUDIES, Study

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
def rows(index) -> list[Any]:
    return list(index.rows())


@pytest.fixture(scope="module")
def page(index):
    return index.page()


def test_page_is_what_the_lists_say(page) -> None:
    assert (ROOT / "docs" / "papers.md").read_text(encoding="utf-8") == page, "run: python docs/paper_index.py"


def test_index_has_all_that_the_papers_number_once(index, rows) -> None:
    """Nothing between the first and the last number is missing, and nothing is listed twice."""
    found = {paper.page: [row.item for row in rows if row.paper is paper] for paper in index.PAPERS}
    assert all(len(items) == len(set(items)) for items in found.values())
    for page, sections in COUNTED.items():
        numbers = {item.split()[1] for item in found[page] if not item.startswith(("Equation", "Figure", "Alg"))}
        for section, last in sections.items():
            assert [f"{section}.{n}" for n in range(1, last + 1) if f"{section}.{n}" not in numbers] == []
    for page, kinds in HIGHEST.items():
        for kind, last in kinds.items():
            assert [n for n in range(1, last + 1) if f"{kind} {n}" not in found[page]] == []


def test_every_row_says_printed_corrected_or_why_not(index, rows) -> None:
    """Printed and corrected ones have an object and a test of it; a correction says what the slip is, printed ones what else."""
    for row in rows:
        state, _, text = row.what.partition(": ")
        assert state in ("printed", "corrected", "not computed"), row
        assert (text or state == "printed") and bool(row.objects) == (state != "not computed"), row
        assert not row.objects or index.tests_of(row), f"no test uses {row.objects}"
        assert not row.item.startswith("Figure") or row.commands or state == "not computed", row


def test_rows_drawn_at_random_are_rows_of_the_page(index, rows) -> None:
    drawn = index.draw(60, 7).splitlines()
    assert len(set(drawn)) == 60 and drawn != index.draw(60, 8).splitlines()
    assert {line.split(" | ")[1] for line in drawn} <= {row.item for row in rows}


def test_every_object_of_the_index_is_there(rows) -> None:
    for name in sorted({name for row in rows for name in row.objects}):
        module, _, last = f"laybare.{name}".rpartition(".")
        try:
            home: Any = importlib.import_module(module)
        except ModuleNotFoundError:  # a method of a class
            above, _, inner = module.rpartition(".")
            home = getattr(importlib.import_module(above), inner)
        assert callable(getattr(home, last)) or isinstance(getattr(home, last), Study), name


def test_every_command_of_the_index_is_there(rows) -> None:
    """Studies by their name; literal forms are made, and their command and its options are asked for help."""
    for words in {tuple(shlex.split(command)[1:]) for row in rows for command in row.commands}:
        if words[0] == "reproduce":
            assert words[1] in STUDIES
            continue
        given = dict(pairwise(words))
        if words[0] == "recover":
            assert literal_method(given["--method"], given["--form"], lb.relu).search is None
        else:
            made = literal_layer(given.get("--form"), lb.activations.activation_named(given.get("--activation", "relu")), None)
            assert made.printed is not None
        said = CliRunner().invoke(commands, [words[0], "--help"])
        assert said.exit_code == 0 and all(word in said.output for word in words if word.startswith("--"))


def test_every_literal_form_has_its_command_in_the_index(page) -> None:
    others = {"algorithm-1-all-samples", "algorithm-2-all-samples", "section-7", "section-4", "activity", "delta"}
    for method, forms in FORMS.items():
        assert all(f"--method {method} --literal --form {form}`" in page for form in forms if form not in others)
    asked = set(re.findall(r"laybare recover-layer DATA --literal --form ([\w-]+)", page))
    assert asked | others >= set(LAYER_FORMS)


def test_names_of_theory_that_the_pages_have_are_there() -> None:
    """`theory.NAME` on any page, and what a page lists of `laybare.theory`."""
    for file in sorted(DOCS.glob("*.md")):
        for name in re.findall(r"(?<!`laybare\.)\btheory\.([A-Za-z_]\w*)", file.read_text(encoding="utf-8")):
            assert hasattr(theory, name) or importlib.util.find_spec(f"laybare.theory.{name}"), f"{file.name}: theory.{name}"


def test_items_are_read_one_by_one(index) -> None:
    text = (
        "Source: Ge et al (2019), Properties 3.1-3.2, Lemmas 6, 7 and Algorithms 1 to 3; Figure 1(a), Theorem C.4; Claim 2; "
        "equations (2.8), (A.6) and (11), which (3) is not; FixSigns")
    assert index.items(text) == [
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


def columns_of_cells(study: Study[Any]) -> list[str]:
    """Columns that a cell has before it is run; "steps" are those of a curve."""
    cells = study.cells(study.quick) if study.run_cell is not None else [None]
    return [name for name in study.table.columns if name != "steps" and all(hasattr(cell, name) for cell in cells)]


@pytest.mark.parametrize("name", [name for name in PAPERS if columns_of_cells(STUDIES[name])])
def test_readings_have_the_grid_that_their_command_runs(name: str) -> None:
    """Every row is a cell of the quick grid as the code has it now, and every cell has a row: no page shows an older grid."""
    study = STUDIES[name]
    shown = columns_of_cells(study)
    with (READINGS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = {tuple(row[column.replace("_", " ")] for column in shown) for row in csv.DictReader(file)}
    assert rows == {tuple(str(getattr(cell, column)) for column in shown) for cell in study.cells(study.quick)}


@pytest.mark.parametrize("name", ["glm-fig1", "glm-fig2", "glm-fig3", "glm-fig4"])
def test_stochastic_runs_of_the_readings_are_those_of_the_grid(name: str) -> None:
    """Dimension 50 and the batches of Ge, Lee and Ma (2018), and as many population descents as the code has now."""
    grid: Any = STUDIES[name].quick
    with (READINGS / f"{name}-figure.csv").open(encoding="utf-8", newline="") as file:
        drawn = {row["line"] for row in csv.DictReader(file)}
    rows = (READINGS / f"{name}.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) == len(grid.descents) and {walk.dim for walk in grid.walks} == {50}
    assert {walk.batch for walk in grid.walks} >= {
        "glm-fig1": {256}, "glm-fig2": {256}, "glm-fig3": {8192}, "glm-fig4": {262_144, 8192}}[name]
    names = [getattr(walk, "name", None) or f"stochastic, {walk.model}, d={walk.dim}" for walk in grid.walks]
    assert all(any(line.startswith(each) for line in drawn) for each in names)


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
    assert len(figures) == 12 and len(names) == 10 and all((READINGS / f"{name}.svg").exists() for name in names)
