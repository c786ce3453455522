"""The checker of shapes and types: beartype, with int where float is asked for (as mypy has it).

jaxtyping's hook puts `jaxtyped` before every function. What stands in its place here checks the same and takes less time: checks
are written at the first checked call (not 6,500 when the library is imported, and one more whenever a function makes another),
arguments are checked once, not again with the result, and no call is bound to its signature for the sake of an error message.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
in_one_scope = jaxtyping.jaxtyped
"""As a context: letters of shapes mean the same size until it ends."""


def install() -> None:
    """Check all of laybare from now on: before it is imported."""
    jaxtyping.jaxtyped = late  # the name that the hook writes before every function and class
    jaxtyping.install_import_hook(["laybare"], "typechecker.checked")


def late(thing: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """A function that checks what it takes and gives; a dataclass that checks what it is made of."""
    if thing is None:
        return functools.partial(late, typechecker=typechecker)
    if not inspect.isclass(thing):
        return _late(thing, typechecker)
    if dataclasses.is_dataclass(thing) and not hasattr(thing.__init__, "__wrapped__"):
        thing.__init__ = _late(thing.__init__, typechecker)
    return thing


def _late(function: FunctionType, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    with_checks = None

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        nonlocal with_checks
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if with_checks is None:
            with_checks = typechecker(_annotated(function))
        with in_one_scope("context"):
            return with_checks(*args, **kwargs)

    return wrapped


def _annotated(function: FunctionType) -> FunctionType:
    """The same function with types in place of their names, as far as the names are known to its module."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__qualname__, copy.__module__ = function.__kwdefaults__, function.__qualname__, function.__module__
    copy.__annotations__ = {name: _type(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    return copy


def _type(hint: Any, names: dict[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint

    def holder() -> None: ...

    holder.__annotations__ = {"hint": hint}
    try:
        found = get_type_hints(holder, names, include_extras=True)["hint"]
        return Any if getattr(found, "_is_protocol", False) else found  # a look at a black box's properties would ask it
    except Exception:  # a name for readers and mypy alone, imported while they look
        return Any
