"""Data larger than memory: rows that are never stored, files larger than what the process may take, clusters."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from dask_clusters import local_cluster
from numpy.testing import assert_array_equal

import laybare as lb

DRAWN = """
import sys, time
import laybare as lb
from laybare.moments import packed_moments

truth = lb.random_network(20, 5, rng=1)
source = lb.source.Simulation(truth, 20, int(float(sys.argv[1])), rng=2, schedule=lb.source.Schedule(workers=int(sys.argv[2])))
packed_moments(source.take(50_000), 4)
begun = time.process_time()
moments = packed_moments(source, 4)
print(time.process_time() - begun, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024)
"""


class Measured(NamedTuple):
    """Processor seconds of the last step of a script, and the largest size of its process in bytes."""

    seconds: float
    bytes: float


def run(script: str, *arguments: object) -> Measured:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    return Measured(*map(float, done.stdout.split()))


def test_moments_of_rows_that_are_never_stored_take_time_linear_in_them() -> None:
    """Order 4 in dimension 20, in seconds of the processor; half as much again either way for a busy machine."""
    small, large = (run(DRAWN, size, 1) for size in (1e5, 4e5))
    assert max(small.bytes, large.bytes) < 500e6
    assert 2.5 < large.seconds / small.seconds < 6.0


@pytest.mark.slow
def test_moments_of_a_hundred_million_rows_within_500_megabytes() -> None:
    found = [run(DRAWN, size, 2) for size in (1e6, 1e7, 1e8)]
    print(found)
    assert max(one.bytes for one in found) < 500e6
    for one, other in pairwise(found):
        assert 7.0 < other.seconds / one.seconds < 14.0


FILE = """
import sys, time
import numpy as np
import laybare as lb

begun = time.process_time()
found = lb.recover(lb.open_samples(sys.argv[1], schedule=lb.source.Schedule(keep_bytes=int(float(sys.argv[2])))), width=3, rng=0)
assert found.certificate.verdict == "verified", found
found.network.save(sys.argv[3])
print(time.process_time() - begun, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024)
"""


def write_file(folder: Path, rows: int, dim: int) -> lb.Network:
    """So many rows of a network of three units as x.npy and y.npy, in blocks; the network."""
    truth = lb.random_network(dim, 3, rng=1)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float64, (rows, dim))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (rows,))
    for start in range(0, rows, 50_000):
        block = np.random.default_rng(start).standard_normal((min(50_000, rows - start), dim))
        x[start : start + len(block)], y[start : start + len(block)] = block, truth(block)
    x.flush(), y.flush()
    return truth


def check_file(folder: Path, rows: int, dim: int, keep: float) -> Measured:
    """A network of three units from x.npy and y.npy of so many rows; what it took."""
    truth = write_file(folder, rows, dim)
    took = run(FILE, folder, keep, folder / "net.safetensors")
    assert lb.compare(lb.load(folder / "net.safetensors"), truth).max_error < 1e-9
    return took


def test_a_file_that_stays_on_disk_is_recovered(tmp_path: Path) -> None:
    assert check_file(tmp_path, 30_000, 10, keep=0).bytes < 400e6


@pytest.mark.slow
def test_a_file_of_five_gigabytes_within_one_gigabyte(tmp_path: Path) -> None:
    took = check_file(tmp_path, 6_200_000, 100, keep=100e6)
    print(took, (tmp_path / "x.npy").stat().st_size)
    assert took.bytes < 1e9


class OnScreen(NamedTuple):
    """A command in a terminal: its exit status, what the terminal showed, processor seconds, largest size in bytes."""

    status: int
    shown: str
    seconds: float
    bytes: float


def in_terminal(*words: object) -> OnScreen:
    """The command line in a terminal of 100 columns; its size is what the system kept for it at most."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="100", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-c", "from laybare.cli import main; main()", *map(str, words)])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            break
        shown += part
    _, ended, used = os.wait4(pid, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    return OnScreen(os.waitstatus_to_exitcode(ended), text, used.ru_utime + used.ru_stime, 1024.0 * used.ru_maxrss)


def check_command(folder: Path, rows: int, dim: int) -> OnScreen:
    """The same through `laybare recover`, with a bar."""
    truth = write_file(folder, rows, dim)
    seen = in_terminal("recover", folder, "--out", folder / "net.safetensors")
    assert seen.status == 0, seen.shown[-2000:]
    assert lb.compare(lb.load(folder / "net.safetensors"), truth).max_error < 1e-9
    assert "verified" in seen.shown
    return seen


def test_the_command_line_shows_a_bar_in_a_terminal(tmp_path: Path) -> None:
    """Which stages are seen of one that is over in a second depends on when the screen is drawn."""
    shown = check_command(tmp_path, 3000, 4).shown
    assert "━━━" in shown and "starting" in shown


@pytest.mark.slow
def test_a_file_of_five_gigabytes_through_the_command_line(tmp_path: Path) -> None:
    """Within one gigabyte, the width not given; blocks of long passes move the bar."""
    seen = check_command(tmp_path, 6_200_000, 100)
    counts = set(re.findall(r"([\d,]+)/[\d,]+ blocks", seen.shown))
    print(f"{seen.seconds:.0f} s of the processor, {seen.bytes / 1e6:.0f} MB, {len(counts)} counts of blocks")
    assert seen.bytes < 1e9 and len(counts) > 20
    assert all(stage in seen.shown for stage in ("reading", "refining", "certifying"))


@pytest.mark.slow
def test_one_network_from_threads_and_workers() -> None:
    """Local with one and two threads, Dask with one and two worker processes: the same bits of a recovery from samples."""
    import dask.array as da

    truth = lb.random_network(5, 3, rng=1)
    x = np.random.default_rng(2).standard_normal((20_000, 5))
    y = truth(x) + 0.05 * np.random.default_rng(3).standard_normal(20_000)
    found = [
        lb.recover(lb.Samples(x, y, schedule=lb.source.Schedule(workers, 1 << 17, keep_bytes=0)), width=3, rng=0)
        for workers in (1, 2)]
    for workers in (1, 2):
        with local_cluster(workers, processes=True) as client:
            schedule = lb.source.Schedule(None, 1 << 17, keep_bytes=0, engine=lb.source.DaskEngine(client))
            arrays = da.from_array(x, chunks=(6000, -1)), da.from_array(y, chunks=7000)
            found.append(lb.recover(lb.DaskSamples(*arrays, schedule=schedule), width=3, rng=0))
    for other in found[1:]:
        assert_array_equal(found[0].network.layer.rows, other.network.layer.rows)
        assert_array_equal(found[0].network.readout, other.network.readout)
        assert found[0].certificate.verdict == other.certificate.verdict == "verified"
