"""Names of inputs and outputs, where data come with names: tables in files, data frames."""

from __future__ import annotations

from typing import Any, NamedTuple


class Columns(NamedTuple):
    """Names of the inputs and of the outputs; empty where there are none."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def columns_of(x: Any, y: Any) -> Columns:
    """The names that data frames and series bring with them; numbers are no names."""
    return Columns(_names(x), _names(y))


def _names(given: Any) -> tuple[str, ...]:
    listed = getattr(given, "columns", None)
    given_names = [getattr(given, "name", None)] if listed is None else list(listed)
    names = tuple(name for name in given_names if isinstance(name, str))
    return names if len(names) == len(given_names) else ()
