"""The index of the five papers is what the docstrings say, and has the items that the papers have."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from laybare.cli.literal_forms import FORMS, LAYER_FORMS

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "paper_index.py"

ITEMS = {
    "Zhong": """Algorithms 1 and 2; Theorems 3.5, 4.2, 4.4, 5.6, 6.1; Claims 5.2, 5.5; Definitions 4.1, 5.1, 5.4; Assumption 5.3;
        Properties 3.1-3.3; Figures 1(a), 1(b), 1(c)""",
    "Lee": """Algorithms 1 and 2; Theorems 2.1, 2.2, 2.3, 2.6, 2.7, A.4, A.5, A.6, B.1, C.1, C.2, C.4, C.5; Lemmas 2.5, C.7, D.2;
        Corollaries 2.4, C.3; Propositions B.6, B.7; Figures 1-4; Footnotes 4, 11; Appendix F""",
    "Kuditipudi": """Algorithms 1-4; Theorems 1 to 10; Lemmas 1 to 11, 14, 15, 19; Corollary 1; Definition 1; Figures 2-4""",
    "Awasthi": """Algorithms 1-6; Theorems 3.1, 3.2, A.5, D.1; Lemmas 3.5, 4.3, 4.5, D.3, D.4, D.10, D.11, D.12;
        Claims 4.4, 4.6, 4.8, A.4, D.5, D.6, D.8, D.14; Corollary 3.3; Proposition B.1""",
    "Goel": """Algorithms 1-3; Theorems 1 to 13; Lemmas 1 to 13, 16 to 23; Claims 1-5; Corollary 1; Definition 1; Assumption 4;
        Appendix B.4, Appendix B.6, Appendix B.7, Appendix B.8, Appendix C, Appendix D.1, Appendix D.2, Appendix D.3,
        Appendix E"""}
"""Every algorithm, theorem, figure, and whatever else of a paper is computed, corrected or run somewhere; more is welcome.

Left out are lemmas that only serve a proof, and results that are cited from elsewhere.
"""


@pytest.fixture(scope="module")
def index():
    spec = importlib.util.spec_from_file_location("paper_index", INDEX)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(index):
    return index.page()


def test_page_is_what_the_docstrings_say(page) -> None:
    assert (ROOT / "docs" / "papers.md").read_text(encoding="utf-8") == page, "run: python docs/paper_index.py"


@pytest.mark.parametrize("paper", ITEMS)
def test_items_of_the_paper_are_in_the_index(paper: str, index) -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (section,) = (part for part in text.split("\n## ")[1:] if paper in part.splitlines()[0])
    rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    wanted = {item for _, item in index.items(" ".join(ITEMS[paper].split()))}
    assert len(wanted) > 15 and not wanted - set(rows)


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
    assert "theory.shift_objective" not in parts["Zhong"] and "theory.shift_objective" in parts["Goel and Panigrahy (2019)"]


def test_items_are_read_one_by_one(index) -> None:
    text = "Source: Ge et al (2019), Properties 3.1-3.2, Lemmas 6, 7 and Algorithms 1 to 3; Figure 1(a), Theorem C.4; Claim 2"
    assert [item for _, item in index.items(text)] == [
        "Property 3.1", "Property 3.2",
        "Lemma 6", "Lemma 7", "Algorithm 1", "Algorithm 2", "Algorithm 3", "Figure 1(a)", "Theorem C.4", "Claim 2"]
