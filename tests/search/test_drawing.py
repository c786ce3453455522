"""The drawing of the search in the documents: its functions exist, and each is called by the one above it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import laybare

SOURCE = Path(laybare.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "refinement.md"


def drawn() -> list[tuple[int, str, str]]:
    """Depth, function and file of every line of the drawing."""
    block = PAGE.read_text(encoding="utf-8").split("## The search on one screen")[1].split("```")[1]
    lines = [re.fullmatch(r"( *)(\w+) +(\w+/\w+\.py) .*", line) for line in block.splitlines()[1:]]
    assert all(lines)
    return [(len(line[1]) // 2, line[2], line[3]) for line in lines if line]


def named_in(file: str, function: str) -> set[str]:
    """Names that the last definition of a function of a file mentions."""
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    bodies = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert bodies, f"{file} has no function {function}"
    return {node.id for node in ast.walk(bodies[-1]) if isinstance(node, ast.Name)}


def test_every_function_of_the_drawing_is_called_by_the_one_above_it() -> None:
    callers: list[tuple[str, str]] = []
    for depth, function, file in drawn():
        named_in(file, function)
        callers = callers[:depth]
        if callers:
            above, where = callers[-1]
            assert function in named_in(where, above), f"{above} does not call {function}"
        callers.append((function, file))


def test_the_drawing_fits_on_a_screen() -> None:
    assert 10 < len(drawn()) <= 24
