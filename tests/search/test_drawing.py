"""The search as the documents draw it: functions that call each other and fit on a screen, and the forms that a network takes."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import laybare
import laybare as lb
from laybare.solver.point import Point

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


ROOMS = ("search", "solver", "pipeline")
LONGEST = 30
"""Lines of a function without its signature and docstring."""


def test_every_function_fits_on_a_screen() -> None:
    functions = [
        (node, path.name) for room in ROOMS for path in (SOURCE / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 200
    bodies = ((node.body[ast.get_docstring(node) is not None :], f"{file} {node.name}") for node, file in functions)
    long = {name: lines for body, name in bodies if body and (lines := body[-1].end_lineno - body[0].lineno + 1) > LONGEST}
    assert long == {}


def fields_of(found: object) -> Iterator[object]:
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        yield from found
    elif dataclasses.is_dataclass(found):
        yield from (getattr(found, field.name, None) for field in dataclasses.fields(found))


def holds_network(found: object, depth: int = 3) -> bool:
    if isinstance(found, (lb.Network, Point)):
        return True
    return depth > 0 and any(holds_network(part, depth - 1) for part in fields_of(found))


def forms_of(rows: lb.Samples, method: lb.Method) -> set[str]:
    """Public types with a network in them that functions of the loop return during a recovery; a curvature at a point is none."""
    seen: set[type] = set()
    folders = tuple(str(SOURCE / place) for place in (*ROOMS, "assembly", "networks", "methods"))
    calls: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, found: Any) -> None:
        if event != "return" or not type(found).__module__.startswith("laybare."):
            return
        calls[frame.f_code] += 1
        if calls[frame.f_code] <= 5 and frame.f_code.co_filename.startswith(folders) and holds_network(found):
            seen.add(type(found))

    lb.recover(rows, method, 3)  # imports what it needs
    sys.setprofile(note)
    try:
        lb.recover(rows, method, 3)
    finally:
        sys.setprofile(None)
    return {kind.__name__ for kind in seen if not kind.__name__.startswith("_")} - {"ReducedNormal"}


def test_a_network_takes_the_forms_that_the_page_names(rng: np.random.Generator) -> None:
    paragraph = PAGE.read_text(encoding="utf-8").split("On its way a network takes eight forms: ")[1].split("\n\n")[0]
    truth, x = lb.random_network(6, 3, rng=rng), rng.standard_normal((2000, 6))
    y = truth(x)
    rows = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(2000))
    named = re.findall(r"`(\w+)`", paragraph)
    assert len(named) == 8 and forms_of(rows, lb.TensorInit()) == set(named)
