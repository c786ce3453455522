"""Reports in a real browser: nothing fetched, no error, nothing cut on a phone, the table sorts, the JSON is the network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser_driver import Browser, browser

import laybare as lb
from laybare.source.samples import ColumnNames

if "LAYBARE_BROWSER" not in os.environ:
    pytest.skip("reports were not looked at in a browser: make test-browser installs Chromium and does", allow_module_level=True)

HOSTILE = "<img src=x onerror='document.title=\"run\"'>"
SHOTS = os.environ.get("LAYBARE_SHOTS", "")
"""A folder that keeps the screenshots."""

OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && e.getClientRects().length
             && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName)"""
"""What is cut at the right."""


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as shown:
        yield shown


@pytest.fixture(scope="module")
def found() -> lb.Recovery:
    """Sixteen inputs, one of them with a name that would like to run."""
    rng = np.random.default_rng(0)
    truth = lb.random_network(16, 6, rng=1)
    x = rng.standard_normal((1500, 16))
    names = (HOSTILE, *(f"input {i}" for i in range(1, 16)))
    y = truth(x) + 0.02 * rng.standard_normal(1500)
    return lb.recover(lb.Samples(x, y, columns=ColumnNames(names, ("<b>y</b>",))), width=6, rng=0)


@pytest.fixture(scope="module")
def page(found: lb.Recovery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    found.report(str(path))
    return path


def shot(window: Browser, name: str, tmp_path: Path) -> None:
    path = Path(SHOTS or tmp_path) / f"{name}.png"
    window.screenshot(path)
    assert path.stat().st_size > 20_000


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_page_is_whole_and_quiet(window: Browser, page: Path, width: int, dark: bool, tmp_path: Path) -> None:
    window.requests()
    window.logged("browser")
    window.open(page, width, dark=dark)
    assert window.requests() == [page.as_uri()]
    assert window.logged("browser") == []
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    place = window.run("document.querySelector('.badge').getBoundingClientRect().toJSON()")
    assert 0 <= place["left"] < place["right"] <= width and place["bottom"] < 300  # the verdict is seen without scrolling
    assert window.run(OUTSIDE) == []
    assert window.run("document.title") != "run"
    paper = window.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") != dark
    shot(window, f"report-{width}-{'dark' if dark else 'light'}", tmp_path)


def test_print_is_black_on_white(window: Browser, page: Path, tmp_path: Path) -> None:
    window.open(page, 800, dark=True, medium="print")
    assert window.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.run("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    shot(window, "report-print", tmp_path)


def test_a_table_that_is_wider_than_the_phone_scrolls(window: Browser, page: Path) -> None:
    window.open(page, 390)
    box = "document.querySelector('table.sortable').parentElement"
    assert window.run(f"{box}.scrollWidth > {box}.clientWidth && getComputedStyle({box}).overflowX") == "auto"
    assert "gradient" in window.run(f"getComputedStyle({box}).backgroundImage")


def test_table_sorts_up_and_down(window: Browser, page: Path, found: lb.Recovery) -> None:
    window.open(page)
    window.run("document.querySelectorAll('table.sortable th')[3].click()")  # biases
    order = "[...document.querySelectorAll('table.sortable tbody tr')].map(r => +r.cells[0].textContent)"
    assert window.run(order) == np.argsort(found.network.layer.biases).tolist()
    window.run("document.querySelectorAll('table.sortable th')[3].click()")
    assert window.run(order) == np.argsort(-found.network.layer.biases).tolist()
    assert window.run("document.querySelectorAll('table.sortable th')[3].getAttribute('aria-sort')") == "descending"


def test_json_inside_is_the_saved_network(window: Browser, page: Path, found: lb.Recovery, tmp_path: Path) -> None:
    window.open(page)
    inside = window.run("document.getElementById('network').textContent")
    assert json.loads(inside) == json.loads(lb.export.to_json(found.network, tmp_path / "saved.json"))
    assert lb.compare(lb.export.from_json(tmp_path / "saved.json"), found.network).max_error == 0.0


def test_pictures_have_words(window: Browser, page: Path) -> None:
    window.open(page)
    assert window.run("[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label').length > 20)")
    assert window.run("document.querySelectorAll('svg').length") == 3  # steps, maps, images of 4 by 4


@pytest.fixture(scope="module")
def audit_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deep classifier, so that there are columns for layers and for classes, behind defences; with a long name and command."""
    rng = np.random.default_rng(4)
    layers = tuple(
        lb.Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out), lb.relu)
        for into, out in ((4, 4), (4, 3)))
    logits = lb.Network(layers, rng.standard_normal((3, 2)), np.zeros(2))

    def a_model_with_a_name_that_is_rather_longer_than_a_telephone_is_wide(x: np.ndarray) -> np.ndarray:
        z = np.exp(np.column_stack([np.zeros(len(x)), logits(x)]))
        return np.asarray(z / z.sum(axis=1, keepdims=True))

    path = tmp_path_factory.mktemp("audit") / "audit.html"
    lb.audit(
        a_model_with_a_name_that_is_rather_longer_than_a_telephone_is_wide, (20, 60, 200, 600, 2000), dim=4,
        defences=("round:3", "label", "cap:50"),
        command="audit folder/of/models:a_model --dim 4 --defences round:3,label,cap:50 --report audit.html").report(path)
    return path


@pytest.mark.parametrize("width", [1280, 820, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_audit_page_is_whole_and_quiet(window: Browser, audit_page: Path, width: int, dark: bool, tmp_path: Path) -> None:
    """On a desktop, a tablet and a phone, by day and by night."""
    window.requests()
    window.logged("browser")
    window.open(audit_page, width, dark=dark)
    assert window.requests() == [audit_page.as_uri()] and window.logged("browser") == []
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    assert window.run(OUTSIDE) == []
    place = window.run("document.querySelector('.badge').getBoundingClientRect().toJSON()")
    assert 0 <= place["left"] < place["right"] <= width and place["bottom"] < 450  # the verdict is seen without scrolling
    assert (window.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") != dark
    shot(window, f"audit-{width}-{'dark' if dark else 'light'}", tmp_path)


def test_audit_page_prints_on_a4(window: Browser, audit_page: Path, tmp_path: Path) -> None:
    """Nothing is cut at the right, and no row of a table is split: as PDF, and as the browser lays it out for that width."""
    window.open(audit_page, 688, dark=True, medium="print")  # 182 mm between the margins, at 96 dots per inch
    assert window.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    assert window.run("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length") == 0
    path = Path(SHOTS or tmp_path) / "audit.pdf"
    pages = window.print(path)
    assert path.read_bytes().startswith(b"%PDF") and 2 <= pages <= 8
