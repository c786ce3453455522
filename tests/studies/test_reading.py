"""Readings: pages that say how to get them again, and those that are committed."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner

import laybare as lb
from laybare.cli import commands
from laybare.errors import TooFewSamples
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.studies import PAPERS, STUDIES, Study, StudyResult, columns, zhong
from laybare.studies.study import StudyReading, commit, refused_as, table

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


OWN = """
import numpy as np
import laybare as lb

class Axes:
    activation, biases, search = lb.power_relu(2), False, None

    def start(self, source, width, *, rng, progress=None):
        return lb.Start(lb.Network(lb.Layer(np.eye(source.dim)[:width], None, self.activation), np.ones(width)))

number = 3
"""


def test_a_method_of_ones_own_joins_a_study_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the arms that are there, on the same problems; the page says how to get it again."""
    (tmp_path / "own_arm.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small = dataclasses.replace(STUDIES["zhong-fig1a"], quick=zhong.DimensionGrid((6,), (400,)))
    small = dataclasses.replace(small, with_method=lambda *arm: dataclasses.replace(
        zhong.FIGURE_1A.with_method(*arm), quick=small.quick))
    monkeypatch.setitem(STUDIES, "zhong-fig1a", small)
    words = ["reproduce", "zhong-fig1a", "--seeds", "0-0", "--out", str(tmp_path), "--arm"]
    said = CliRunner().invoke(commands, [*words, "own_arm:Axes"], catch_exceptions=False)
    assert said.exit_code == 0
    with open(tmp_path / "zhong-fig1a.csv") as file:
        arms = [row["arm"] for row in csv.DictReader(file)]
    assert arms == ["printed", "TensorInit", "RandomStart", "own_arm:Axes"]
    assert "--seeds 0-0 --arm own_arm:Axes`" in (tmp_path / "zhong-fig1a.md").read_text(encoding="utf-8")
    for wrong in ("own_arm:number", "own_arm:missing", "own_arm"):
        refused = CliRunner().invoke(commands, [*words, wrong])
        assert refused.exit_code != 0 and "own_arm" in str(refused.output) + str(refused.exception)


@pytest.mark.parametrize("name", ["ge19-fig2", "ge19-fig3", "ge19-fig4", "literal-forms", "zhong-fig1a"])
def test_studies_of_methods_take_another(name: str) -> None:
    study = STUDIES[name].with_method("own", lb.RandomStart())
    before, after = ({cell.arm for cell in one.cells(one.quick)} for one in (STUDIES[name], study))
    assert after - before == {"own"} and before < after and study.name == name


def test_a_study_without_methods_takes_none(tmp_path: Path) -> None:
    refused = CliRunner().invoke(commands, ["reproduce", "lines", "--arm", "own:Arm", "--out", str(tmp_path)])
    assert refused.exit_code == 2 and "zhong-fig1a" in refused.output.replace("\n", " ")


def test_a_refusal_counts_as_what_the_run_says_and_nothing_else_does() -> None:
    @refused_as(-1.0)
    def run(error: Exception | None) -> float:
        if error is not None:
            raise error
        return 2.0

    assert run(None) == 2.0 and run(TooFewSamples("3 rows.", "Too few.", "Give more.")) == -1.0
    with pytest.raises(ValueError, match="no finding"):
        run(ValueError("no finding"))
