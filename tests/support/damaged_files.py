"""Damaged files: every format that is read, with bytes flipped, cut away or put in at random places.

A damaged file must end in a sentence or in a result. Where the format has a checksum, the result must be the one of the undamaged
file: a flip in a time stamp is harmless, a flip in a number is not.

    python tests/support/damaged_files.py 1000          counts for so many flips per format, and every one that is not answered
"""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absurd_arguments import outcome

import laybare as lb
from laybare.export import from_json, from_npz, to_json, to_npz

SECONDS_PER_FILE = 20


class Format(NamedTuple):
    """A file that is read, the numbers that it holds, and whether damage to them must be noticed."""

    name: str
    path: Path
    read: Callable[[], Any]
    numbers: Callable[[Any], bytes]
    checked: bool

    @property
    def files(self) -> list[Path]:
        """The files that are damaged, one at a time: those of a folder, or the one."""
        return sorted(file for file in self.path.rglob("*") if file.is_file()) if self.path.is_dir() else [self.path]


def network_bytes(network: Any) -> bytes:
    network = getattr(network, "network", network)
    parts = [part for layer in network.layers for part in (layer.weights, layer.biases)]
    linear = [] if network.linear is None else [network.linear]
    return b"".join(np.asarray(part).tobytes() for part in (*parts, network.readout, network.offset, *linear)) + (
        network.activations.encode())


def sample_bytes(samples: lb.Samples) -> bytes:
    rows = samples.read(0, samples.size)
    return rows.x.tobytes() + rows.y.tobytes()


@functools.cache
def formats(folder: Path) -> tuple[Format, ...]:
    """One small file of every kind, written to a folder."""
    rng = np.random.default_rng(0)
    x, net = rng.standard_normal((12, 2)), lb.random_network(2, 3, rng=0)
    y = net(x)
    table = ("a,b,y\n" + "\n".join(f"{a!r},{b!r},{c!r}" for (a, b), c in zip(x.tolist(), y.tolist(), strict=True))).encode()
    for name, data in (("t.csv", table), ("t.csv.gz", gzip.compress(table)), ("t.csv.bz2", bz2.compress(table)),
                       ("t.csv.xz", lzma.compress(table))):
        (folder / name).write_bytes(data)
    np.savez(folder / "stored.npz", x=x, y=y)
    np.savez_compressed(folder / "packed.npz", x=x, y=y)
    (folder / "blocks").mkdir()
    np.save(folder / "blocks" / "x.npy", x)
    np.save(folder / "blocks" / "y.npy", y)
    net.save(folder / "net.safetensors")
    found = lb.recover(np.linspace(-1.0, 1.0, 60)[:, None], np.abs(np.linspace(-1.0, 1.0, 60) - 0.1), width=1)
    found.save(folder / "found.safetensors")
    to_npz(net, folder / "net.npz")
    to_json(net, folder / "net.json")
    lb.to_onnx(net, folder / "net.onnx")
    _write_log(folder / "log", net)
    _write_parquet(folder, table)
    _write_zarr(folder / "group", x, y)

    def samples(name: str, checked: bool) -> Format:
        return Format(name, folder / name, functools.partial(lb.open_samples, folder / name), sample_bytes, checked)

    def networks(name: str, read: Callable[[Any], Any], checked: bool = False) -> Format:
        return Format(name, folder / name, functools.partial(read, folder / name), network_bytes, checked)

    return (
        networks("net.safetensors", lb.load), networks("found.safetensors", lb.load), networks("net.npz", from_npz, True),
        networks("net.json", from_json), networks("net.onnx", lb.from_onnx), samples("stored.npz", True),
        samples("packed.npz", True), samples("blocks", False), samples("t.csv", False), samples("t.csv.gz", True),
        samples("t.csv.bz2", True), samples("t.csv.xz", True), samples("t.parquet", True), samples("group", False),
        samples("log", True))


def _write_log(folder: Path, net: lb.Network) -> None:
    oracle = lb.Oracle(net, budget=40, log=folder)
    oracle.ask(np.linspace(-1.0, 1.0, 24).reshape(12, 2))
    del oracle


def _write_parquet(folder: Path, table: bytes) -> None:
    import io

    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(io.BytesIO(table)), folder / "t.parquet", write_page_checksum=True)


def _write_zarr(folder: Path, x: np.ndarray, y: np.ndarray) -> None:
    import zarr

    group = zarr.open_group(str(folder), mode="w")
    for name, values in (("x", x), ("y", y)):
        group.create_array(name, shape=values.shape, dtype=values.dtype)[:] = values


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three bytes flipped, mostly; sometimes the end cut away, a piece taken out, or noise put in."""
    kind, at = rng.random(), int(rng.integers(len(data)))
    if kind < 0.8:
        changed = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            changed[place] ^= int(rng.integers(1, 256))
        return bytes(changed)
    if kind < 0.87:
        return data[:at]
    if kind < 0.94:
        return data[:at] + data[at + int(rng.integers(1, 9)) :]
    return data[:at] + rng.bytes(int(rng.integers(1, 9))) + data[at:]


def answer(form: Format, seed: int) -> str:
    """The outcome for one damaged file; "silent" if damage was to be noticed and was not. The file is whole again afterwards."""
    rng = np.random.default_rng(seed)
    file = form.files[seed % len(form.files)]
    whole, right = file.read_bytes(), form.numbers(form.read())
    held: list[bytes] = []
    file.write_bytes(damaged(whole, rng))
    try:
        seen = outcome(lambda: held.append(form.numbers(form.read())), SECONDS_PER_FILE)
    finally:
        file.write_bytes(whole)
    return "silent" if seen == "accepted" and form.checked and held[0] != right else seen


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as folder:
        total: Counter[str] = Counter()
        for form in formats(Path(folder)):
            if wanted not in form.name:
                continue
            found: Counter[str] = Counter()
            for seed in range(count):
                seen = answer(form, seed)
                found[seen.split()[0]] += 1
                if seen not in ("sentence", "accepted"):
                    print(form.name, seed, seen)
            total += found
            print(f"{form.name:20}", ", ".join(f"{number:,} {name}" for name, number in found.most_common()), flush=True)
        print(f"{total.total():,} damaged files:", ", ".join(f"{number:,} {name}" for name, number in total.most_common()))


if __name__ == "__main__":
    main()
