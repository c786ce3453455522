"""The HTML page: complete, self-contained, small, and written in one move or not at all."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import laybare as lb
from laybare.pipeline import Recovery
from laybare.planted import random_network
from laybare.report import render, write_report
from laybare.report.drawings import colour_limits, square_side

LARGEST_PAGE = 300_000
LARGEST_OF_ALL = 1_000_000
"""With all numbers of a wide network inside."""


@pytest.fixture(scope="module")
def truth() -> lb.Network:
    return random_network(3, 2, outputs=2, rng=1)


@pytest.fixture(scope="module")
def found(truth: lb.Network) -> Recovery:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    return lb.refine(lb.Samples(x, truth(x) + 0.01 * rng.standard_normal((300, 2))), truth)


@pytest.fixture
def short_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures are drawn where only the file matters."""
    monkeypatch.setattr("laybare.report.page.render", lambda recovery, truth=None: "a page: é")


class Page(HTMLParser):
    """Tags, whatever they fetch, and the visible text; unclosed tags are errors."""

    VOID = frozenset({"meta", "br", "use", "image"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href", "xlink:href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "title", "script"} & set(self.open):
            self.words += data + " "


def network_inside(text: str) -> str:
    """The JSON that the page holds."""
    return text.partition('id="network">')[2].partition("</script>")[0]


def test_page_says_all_and_fetches_nothing(found: Recovery, truth: lb.Network) -> None:
    text = render(found, truth)
    page = Page(text)
    assert len(text.encode()) < LARGEST_PAGE
    assert page.tags.count("script") == 2 and "<script src" not in text  # the network as data, and what sorts the table
    assert lb.export.from_json(network_inside(text)).layer.weights.tolist() == found.network.layer.weights.tolist()
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.fetched)
    assert not re.search(r"url\((?!#)|@import", text)
    assert page.tags.count("svg") == 4  # units, columns, weights, steps
    for claim in found.certificate.checks:
        assert claim.name in page.words
    assert "3-2-2 network of relu units" in page.words
    assert found.certificate.verdict in page.words
    assert "2 of 2" in " ".join(page.words.split())
    assert page.words.split().count("true") == page.words.split().count("found") == 2  # a row each of both units


def test_numbers_on_the_page_are_those_of_the_network(found: Recovery) -> None:
    words = Page(render(found)).words.replace("\N{MINUS SIGN}", "-")
    for value in (*found.network.layer.weights.ravel(), *found.network.layer.biases, *found.network.readout.ravel()):
        assert f"{value:.4f}" in words or abs(value) < 1e-3


@pytest.mark.parametrize("verdict", ["doubtful", "refuted"])
def test_page_of_a_failure_says_so(found: Recovery, verdict: str) -> None:
    claims = list(found.certificate.checks)
    claims[0] = replace(claims[0], passed=False, decisive=verdict == "refuted")
    page = Page(render(replace(found, certificate=replace(found.certificate, claims=tuple(claims)))))
    assert verdict in page.words
    assert page.words.count("✗") == 1


def test_verdict_comes_first_and_thresholds_have_a_direction(found: Recovery) -> None:
    words = " ".join(Page(render(found)).words.split())
    assert words.index(found.certificate.verdict) < words.index("3-2-2 network")
    assert "at least 6" in words and "at most" in words


def test_the_network_comes_first_and_the_checks_are_folded(found: Recovery) -> None:
    text = render(found)
    words = " ".join(Page(text).words.split())
    checks = len(found.certificate.checks)
    order = [words.index(part) for part in (
        "The units", "Unit 1 bends where", "The columns", "All weights", "What the verdict says", "How it converged",
        "Where this comes from", "Appendix", f"Checks: {checks} of {checks} passed")]
    assert order == sorted(order)
    folded = text.partition("<details>")[2].partition("</details>")[0]
    assert all(claim.explanation.split()[0] in folded for claim in found.certificate.checks) and "<details open" not in text
    assert found.certificate.meaning.split(".")[0] in words
    assert re.search(r"date \d{4}-\d\d-\d\d \d\d:\d\d UTC", words) and f"NumPy {np.__version__}" in words


def test_units_stand_in_the_users_columns_with_their_errors(found: Recovery) -> None:
    words = " ".join(Page(render(found)).words.split())
    for unit in found.summary().units:
        assert f"bends where {unit.leading} = {unit.location}" in words
        assert all(str(term.direction) in words and str(term.slopes[1]) in words for term in unit.terms)


def test_page_says_where_it_comes_from_and_names_the_columns() -> None:
    truth = random_network(2, 2, rng=1)
    x = np.random.default_rng(0).standard_normal((200, 2))
    columns = lb.source.samples.ColumnNames(("<img src=x onerror=alert(1)>", "$age$"), ("price",))
    text = render(lb.recover(lb.Samples(x, truth(x), columns=columns), width=2, rng=5))
    words = " ".join(Page(text).words.split())
    assert "<img" not in text and "<img src=x onerror=alert(1)>" in words
    assert f"laybare {lb.__version__}" in words and "seed 5" in words and "recover(Samples(200 rows" in words
    assert re.search(r"fingerprint [0-9a-f]{32}", words)


def test_errors_have_a_scale_that_shows_them() -> None:
    assert colour_limits(np.array([[-12.3, -10.1]])) == (-12.3, -10.1)
    assert colour_limits(np.array([[-3.0]])) == pytest.approx((-3.15, -2.85))
    assert colour_limits(np.array([[np.nan]])) == (-17.0, 0.0)


def test_units_of_square_inputs_are_images() -> None:
    assert [square_side(dim) for dim in (4, 15, 16, 784)] == [None, None, 4, 28]
    network = random_network(16, 2, rng=0)
    errors = lb.certificate.StandardErrors(np.ones((2, 16)), np.ones(2), np.ones(2), np.zeros(()))
    text = render(Recovery(network, network, lb.Certificate((), errors, 1.0), None, 1.0, 1, ()))
    assert "as images of 4 by 4 points" in text


def test_missing_units_are_named(found: Recovery) -> None:
    other = random_network(3, 4, outputs=2, rng=5)
    page, match = Page(render(found, other)), lb.compare(found.network, other)
    assert "2 of 4" in " ".join(page.words.split())
    assert f"True units that were not found: {', '.join(str(unit + 1) for unit in match.missing)}." in page.words


def test_text_from_outside_is_escaped(found: Recovery) -> None:
    evil = replace(found.certificate.checks[0], name="<script>alert(1)</script>")
    text = render(replace(found, certificate=replace(found.certificate, claims=(evil,))))
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


def test_wide_network_gives_a_small_page() -> None:
    network = random_network(100, 250, rng=0)
    errors = lb.certificate.StandardErrors(np.ones((250, 100)), np.ones(250), np.ones(250), np.zeros(()))
    trace = lb.solver.Trace((lb.solver.TraceRow(1.0, 0.0, 1.0, 0.0, 1),), "floor")
    recovery = Recovery(network, network, lb.Certificate((), errors, 1.0), None, 1.0, 1, (trace,))
    text = render(recovery)
    assert len(text.encode()) < LARGEST_OF_ALL
    assert len(text.encode()) - len(network_inside(text)) < LARGEST_PAGE
    assert "first 10 of 100 inputs" in text
    assert "first 100 of 250 units" in text


def test_same_recovery_gives_same_bytes(found: Recovery, truth: lb.Network) -> None:
    assert render(found, truth) == render(found, truth)


@pytest.mark.usefixtures("short_page")
def test_written_file_holds_the_page(found: Recovery, tmp_path: Path) -> None:
    found.report(str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "a page: é"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.usefixtures("short_page")
def test_missing_directory_is_a_sentence(found: Recovery, tmp_path: Path) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="was not written"):
        write_report(found, tmp_path / "nowhere" / "page.html")
    with pytest.raises(lb.errors.InvalidInput, match="is a directory"):
        write_report(found, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("short_page")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_left_alone(found: Recovery, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(lb.errors.InvalidInput, match="a device or a pipe"):
        write_report(found, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.usefixtures("short_page")
def test_full_disk_keeps_the_old_page_and_leaves_nothing_behind(
    found: Recovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(lb.errors.BudgetExhausted, match="No space left"):
        write_report(found, tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"
