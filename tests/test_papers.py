"""The index of the five papers is what the docstrings say, and has the items that the papers have."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "paper_index.py"

ITEMS = {
    "Zhong": ["Algorithm 1", "Algorithm 2", "Theorem 4.2", "Theorem 4.4", "Theorem 5.6", "Theorem 6.1", "Claim 5.2",
              "Definition 5.1", "Definition 5.4", "Figure 1(a)", "Figure 1(b)", "Figure 1(c)"],
    "Lee": ["Algorithm 1", "Algorithm 2", "Theorem 2.1", "Theorem 2.2", "Theorem 2.3", "Theorem 2.7", "Theorem B.1",
            "Theorem C.4", "Theorem C.5", "Corollary 2.4", "Figure 1", "Figure 2", "Figure 3", "Figure 4", "Appendix F"],
    "Kuditipudi": ["Algorithm 1", "Algorithm 2", "Algorithm 3", "Algorithm 4", "Theorem 9", "Theorem 10", "Lemma 6", "Lemma 7",
                   "Lemma 14", "Definition 1", "Figure 2", "Figure 3", "Figure 4"],
    "Awasthi": ["Algorithm 1", "Algorithm 2", "Algorithm 3", "Algorithm 4", "Algorithm 5", "Algorithm 6", "Lemma 3.5",
                "Lemma 4.5", "Claim 4.8", "Corollary 3.3"],
    "Goel": ["Algorithm 1", "Algorithm 2", "Algorithm 3", "Theorem 5", "Theorem 7", "Theorem 8", "Theorem 9", "Theorem 13",
             "Lemma 1", "Lemma 7", "Claim 1", "Appendix E"]}
"""What the papers have and the code must name; more is welcome."""


@pytest.fixture(scope="module")
def index():
    spec = importlib.util.spec_from_file_location("paper_index", INDEX)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_what_the_docstrings_say(index) -> None:
    assert (ROOT / "docs" / "papers.md").read_text(encoding="utf-8") == index.page(), "run: python docs/paper_index.py"


@pytest.mark.parametrize("paper", ITEMS)
def test_items_of_the_paper_are_in_the_index(paper: str) -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (section,) = (part for part in text.split("\n## ")[1:] if paper in part.splitlines()[0])
    rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    assert not set(ITEMS[paper]) - set(rows)


def test_items_are_read_one_by_one(index) -> None:
    text = "Source: Ge et al (2019), Lemmas 6, 7 and Algorithms 1 to 3; Figure 1(a), Theorem C.4; Definition 2"
    assert [item for _, item in index.items(text)] == [
        "Lemma 6", "Lemma 7", "Algorithm 1", "Algorithm 2", "Algorithm 3", "Figure 1(a)", "Theorem C.4", "Definition 2"]
