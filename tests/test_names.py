"""Names mean one thing: no module is hidden behind a function, no two classes are called alike, no call is a row of numbers."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import laybare

SOURCE = Path(laybare.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = ["laybare", *(m.name for m in pkgutil.walk_packages(laybare.__path__, "laybare.") if m.ispkg)]
MOST_ARGUMENTS = 6
UNDER_WAY: set[str] = set()
"""Names that two classes still share; nothing may be added."""

LONG: set[str] = set()
"""Functions with more than six positional arguments; nothing may be added. Commands of click have as many as options."""


def public_names(package: str) -> list[str]:
    """What `from package import *` and completion offer."""
    module = importlib.import_module(package)
    return list(getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]))


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    return [(file.relative_to(SOURCE), ast.parse(file.read_text(encoding="utf-8"))) for file in FILES]


def definitions(kind: type[ast.AST]) -> list[tuple[Path, ast.AST]]:
    return [(file, node) for file, tree in trees() for node in ast.walk(tree) if isinstance(node, kind)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_stands_behind_a_public_name(package: str) -> None:
    """`import laybare.x.y` must give the module y: so nothing public beside it has its name."""
    module = importlib.import_module(package)
    beside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    hidden = [name for name in public_names(package) if name in beside and not inspect.ismodule(getattr(module, name))]
    assert not hidden


def test_no_two_classes_have_one_name() -> None:
    homes = defaultdict(list)
    for file, node in definitions(ast.ClassDef):
        homes[node.name].append(str(file))
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in UNDER_WAY} == {}


def _is_command(node: ast.FunctionDef) -> bool:
    """Whether click calls it, by name."""
    return any("command" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_no_function_takes_more_than_six_positional_arguments() -> None:
    long = {}
    for file, node in definitions(ast.FunctionDef):
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > MOST_ARGUMENTS and not _is_command(node):
            long[f"{file}: {node.name}"] = count
    assert {name: count for name, count in long.items() if name not in LONG} == {}


def test_public_classes_are_named_by_what_they_are() -> None:
    """A class is a Start or a Piece, not what happened to it (Landed, Ended). Errors say what happened: that is what they are."""
    classes = {
        found for package in PACKAGES for name in public_names(package)
        if inspect.isclass(found := getattr(importlib.import_module(package), name)) and not issubclass(found, Exception)}
    assert {kind.__name__ for kind in classes if kind.__name__.endswith("ed")} == set()


ROOT = SOURCE.parent.parent
PAGES = [*FILES, *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
SCRIPTS = {file.name for folder in ("src", "docs", "tests", "benchmarks", "examples") for file in (ROOT / folder).rglob("*.py")}
ROOMS = sorted(file.name for file in SOURCE.iterdir() if file.is_dir())
"""Rooms; what stands after one is a module or a name of it."""


def test_files_and_modules_that_texts_name_exist() -> None:
    """A text names `file.py`, or laybare.room.module and what is in it: both are there after every merge and rename."""
    known, gone = {*SCRIPTS, "mine.py"}, set()  # that one is a reader's, in docs/adding.md
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        gone |= {(page.name, name) for name in re.findall(r"`(?:[\w/]*/)?(\w+\.py)`", text) if name not in known}
        for path in re.findall(rf"\blaybare\.((?:{'|'.join(ROOMS)})(?:\.\w+)+)", text):
            room, name, *_ = path.split(".")
            file = SOURCE / room / name
            if not (file.is_dir() or file.with_suffix(".py").exists() or hasattr(getattr(laybare, room), name)):
                gone.add((page.name, path))
    assert gone == set()
