"""What the passes of a recovery returned, on disk: after a crash the same call goes on where it stopped, with the same bits.

Everything between two passes is a function of what the passes returned, so a recovery is replayed by giving the sums back. A
journal is a folder:

    checkpoint.json               for what: format, version, data, call
    pass-000017.safetensors       what pass 17 returned, and in its header what the pass was about

A file is written under another name, brought to the disk, then renamed: it is whole or not there. A pass is written if that
takes less than a tenth of the time that the pass took; others are carried out again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.shapes import Array, Sums
from laybare.source.fingerprint import fingerprint

FORMAT = 1
HEADER = "checkpoint.json"

WRITE_SECONDS, WRITE_RATE = 0.002, 200e6
"""About what a file costs, and bytes a second that reach the disk."""

SHARE = 0.1
"""Part of a pass's time that writing it down may take."""


class Journal:
    """Passes are counted from the moment when the journal is opened; one object writes to a folder at a time."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.passes, self.replayed = folder, 0, 0
        with _sentence(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _agree(folder / HEADER, {"format": FORMAT, **identity})

    def once(self, run: Callable[[], Sums], about: tuple[Any, ...]) -> Sums:
        """What this pass returned before, if it is written down; else it is carried out, and written down if it took long."""
        path, name = self.folder / f"pass-{self.passes:06}.safetensors", fingerprint(*about)
        self.passes += 1
        if path.exists():
            self.replayed += 1
            return _read(path, name)
        begun = time.perf_counter()
        sums = run()
        cost = WRITE_SECONDS + sum(part.nbytes for part in sums) / WRITE_RATE
        if cost < SHARE * (time.perf_counter() - begun):
            with _sentence(self.folder):
                _write(path, sums, {"about": name, "stage": str(about[0])})
        return sums


def _write(path: Path, sums: Sums, about: dict[str, str]) -> None:
    from safetensors.numpy import save

    numbers = {f"{number:03}": np.ascontiguousarray(part) for number, part in enumerate(sums)}
    told = {**about, "shapes": json.dumps([list(part.shape) for part in sums]), "crc32": _checksum(numbers.values())}
    replace_file(path, save(numbers, metadata=told))


def _checksum(parts: Iterable[Array]) -> str:
    total = 0
    for part in parts:
        total = zlib.crc32(part.tobytes(), total)
    return f"{total:08x}"


def _read(path: Path, name: str) -> Sums:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            told = file.metadata()
            parts = [file.get_tensor(key) for key in sorted(file.keys())]
        if told["crc32"] != _checksum(parts):
            raise ValueError("its checksum fails")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({error}).", "It was changed or damaged after it was written.",
            "Delete that file: the pass is then carried out again.", path=str(path)) from None
    if told.get("about") != name:
        raise InvalidInput(
            f"{path} is about another pass ({told.get('stage')}).",
            "The same call on the same data comes to the same passes, so the code or the machine's linear algebra has changed.",
            "Give another folder, or delete this one to begin again.", path=str(path), stage=told.get("stage"))
    return tuple(part.reshape(shape) for part, shape in zip(parts, json.loads(told["shapes"]), strict=True))


def _agree(path: Path, identity: dict[str, Any]) -> None:
    """Write the header, or refuse one that was made for something else."""
    if not path.exists():
        replace_file(path, (json.dumps(identity, indent=1) + "\n").encode())
        return
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(told, dict)
    except (ValueError, AssertionError):
        told = {}
    for name, value in identity.items():
        if told.get(name) != value:
            raise InvalidInput(
                f"The checkpoint in {path.parent} has {name} {told.get(name)!r}, and now it is {value!r}.",
                "Its passes belong to other data or to another call.",
                f"Give another folder, or the same {name} as before.", name=name, was=told.get(name), now=value)


def replace_file(path: Path, content: bytes) -> None:
    """The whole file or none of it, and on the disk when this returns."""
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BudgetExhausted(
            f"The checkpoint in {folder} cannot be written ({error.strerror or error}).",
            "What is not on the disk is lost in a crash; the passes that are there are safe.",
            "Make room or give the call a folder that can be written, and call again: it goes on from there.",
            path=str(folder)) from None
