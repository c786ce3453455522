"""Every number says where it comes from, and every name of a number means one thing.

A numeric module constant, and a numeric field of an options object (a class named ...Options, ...Settings or ...Rules), has its
origin in the text up to the next statement:

    Derived: from what.            Measured: `command`           Checked by `command`.
    Paper: which, where.           Convention: why.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import laybare
from laybare.studies import STUDIES

ROOT = Path(__file__).parent.parent
SOURCE = Path(laybare.__file__).parent
ORIGIN = re.compile(r"Derived: \S|Paper: \S|Convention: \S|(?:Measured: |Checked by )`[^`]+`")
OPTIONS = re.compile(r"(Options|Settings|Rules)$")


class Number(NamedTuple):
    """A name of a number: where it stands, its value as written, the text up to the next statement."""

    file: str
    name: str
    value: str
    text: str
    is_field: bool


def is_number(node: ast.expr) -> bool:
    """A number as written: a literal, or arithmetic that holds one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) or is_number(node.right)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "int")


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names and values of an assignment."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from ((one.id, two) for one, two in zip(target.elts, value.elts, strict=True) if isinstance(one, ast.Name))


def numbers_of(file: Path) -> Iterator[Number]:
    """Constants of a module, and fields of its options objects."""
    text = file.read_text(encoding="utf-8")
    tree, lines, place = ast.parse(text), text.split("\n"), str(file.relative_to(SOURCE))
    bodies = [(tree.body, len(lines), False)] + [
        (node.body, node.end_lineno or 0, True)
        for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and OPTIONS.search(node.name)]
    for body, end, is_field in bodies:
        statements = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        for node, after in zip(statements, [*(one.lineno - 1 for one in statements[1:]), end], strict=False):
            for name, value in assigned(node):
                if (is_field or name.lstrip("_").isupper()) and is_number(value):
                    said = " ".join(" ".join(lines[node.lineno - 1 : after]).split())
                    yield Number(place, name, ast.unparse(value), said, is_field)


@cache
def numbers() -> tuple[Number, ...]:
    return tuple(number for file in sorted(SOURCE.rglob("*.py")) for number in numbers_of(file))


def test_every_number_has_an_origin() -> None:
    assert len(numbers()) > 100
    assert [f"{one.file}: {one.name}" for one in numbers() if not ORIGIN.search(one.text)] == []


def test_commands_that_measured_a_number_exist() -> None:
    commands = {command for one in numbers() for command in re.findall(r"(?:Measured: |Checked by )`([^`]+)`", one.text)}
    missing = {command for command in commands if not exists(command)}
    assert missing == set()


def exists(command: str) -> bool:
    """Whether a command of the project is there: a study, a benchmark, tests, or the whole of them."""
    words = command.split()
    if words[:2] == ["laybare", "reproduce"]:
        return words[2] in STUDIES
    if words[0] == "pytest":
        paths = [word.split("::")[0] for word in words[1:] if word.startswith("tests")]
        return bool(paths) and all((ROOT / path).exists() for path in paths)
    if words[0] == "python":
        return (ROOT / words[1]).exists()
    return words[:2] in (["make", "bench"], ["make", "bench-peers"], ["make", "test"], ["make", "test-all"])


def test_a_name_of_a_constant_has_one_value() -> None:
    values = defaultdict(set)
    for one in numbers():
        if not one.is_field:
            values[one.name].add(one.value)
    assert {name: sorted(found) for name, found in values.items() if len(found) > 1} == {}


SHARED_FILE_NAMES = {"__init__"}
"""Names of files that may stand in several rooms."""


def test_no_two_rooms_share_a_file_name() -> None:
    rooms = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        rooms[file.stem].add(file.relative_to(SOURCE).parts[0])
    assert {name: sorted(found) for name, found in rooms.items() if len(found) > 1 and name not in SHARED_FILE_NAMES} == {}
