"""How a server wants to be asked, and where its answer is.

    request     {"instances": "$x"}          rows in the place of "$x"; "$row" is one row, and then every row is a request
    response    predictions                  a field; fields of fields with dots, entries of lists by number: data.0.y, data[0].y
                data[*].score                the same field of every entry
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array

ROWS, ROW = "$x", "$row"


@dataclass(frozen=True)
class RequestShape:
    """A template of JSON."""

    DEFAULT: ClassVar[str] = '{"inputs": "$x"}'
    template: str

    def __post_init__(self) -> None:
        try:
            places = _count(json.loads(self.template))
        except (ValueError, TypeError, RecursionError):
            places = 0
        if places != 1:
            raise InvalidInput(
                f"The request is {self.template!r:.80}.", "It must be JSON that has one place for the inputs.",
                f'Give a template such as {{"instances": "{ROWS}"}}, or "{ROW}" where a request has one row.')

    @property
    def single(self) -> bool:
        """Whether a request holds one row."""
        return f'"{ROW}"' in self.template

    def body(self, x: Array) -> bytes:
        """The request for these rows."""
        return json.dumps(_fill(json.loads(self.template), x.tolist())).encode()


def _count(shape: Any) -> int:
    if isinstance(shape, dict | list):
        return sum(map(_count, shape.values() if isinstance(shape, dict) else shape))
    return int(shape in (ROWS, ROW)) if isinstance(shape, str) else 0


def _fill(shape: Any, rows: list[Any]) -> Any:
    if isinstance(shape, dict):
        return {name: _fill(part, rows) for name, part in shape.items()}
    if isinstance(shape, list):
        return [_fill(part, rows) for part in shape]
    return rows if shape == ROWS else rows[0] if shape == ROW else shape


@dataclass(frozen=True)
class ResponsePath:
    """Names and numbers of fields, from the outside in."""

    DEFAULT: ClassVar[str] = "outputs"
    path: str

    def find(self, document: Any) -> Any:
        """What stands there; KeyError, IndexError, TypeError or ValueError if nothing does."""
        return _find(document, re.findall(r"[^.\[\]]+", self.path))


def _find(document: Any, steps: list[str]) -> Any:
    if not steps:
        return document
    step, *rest = steps
    if step == "*":
        if not isinstance(document, list):
            raise TypeError
        return [_find(part, rest) for part in document]
    return _find(document[int(step)] if isinstance(document, list) else document[step], rest)
