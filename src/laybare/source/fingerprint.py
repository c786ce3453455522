"""Names for things by what they hold: the same bytes in another process, another bit another name."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.shapes import Array, Sums
from laybare.source.protocol import Source
from laybare.source.views import block_results

PLAIN = (types.NoneType, bool, int, float, complex, str, bytes, range, type, types.BuiltinFunctionType)
"""What is told apart by how it is written."""


def fingerprint(*things: Any) -> str:
    """32 hex digits. Arrays by their numbers, functions by their code and what they refer to, objects by their fields.

    What has none of these counts by its type alone.
    """
    digest = blake2b(digest_size=16)
    for part in _parts(things, ()):
        digest.update(part)
    return digest.hexdigest()


def data_fingerprint(source: Source) -> str:
    """Of all rows, in their order; one reading. Where rows are drawn, of what decides them."""
    if hasattr(source, "identity"):
        return fingerprint(source.identity)
    shape = (source.size, source.dim, source.outputs)
    return fingerprint(shape, [digest for (digest,) in block_results(source, _block_digest)])


def _block_digest(x: Array, y: Array) -> Sums:
    digest = blake2b(x.tobytes(), digest_size=16)
    digest.update(y.tobytes())
    return (np.frombuffer(digest.digest(), np.uint64),)


def _parts(thing: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    """What to hash, in a fixed order; `above` are the objects inside of which this one stands."""
    yield type(thing).__qualname__.encode()
    if id(thing) in above:
        return
    above = (*above, id(thing))
    if isinstance(thing, np.ndarray | np.generic):
        array = np.ascontiguousarray(thing)
        yield f"{array.dtype.str}{array.shape}".encode()
        yield array.tobytes()
    elif isinstance(thing, PLAIN):
        yield repr(thing).encode()
    else:
        for part in _inside(thing):
            yield from _parts(part, above)


def _inside(thing: Any) -> Iterator[Any]:
    """What an object holds; of a source only its shape, since the data have a name of their own."""
    if all(hasattr(type(thing), verb) for verb in ("read", "sum", "split")):
        yield from (thing.size, thing.dim)
    elif isinstance(thing, Mapping):
        yield from sorted(thing.items(), key=lambda pair: str(pair[0]))
    elif isinstance(thing, tuple | list):
        yield from thing
    elif isinstance(thing, Generator):
        yield thing.bit_generator.state
    elif isinstance(thing, functools.partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, types.MethodType):
        yield from (thing.__func__.__qualname__, thing.__self__)
    elif isinstance(thing, types.FunctionType):
        yield from (thing.__qualname__, thing.__code__.co_code, thing.__code__.co_consts, thing.__defaults__)
        yield from (cell.cell_contents for cell in thing.__closure__ or ())
    elif dataclasses.is_dataclass(thing):
        yield from ((field.name, getattr(thing, field.name, None)) for field in dataclasses.fields(thing))
