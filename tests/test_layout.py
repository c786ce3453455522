"""The page on the layout of the code has the rooms of the import contract, in its order, and they are there."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
STEPS = re.findall(r"`((?:\w+\.){2}\w+)`", PAGE)


def contract() -> list[str]:
    """Rooms of the contract, from the top down."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        (layers,) = (one["layers"] for one in tomllib.load(file)["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [room.strip(" ()") for layer in layers for room in re.split(r"[|:]", layer)]


def test_rooms_of_the_page_are_those_of_the_contract() -> None:
    assert [room for room, _ in ROOMS] == contract()


def test_every_room_that_is_there_is_on_the_page() -> None:
    """The contract is exhaustive; so is the page, even if the contract were not."""
    there = {
        path.stem for path in (ROOT / "src" / "laybare").iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or (path.suffix == ".py" and not path.stem.startswith("_"))}
    assert there <= {room for room, _ in ROOMS}


def test_the_page_is_linked() -> None:
    assert re.search(r"^layout$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:tests|docs)/[\w/.]+)`", PAGE)
    assert named and all((ROOT / name).exists() for name in named)


@pytest.mark.parametrize("path", STEPS)
def test_functions_that_the_page_names_exist(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(f"laybare.{module}"), name)


def test_the_page_names_the_steps() -> None:
    assert len(STEPS) > 10
