"""`lb` has the names that people need; what moved into its room until version 0.2 still works, and says where it is."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import laybare as lb
from laybare import MOVED, ROOMS

ROOT = Path(__file__).parent.parent
MOST_NAMES = 60


def test_public_names_are_few() -> None:
    assert len(lb.__all__) == len(set(lb.__all__)) <= MOST_NAMES
    assert not set(lb.__all__) & set(MOVED)


@pytest.mark.parametrize("name", sorted(MOVED))
def test_a_name_that_moved_works_and_says_where_it_is(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=re.escape(f"laybare.{name} is now {MOVED[name]}.{name}.")):
        found = getattr(lb, name)
    assert found is getattr(importlib.import_module(MOVED[name]), name)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_reached_without_an_import(room: str) -> None:
    assert getattr(lb, room) is importlib.import_module(f"laybare.{room}")


def maker() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "docs" / "api_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_on_the_page() -> None:
    page = maker()
    assert sorted(name for names in page.GROUPS.values() for name in names.split()) == sorted(lb.__all__)
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run: python docs/api_page.py"
