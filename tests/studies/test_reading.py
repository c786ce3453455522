"""Readings: pages that say how to get them again, and those that are committed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from laybare.cli import commands
from laybare.report.study_figures import Curve, LinesFigure, Panel
from laybare.studies import PAPERS, STUDIES, Study, StudyResult, columns
from laybare.studies.reading import StudyReading, commit
from laybare.studies.study import table

FOLDER = Path(__file__).parents[2] / "docs" / "studies"
FIGURE = LinesFigure([Panel("left", "n", "error", [Curve("ours", [1, 2], [0.1, 1e-16])])], "two points")
RESULT = StudyResult(("a", "b"), [(1, 0.012345678901), (2, 1.23e-16)], "Two rows.", FIGURE)
STUDY: Study[tuple[int, ...]] = Study(
    "name", "A title", "A claim.", quick=(1, 2), full=(1, 2), seeds=3,
    run_cell=lambda cell, seed: {1: 0.012345678901, 2: 1.23e-16}[cell],
    table=table(a=columns.itself, b=columns.median()), sentence=lambda measured: "Two rows.", figure=lambda measured: FIGURE)


def test_page_says_how_to_get_it_again(tmp_path: Path) -> None:
    files = StudyReading(STUDY, range(4, 8), True, RESULT, 12.3).write(tmp_path)
    assert {file.name for file in files} == {"name.csv", "name.svg", "name-figure.csv", "name.md"}
    page = (tmp_path / "name.md").read_text(encoding="utf-8")
    for part in ("`laybare reproduce name --seeds 4-7 --full`", "A claim.", "Two rows.", "0.01235", "(name.svg)", "12 s"):
        assert part in page
    with open(tmp_path / "name.csv") as file:
        assert list(csv.reader(file))[1:] == [["1", "0.012345678901"], ["2", "1.23e-16"]]


def test_page_without_a_figure_refers_to_none(tmp_path: Path) -> None:
    page = StudyReading(STUDY, range(2), False, RESULT._replace(figure=None), 0.0).page()
    assert "svg" not in page and "figure" not in page and "--full" not in page


def test_commit_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "\n" not in commit()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == ""


@pytest.fixture
def one_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "name", STUDY)
    monkeypatch.setattr("laybare.studies.PAPERS", ("name",))


@pytest.mark.parametrize("columns", [20, 80])
def test_command_takes_the_seeds_of_the_study_and_loses_no_digits(columns: int, one_study: None, tmp_path: Path) -> None:
    for asked in ("name", "papers"):
        result = CliRunner().invoke(
            commands, ["reproduce", asked, "--out", str(tmp_path)], env={"COLUMNS": str(columns)}, catch_exceptions=False)
        assert result.exit_code == 0 and "0.01235" in result.output and "1.23e-16" in result.output
        assert "--seeds 0-2`" in (tmp_path / "name.md").read_text(encoding="utf-8")


def test_papers_are_studies() -> None:
    assert set(PAPERS) <= set(STUDIES) and len(PAPERS) == len(set(PAPERS))


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.md")))
def test_committed_reading_is_of_this_study(name: str) -> None:
    """Title, claim and command; and every digit of the table in the CSV beside it."""
    study = STUDIES[name]
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for part in (f"# {name}\n", f"{study.title}.", study.claim, f"`laybare reproduce {name} --seeds "):
        assert part in page
    said = page.split("Commit\n: ")[1].splitlines()[0]
    assert len(said) == 12 and int(said, 16), "run at a commit, with nothing changed since"
    with open(FOLDER / f"{name}.csv") as file:
        assert len(list(csv.reader(file))) > 1
    assert ("(" + name + ".svg)" in page) == (FOLDER / f"{name}.svg").exists() == (FOLDER / f"{name}-figure.csv").exists()
