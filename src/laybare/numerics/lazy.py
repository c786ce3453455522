"""Names that a package imports on first use (PEP 562), and old names of those and of fields that still work with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def on_demand(package: str, homes: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A module's `__getattr__`.

    `homes` maps a name to the module that defines it; a module that has its own name is that name. `renamed` maps an old name to
    the dotted path of the new one: it is found, with a DeprecationWarning that says the new name.
    """

    def find(name: str) -> Any:
        if renamed is not None and name in renamed:
            return _deprecated(package, name, renamed[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        found = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def homes_of(names: Mapping[str, str]) -> dict[str, str]:
    """From {module: "its names, separated by blanks"} to {name: module}."""
    return {name: module for module, text in names.items() for name in text.split()}


def _deprecated(package: str, name: str, path: str) -> Any:
    warnings.warn(
        f"{package}.{name} is now {path}. The old name works until version 0.4.", DeprecationWarning, stacklevel=3)
    module, _, attribute = path.rpartition(".")
    return getattr(import_module(module), attribute)


def renamed_fields(**renamed: str) -> Callable[[Class], Class]:
    """For a class whose fields have names: the old names of some still work, given or read, with a warning."""

    def with_old_names(cls: Class) -> Class:
        init: Callable[..., None] = cls.__init__  # type: ignore[misc]

        def warned(old: str) -> str:
            new = renamed[old]
            warnings.warn(f"{cls.__name__}.{old} is now {cls.__name__}.{new}.", DeprecationWarning, stacklevel=3)
            return new

        @wraps(init)
        def __init__(self: Any, **fields: Any) -> None:
            for old in renamed.keys() & fields.keys():
                fields[warned(old)] = fields.pop(old)
            init(self, **fields)

        def __getattr__(self: Any, name: str) -> Any:
            if name not in renamed:
                raise AttributeError(f"{cls.__name__} has no field {name!r}")
            return getattr(self, warned(name))

        cls.__init__, cls.__getattr__ = __init__, __getattr__  # type: ignore[misc, attr-defined]
        return cls

    return with_old_names
