"""Bars: in a terminal, in a notebook, a line for every stage elsewhere, and whatever function somebody gives."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import laybare as lb
from laybare.numerics import progress as progress_module
from laybare.numerics.progress import progress_bar, resolve_progress
from laybare.numerics.shapes import Event

STEP = Event("refining", 3, 10, "relative loss 1e-3")


def test_bar_shows_the_stage_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as progress:
        progress(STEP)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress_bar() as progress:
        progress(STEP)
    said = capsys.readouterr().err
    assert "refining" in said and "3/10" in said and "relative loss 1e-3" in said


def test_true_is_a_line_for_every_stage_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with resolve_progress(True) as progress:
        assert progress is not None
        for event in (STEP, STEP._replace(done=4), Event("certifying", 0, 0)):
            progress(event)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" s  ")[1] for line in lines] == ["refining 3/10 relative loss 1e-3", "certifying"]


def test_a_notebook_has_a_picture_that_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    place = SimpleNamespace(update=seen.append)
    shell = SimpleNamespace(kernel=object())
    shows = SimpleNamespace(HTML=str, display=lambda first, display_id: place)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=shows))
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    with progress_bar() as progress:
        progress(STEP._replace(detail="<b>"))
    assert 'value="3" max="10"' in seen[0] and "&lt;b&gt;" in seen[0] and seen[-1] == ""


def test_a_function_is_told_and_nothing_else_is_taken() -> None:
    heard: list[Event] = []
    with resolve_progress(heard.append) as progress:
        assert progress is not None
        progress(STEP)
    assert heard == [STEP]
    with pytest.raises(lb.errors.InvalidInput, match="function of one event"), resolve_progress(3):
        pass
    with resolve_progress(False) as nobody:
        assert nobody is None


def test_time_left_is_a_limit_and_begins_anew_with_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    clock = progress_module.StageClock()
    assert clock.left(Event("reading", 0, 10)) == ""
    now[0] = 4.0
    assert clock.left(Event("reading", 2, 10)) == "at most 16 s left"
    assert clock.left(Event("refining", 5, 100)) == ""
    now[0] = 14.0
    assert clock.left(Event("refining", 15, 100)) == "at most 85 s left"
    now[0] = 34.0
    assert clock.left(Event("refining", 16, 100)) == "at most 4 min left"
    assert clock.left(Event("settling", 3, 0)) == ""
