"""Checkpoints: after a crash the same call continues where it stopped, with the same bits.

Everything between two passes is a function of what the passes returned, so a recovery is replayed by giving the sums back. They
are stored in a journal, a folder:

    checkpoint.json               identity of the call: format, version, data, arguments
    pass-000017.safetensors       result of pass 17; its header says what the pass was about

A file is written under another name, flushed to the disk, then renamed: it is whole or not there. A pass is stored if writing
takes less than a tenth of the time that the pass took; others are carried out again. Data and calls are identified by
fingerprints: hashes of what they hold, the same in every process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import platform
import sys
import time
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.networks.network_files import replace_file
from laybare.numerics.checks import check_path
from laybare.numerics.shapes import Array, Sums
from laybare.source.oracle.oracle import Oracle
from laybare.source.protocol import Source
from laybare.source.views import map_blocks

PLAIN = (types.NoneType, bool, int, float, complex, str, bytes, range, type, types.BuiltinFunctionType)
"""Types that are hashed by their repr."""


def fingerprint(*things: Any) -> str:
    """A hash, 32 hex digits: of arrays by their values, functions by code and closure, objects by fields, others by type."""
    digest = blake2b(digest_size=16)
    for part in _parts(things, ()):
        digest.update(part)
    return digest.hexdigest()


def data_fingerprint(source: Source) -> str:
    """The fingerprint of all rows, in their order; one pass. For drawn rows, of what determines them."""
    if hasattr(source, "identity"):
        return fingerprint(source.identity)
    shape = (source.size, source.dim, source.outputs)
    return fingerprint(shape, [digest for (digest,) in map_blocks(source, _block_digest)])


def _block_digest(x: Array, y: Array) -> Sums:
    digest = blake2b(x.tobytes(), digest_size=16)
    digest.update(y.tobytes())
    return (np.frombuffer(digest.digest(), np.uint64),)


def _parts(thing: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    """The bytes to hash, in a fixed order; `above` are the ids of the enclosing objects."""
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
    """The contents of an object; of a source only its shape, since the data have their own fingerprint."""
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


JOURNAL_FORMAT = 1
"""Version of the file format. Convention: raised when the format changes; other versions are rejected."""

JOURNAL_HEADER = "checkpoint.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """Which passes are stored."""

    file_seconds: float = 0.002
    """Seconds to create, flush and rename one file. Checked by `pytest tests/source/test_checkpoint.py`."""
    bytes_per_second: float = 200e6  # Write rate of a slow disk. Checked by `pytest tests/source/test_checkpoint.py`.
    max_write_share: float = 0.1
    """Largest share of a pass's time that storing its result may take. Checked by `pytest tests/source/test_checkpoint.py`."""


JOURNAL = JournalOptions()


class Journal:
    """Results of passes, counted from the moment when the journal is opened; only one object may write to a folder."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.passes, self.replayed = folder, 0, 0
        with _explain_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _check_identity(folder / JOURNAL_HEADER, {"format": JOURNAL_FORMAT, **identity})

    def recall_or_run(self, run: Callable[[], Sums], about: tuple[Any, ...]) -> Sums:
        """The stored result of this pass; else run it, and store its result if the pass took long."""
        path, name = self.folder / f"pass-{self.passes:06}.safetensors", fingerprint(*about)
        self.passes += 1
        if path.exists():
            self.replayed += 1
            return _read(path, name)
        begun = time.perf_counter()
        sums = run()
        cost = JOURNAL.file_seconds + sum(part.nbytes for part in sums) / JOURNAL.bytes_per_second
        if cost < JOURNAL.max_write_share * (time.perf_counter() - begun):
            with _explain_os_errors(self.folder):
                _write(path, sums, {"about": name, "stage": str(about[0])})
        return sums


def _write(path: Path, sums: Sums, about: dict[str, str]) -> None:
    from safetensors.numpy import save

    numbers = {f"{number:03}": np.ascontiguousarray(part) for number, part in enumerate(sums)}
    header = {**about, "shapes": json.dumps([list(part.shape) for part in sums]), "crc32": _checksum(numbers.values())}
    replace_file(path, save(numbers, metadata=header))


def _checksum(parts: Iterable[Array]) -> str:
    total = 0
    for part in parts:
        total = zlib.crc32(part.tobytes(), total)
    return f"{total:08x}"


def _read(path: Path, name: str) -> Sums:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata()
            parts = [file.get_tensor(key) for key in sorted(file.keys())]
        if header["crc32"] != _checksum(parts):
            raise ValueError("its checksum fails")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({error}).", "It was changed or damaged after it was written.",
            "Delete that file: the pass is then carried out again.", path=str(path)) from None
    if header.get("about") != name:
        raise InvalidInput(
            f"{path} is about another pass ({header.get('stage')}).",
            "The same call on the same data makes the same passes, so the code or the machine's linear algebra has changed.",
            "Give another folder, or delete this one to start again.", path=str(path), stage=header.get("stage"))
    return tuple(part.reshape(shape) for part, shape in zip(parts, json.loads(header["shapes"]), strict=True))


def _check_identity(path: Path, identity: dict[str, Any]) -> None:
    """Write the header; or raise InvalidInput if it belongs to another call."""
    if not path.exists():
        replace_file(path, (json.dumps(identity, indent=1) + "\n").encode())
        return
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(header, dict)
    except (ValueError, AssertionError):
        header = {}
    for name, value in identity.items():
        if header.get(name) != value:
            raise InvalidInput(
                f"The checkpoint in {path.parent} has {name} {header.get(name)!r}, and now it is {value!r}.",
                "Its passes belong to other data or to another call.",
                f"Give another folder, or the same {name} as before.", name=name, was=header.get(name), now=value)


@contextlib.contextmanager
def _explain_os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BudgetExhausted(
            f"The checkpoint in {folder} cannot be written ({error.strerror or error}).",
            "Passes that are not on the disk are lost in a crash; those already stored are safe.",
            "Free some space or give a folder that can be written, and call again: it continues from there.",
            path=str(folder)) from None


def with_checkpoint(source: Any, folder: str | PathLike[str] | None, **call: Any) -> Any:
    """The same source with a journal in `folder`: long passes are stored, and given back if the same call is made again.

    One pass for the fingerprint of the data. A folder of other data, another call or another version raises InvalidInput, which
    says what differs. Short passes and everything between passes are carried out again.
    """
    if folder is None:
        return source
    place = check_path("checkpoint", folder)
    if isinstance(source, Oracle) and not source.logged:
        raise InvalidInput(
            "A checkpoint was given, and the oracle has no log.", "Its answers would be paid for again after a crash.",
            "Give the oracle a folder too: Oracle(target, log=...).")
    identity = {
        "version": f"laybare {sys.modules['laybare'].__version__}, numpy {np.__version__}, python {platform.python_version()}",
        "block_bytes": source.schedule.block_bytes, "data": data_fingerprint(source), "law": fingerprint(source.law),
        **{name: _as_json(value) for name, value in call.items()}}
    schedule = replace(source.schedule, journal=Journal(place, identity))
    return source.scheduled(schedule) if isinstance(source, Oracle) else source.with_schedule(schedule)


def _as_json(value: Any) -> Any:
    return value if value is None or isinstance(value, int | str) else fingerprint(value)
