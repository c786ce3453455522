"""The part of JSON Schema (2020-12) that the shipped schemas use. A keyword that is not known here is an error, not a pass.

The tests check the same documents with the reference implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from laybare.errors import InvalidInput

KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}
ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description"})


@cache
def shipped_schema(name: str) -> dict[str, Any]:
    """A schema of the package, such as "audit-1"."""
    text = files("laybare.report").joinpath("schemas", f"{name}.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def validate_document(document: Any, name: str) -> None:
    """Raise InvalidInput, with the first places that are wrong, if the document does not follow the shipped schema."""
    schema = shipped_schema(name)
    wrong = list(violations(document, schema, schema, "document"))
    if wrong:
        raise InvalidInput(
            f"The document breaks the schema {schema['$id']}: {'; '.join(wrong[:3])}.",
            f"{len(wrong)} place{'s are' if len(wrong) > 1 else ' is'} wrong, and programs rely on the schema.",
            "Write it again with Audit.report, or correct it.", violations=wrong)


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    """Every place where the value is not what the schema says."""
    for keyword, rule in schema.items():
        if keyword == "$ref":
            yield from violations(value, root["$defs"][rule.rpartition("/")[2]], root, place)
        elif keyword not in ANNOTATIONS:
            yield from _KEYWORDS[keyword](value, rule, schema, root, place)


def _is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _type(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if not any(_is_kind(value, kind) for kind in ([rule] if isinstance(rule, str) else rule)):
        yield f"{place} is {value!r:.40}, not {rule}"


def _enum(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in rule):
        yield f"{place} is {value!r:.40}, none of {rule}"


def _const(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    yield from _enum(value, [rule], schema, root, place)


def _minimum(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if _is_kind(value, "number") and not value >= rule:
        yield f"{place} is {value}, below {rule}"


def _pattern(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule, value):
        yield f"{place} is {value!r:.40}, which {rule} does not match"


def _required(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place} has no {name}" for name in rule if name not in value)


def _properties(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in rule.keys() & value.keys():
            yield from violations(value[name], rule[name], root, f"{place}.{name}")


def _no_others(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict) and rule is False:
        others = sorted(value.keys() - schema["properties"].keys())
        yield from (f"{place} has {name}, which is not in the schema" for name in others)


def _items(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from violations(item, rule, root, f"{place}[{number}]")


_KEYWORDS: dict[str, Any] = {
    "type": _type, "enum": _enum, "const": _const, "minimum": _minimum, "pattern": _pattern, "required": _required,
    "properties": _properties, "additionalProperties": _no_others, "items": _items}
