"""A black box behind http, in a real process: patient with what may pass, clear about what does not, and nothing paid twice."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from black_box_server import TOKEN, answer
from numpy.testing import assert_array_equal
from signalled_programs import start

import laybare as lb
from laybare.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("unchecked")

SERVER = Path(__file__).parent.parent / "support" / "black_box_server.py"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    process = start([sys.executable, str(SERVER)], stderr=None)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def answered_rows(url: str) -> int:
    with urllib.request.urlopen(f"{url}/rows") as reply:
        return int(json.loads(reply.read())["rows"])


def test_answers_travel_to_the_last_bit(url: str, rng: np.random.Generator) -> None:
    oracle = lb.Oracle(f"{url}/good", 3, budget=3000)
    x = rng.standard_normal((600, 3)) * 10.0 ** rng.integers(-300, 300, size=(600, 1))
    assert_array_equal(oracle.ask(x), np.array(answer(x.tolist())))
    read = oracle.read(0, 1000)
    assert_array_equal(read.y, np.array(answer(read.x.tolist())))
    assert answered_rows(url) == oracle.spent == 600 + 1024


def test_failures_that_pass_are_waited_for(url: str) -> None:
    oracle = lb.Oracle(lb.source.Endpoint(f"{url}/flaky", batch=50, pause=0.01), 2, budget=200)
    assert oracle.read(0, 200).y.shape == (200, 2)
    assert answered_rows(url) == oracle.spent == 200


def test_a_server_that_stops_half_way_costs_nothing_that_was_paid(url: str, tmp_path: Path) -> None:
    oracle = lb.Oracle(lb.source.Endpoint(f"{url}/breaks", batch=10, retries=1, pause=0.01), 2, budget=100, log=tmp_path)
    points = np.arange(100.0).reshape(50, 2)
    with pytest.raises(InvalidInput, match=r"did not answer 10 queries: status 500.*2 attempts were made"):
        oracle.ask(points)
    assert answered_rows(url) == oracle.spent == 30
    again = lb.Oracle(
        lb.source.Endpoint(f"{url}/good", batch=10), 2, budget=100, log=tmp_path, name=oracle.name)  # the server is mended
    assert_array_equal(again.ask(points), np.array(answer(points.tolist())))
    assert (answered_rows(url), again.spent, again.replayed) == (50, 50, 30)


def test_a_token_comes_from_the_environment_and_is_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    endpoint = lb.source.Endpoint(f"{url}/guarded", token="MY_TOKEN")
    with pytest.raises(InvalidInput, match=r"status 401.*1 attempt was made"):
        lb.Oracle(endpoint, 2).ask(np.ones((1, 2)))
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    oracle = lb.Oracle(endpoint, 2, log=tmp_path)
    assert_array_equal(oracle.ask(np.ones((1, 2))), [[2.0, 2.0]])
    assert TOKEN not in repr(endpoint) + repr(oracle) + (tmp_path / "log.json").read_text()


@pytest.mark.parametrize(("path", "sentence"), [
    ("slow", "no answer within 0.2 seconds"),
    ("short", r"shape \(6, 2\) for 7 rows"),
    ("nan", "answered nan to query 0"),
    ("words", "dtype <U3"),
    ("other", 'field "outputs" was expected'),
    ("html", "answered '<html><body>Please log in"),
    ("broken", "status 500"),
    ("moved", "status 302"),
    ("nowhere", "status 404"),
])
def test_bad_servers(url: str, path: str, sentence: str, tmp_path: Path) -> None:
    good = lb.Oracle(lb.source.Endpoint(f"{url}/good"), 2, log=tmp_path, name="box")
    points = np.arange(14.0).reshape(7, 2)
    good.ask(points[:3] + 100)
    bad = lb.Oracle(
        lb.source.Endpoint(f"{url}/{path}", timeout=0.2 if path == "slow" else 30, retries=1, pause=0.01), 2, log=tmp_path,
        name="box",
        link="identity")
    with pytest.raises(InvalidInput, match=sentence):
        bad.ask(points)
    assert len(lb.open_samples(tmp_path).x[:]) == 3  # the log is as it was, but for answers of the right shape


def test_nobody_there() -> None:
    with pytest.raises(InvalidInput, match=r"did not answer 1 queries.*3 attempts were made"):
        lb.Oracle(lb.source.Endpoint("http://127.0.0.1:9/", retries=2, pause=0.001), 1).ask(np.ones((1, 1)))


@pytest.mark.parametrize("wrong", [{"url": "ftp://x"}, {"batch": 0}, {"timeout": 0}, {"retries": -1}, {"pause": -1}])
def test_bad_arguments(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        lb.source.Endpoint(**{"url": "http://x", **wrong})
