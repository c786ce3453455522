"""Checks of what users give, shared by every public function: each raises one sentence that names the argument.

    check_whole("width", 3)     check_number("seconds", 0.5, above=0)     check_choice("dtype", "float64", ("float64", "float32"))
    as_generator(0)             as_reals("weights", [[1, 2]])             check_memory("A network of 5 units", 40)

`check_fields` checks a frozen dataclass of options by its annotations: they are its contract, written once.
"""

from __future__ import annotations

import errno
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal
from functools import cache
from operator import index
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array

T = TypeVar("T")

SHOWN_CHARACTERS = 80
"""Characters of a value in a message. Convention: a line."""


def show_value(given: Any) -> str:
    """A value in a message: short, and without trusting its repr."""
    kind = type(given).__name__
    try:
        shape = getattr(given, "shape", None)
        has_shape = isinstance(shape, tuple) and (shape or isinstance(given, np.ndarray))
        text = f"{with_article(kind)} of shape {shape}" if has_shape else repr(given)
    except Exception:
        return with_article(kind)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({kind})"


def show_choices(options: Any) -> str:
    """A frozen object by what was chosen: its name, and the fields that differ from their defaults."""
    chosen = [field.name for field in fields(options) if not _is_default(getattr(options, field.name), field)]
    return f"{type(options).__name__}({', '.join(f'{name}={_show_choice(getattr(options, name))}' for name in chosen)})"


def _is_default(given: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return given is default or (type(given) is type(default) and bool(np.all(given == default)))


def _show_choice(given: Any) -> str:
    if is_dataclass(given) and vars(type(given))["__dataclass_params__"].repr:  # its repr would list every field
        return show_choices(given)
    return getattr(given, "__name__", None) or show_value(given)


def with_article(noun: str) -> str:
    """"a Network", "an Oracle"."""
    return f"{'an' if noun[:1].lower() in 'aeio' or noun.startswith('nd') else 'a'} {noun}"


def check_whole(name: str, given: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number in a range; True and False are none."""
    try:
        number = None if isinstance(given, bool | np.bool_) else index(given)
    except Exception:  # whatever an object does when it is asked for a number
        number = None
    if number is None or number < least or (most is not None and number > most):
        upper = "" if most is None else f" and at most {most:,}"
        raise InvalidInput(
            f"{name} is {show_value(given)}.", f"It is a whole number of at least {least:,}{upper}.", "Give such a number.",
            given=given)
    return number


def check_number(
    name: str, given: Any, least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf, finite: bool = True
) -> float:
    """A real number in a range, `above` exclusive; NaN, True and False are none."""
    number = _real(given)
    if math.isnan(number) or not least <= number <= most or (above > -math.inf and number <= above) or (
            finite and math.isinf(number)):
        limits = [f"at least {least:g}"] * math.isfinite(least) + [f"above {above:g}"] * math.isfinite(above) + [
            f"at most {most:g}"] * math.isfinite(most)
        ranged = f", {' and '.join(limits)}" if limits else ""
        raise InvalidInput(
            f"{name} is {show_value(given)}.", f"It is a {'finite ' * finite}number{ranged}.", "Give such a number.",
            given=given)
    return number


def _real(given: Any) -> float:
    """A real number as a float; NaN for anything else."""
    array = isinstance(given, np.ndarray) and given.ndim == 0 and given.dtype.kind in "iuf"
    if isinstance(given, bool) or not (array or isinstance(given, numbers.Real | Decimal)):
        return math.nan
    try:
        return float(given)
    except Exception:  # a whole number beyond 1e308, a Decimal that signals
        return math.nan


def check_flag(name: str, given: Any) -> bool:
    """True or False."""
    if not isinstance(given, bool | np.bool_):
        raise InvalidInput(f"{name} is {show_value(given)}.", "It is a yes or a no.", f"Give {name}=True or {name}=False.")
    return bool(given)


def check_text(name: str, given: Any) -> str:
    """Text that is not empty."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput(f"{name} is {show_value(given)}.", "It is a name.", "Give some text.")
    return given


def check_choice(name: str, given: Any, known: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(given, str) or given not in known:
        raise InvalidInput(
            f"{name} is {show_value(given)}.", f"Known are {', '.join(known)}.", "Choose one of them.", given=given)
    return given


def check_sizes(name: str, given: Any, least: int = 1, example: str = "(40, 20)") -> tuple[int, ...]:
    """One or several whole numbers."""
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes | memoryview)
    if not listed or getattr(given, "ndim", 1) != 1 or len(given) == 0:
        raise InvalidInput(
            f"{name} is {show_value(given)}.", f"It is a list of whole numbers of at least {least}.",
            f"Give some, such as {example}.")
    return tuple(check_whole(name, one, least) for one in given)


def check_instance(name: str, given: Any, kind: type[T] | tuple[type[T], ...], do: str) -> T:
    """An object of a class; `do` says what to give."""
    if not isinstance(given, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidInput(
            f"{name} is {show_value(given)}.", f"It should be {' or '.join(with_article(one.__name__) for one in kinds)}.", do)
    return given


def has_methods(given: Any, *names: str) -> bool:
    """Whether an object and its class have them all: an object that answers to any name, as mocks do, says nothing by it."""
    try:
        return all(callable(getattr(type(given), name, None)) and callable(getattr(given, name)) for name in names)
    except Exception:  # what an object does when it is asked for an attribute
        return False


def check_path(name: str, given: Any) -> Path:
    """The path of a file or a folder, there or not: text that the operating system takes for a name."""
    try:
        text = os.fspath(given)
    except Exception:
        text = None
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"{name} is {show_value(given)}.", "It is the path of a file or a folder.", "Give text, or a pathlib.Path.")
    try:
        os.lstat(text)
    except (OSError, ValueError) as error:  # ValueError: a NUL, or characters that no file name has
        if not isinstance(error, OSError) or error.errno == errno.ENAMETOOLONG:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidInput(
                f"{name} is {show_value(text)} ({reason}).", "The operating system has no such paths.",
                "Give another path.") from None
    return Path(text)


def as_generator(given: Any) -> Generator:
    """The generator of a seed, or the one given; None draws a seed."""
    try:
        numbers_of_another_kind = isinstance(given, np.ndarray) and given.dtype.kind not in "iu"
        if isinstance(given, bool | np.bool_ | str | bytes | float) or numbers_of_another_kind:
            raise TypeError
        return np.random.default_rng(given)
    except Exception:
        raise InvalidInput(
            f"rng is {show_value(given)}.", "It is the seed of all random draws: the same seed gives the same bits.",
            "Give a whole number of at least 0, or numpy.random.default_rng(seed).") from None


def check_unmasked(name: str, given: Any) -> None:
    """Refuse an array with masked entries: NumPy would read what is below the mask."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        masked = int(np.ma.getmaskarray(given).sum())
        raise InvalidInput(
            f"{name} has {masked} masked entries.", "Missing values are not imputed.", "Drop those rows or fill them in.",
            masked=masked)


def as_reals(name: str, given: Any) -> Array:
    """The array behind `given`, not copied if it is one already; raises InvalidInput if it does not hold real numbers."""
    if hasattr(given, "toarray") and hasattr(given, "nnz"):
        raise InvalidInput(
            f"{name} is a sparse {type(given).__name__}.", "Every pass works on dense blocks of rows.",
            f"Give {name}.toarray(), if it fits into memory.")
    if getattr(given, "requires_grad", False) is True:
        raise InvalidInput(
            f"{name} is a tensor that needs gradients.", "NumPy does not take it from its graph.",
            f"Give {name}.detach().cpu().numpy().")
    check_unmasked(name, given)
    try:
        array = np.asarray(given)
    except Exception as error:  # what an object's own __array__ raises
        raise InvalidInput(
            f"{name} is not an array ({error}).", "All rows must have the same length.", "Give an array of numbers.") from None
    check_dtype(name, array.dtype)
    return array


def check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Raise InvalidInput for anything but real numbers."""
    if dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} has dtype {dtype}.", "Networks, their inputs and their outputs are real numbers.",
            "Give floats, for example numpy.array(values, dtype=float).", dtype=str(dtype))


def check_memory(what: str, floats: float, do: str = "Give smaller sizes.") -> None:
    """Raise InvalidInput, before anything is allocated, if this number of floats exceeds this machine's memory."""
    have, need = memory_bytes(), 8 * floats
    if need > have:
        raise InvalidInput(
            f"{what} needs about {show_bytes(need)} of memory.", f"This process may have {show_bytes(have)}.", do, bytes=need)


@cache
def memory_bytes() -> float:
    """What this process may have: of the machine, its container, or `ulimit -v`, the least; infinite if nothing says."""
    return min(_machine_bytes(), *map(_bytes_in, CONTAINER_LIMITS), _process_bytes())


CONTAINER_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
"""Files in which Linux tells a container its limit, in the second and in the first form of control groups."""


def _machine_bytes() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _bytes_in(path: str) -> float:
    """The number in a file; infinite if it is "max", or there is no such file."""
    try:
        return float(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return math.inf


def _process_bytes() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else float(limit)


def show_bytes(number: float) -> str:
    """A size such as 3.2 GB."""
    power = min(8, int(math.log(max(number, 1.0), 1000)))
    return f"{number / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB', 'ZB', 'YB')[power]}"


def check_fields(options: Any, **least: float) -> None:
    """Raise InvalidInput if a field of a dataclass is not what its annotation says; numbers are at least 0, or `least[name]`."""
    owner = type(options).__name__
    for name, hint in _hints(cast(Hashable, type(options))).items():
        _check_hint(f"{name} of {owner}", getattr(options, name), hint, least.get(name, 0))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _check_hint(name: str, given: Any, hint: Any, least: float) -> None:
    alternatives = typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else (
        hint,)
    if given is None and type(None) in alternatives:
        return
    wanted = [one for one in alternatives if one is not type(None)]
    if len(wanted) == 1:
        _check_one(name, given, wanted[0], least)
    elif not any(_fits(given, one, least) for one in wanted):
        _refuse(name, given, " or ".join(map(_noun, wanted)))


def _check_one(name: str, given: Any, hint: Any, least: float) -> None:
    if hint is int:
        check_whole(name, given, int(least))
    elif hint is float:
        check_number(name, given, least)
    elif hint is bool:
        check_flag(name, given)
    elif hint is str:
        check_text(name, given)
    elif not _fits(given, hint, least):
        _refuse(name, given, _noun(hint))


def _fits(given: Any, hint: Any, least: float) -> bool:
    origin = typing.get_origin(hint)
    if origin is tuple:
        parts = typing.get_args(hint)
        inner = parts[:1] * len(given) if isinstance(given, tuple) and parts[1:] == (...,) else parts
        return isinstance(given, tuple) and len(given) == len(inner) and all(
            _fits(one, part, least) for one, part in zip(given, inner, strict=True))
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if hint in (int, float, bool, str):
        try:
            _check_one("", given, hint, least)
        except InvalidInput:
            return False
        return True
    if origin is not None:  # Callable[...] and other generic forms
        return callable(given) if origin is Callable else isinstance(given, origin)
    if getattr(hint, "_is_protocol", False):
        return not isinstance(given, type | types.ModuleType) and all(hasattr(given, part) for part in _parts(hint)) and (
            "__call__" not in vars(hint) or _can_be_called(given, hint))
    return isinstance(given, hint)


def _can_be_called(given: Any, protocol: Any) -> bool:
    """Whether a function takes the arguments that a protocol calls it with."""
    wanted = list(inspect.signature(protocol.__call__).parameters.values())[1:]
    named = {one.name: None for one in wanted if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(given).bind(*([None] * (len(wanted) - len(named))), **named)
    except TypeError:
        return False
    except ValueError:  # built in, without a signature
        return True
    return True


def _parts(protocol: Any) -> set[str]:
    """Names that an object of a protocol has."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    named = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return {name for name in named if not name.startswith("_")}


def _noun(hint: Any) -> str:
    if typing.get_origin(hint) is Callable:
        return "a function"
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}
    return words.get(hint) or f"a {getattr(hint, '__name__', str(hint))}"


def _refuse(name: str, given: Any, wanted: str) -> NoReturn:
    raise InvalidInput(
        f"{name} is {show_value(given)}.", f"It should be {wanted}.", "Leave it out, or give such an object.", given=given)


def as_rows(given: Any, dim: int, owner: str) -> Array:
    """Rows of inputs as floats, (n, dim)."""
    x = cast(Array, np.asarray(as_reals("x", given), dtype=float))
    if x.ndim != 2 or x.shape[1] != dim:
        raise InvalidInput(
            f"x has shape {x.shape}.", f"This {owner} takes rows of dimension {dim}.",
            f"Give an array of shape (n, {dim}).", shape=x.shape)
    return x
