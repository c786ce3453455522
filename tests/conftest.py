"""Set-up of all tests: one BLAS thread, shapes checked by beartype, seeds on demand.

    pytest --seeds 0-99               every test that takes `seed` or `rng`, once a seed (default: seed 0 alone)
    LAYBARE_TYPECHECK=all pytest      shapes checked in every test, not in those of single rooms alone (takes longer)
    LAYBARE_TYPECHECK=0 pytest        without the shape checks
    HYPOTHESIS_PROFILE=thorough pytest
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: the cores belong to the test processes

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import numpy as np
import pytest
import typechecker

gc.disable()  # until all tests are collected (below): what is imported stays, and looking through it takes seconds

LONGEST_SECONDS = {True: 7200.0, False: 900.0}
"""Seconds after which a test (slow, or not) hangs: the stacks of all threads are printed, its process ends, others go on."""

TYPECHECK = os.environ.get("LAYBARE_TYPECHECK", "rooms")

END_TO_END = frozenset({
    "auditing", "certificate", "cli", "estimator", "examples", "export", "hostile", "likelihood", "lines", "lowest_layer",
    "methods", "pipeline", "recovery", "report", "studies",
    "test_documents.py", "test_literal_forms.py"})
"""Folders and files of tests that run whole recoveries: thousands of small calls, whose checks take much of the time.
Shapes are checked there by `make test-all`; the rooms below are checked always."""

if TYPECHECK != "0":
    typechecker.install()  # before laybare is imported

hypothesis.settings.register_profile("default", deadline=None, max_examples=30)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=parse_seeds, default=[0], metavar="RANGE", help="seeds to run: 0-99, 7, or 0,3,5-9")


def parse_seeds(text: str) -> list[int]:
    """'0,3,5-7' -> [0, 3, 5, 6, 7]."""
    ends = [part.split("-") for part in text.split(",")]
    return [seed for end in ends for seed in range(int(end[0]), int(end[-1]) + 1)]


def pytest_report_header(config: pytest.Config) -> str:
    seeds = config.getoption("--seeds")
    shown = f"{seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} from {seeds[0]} to {seeds[-1]}"
    return f"laybare: seeds {shown}; shapes checked: {TYPECHECK}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and not _chooses_its_seeds(metafunc):
        seeds = metafunc.config.getoption("--seeds")
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds], scope="session")


def _chooses_its_seeds(metafunc: pytest.Metafunc) -> bool:
    names = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    return any("seed" in (name.replace(" ", "").split(",") if isinstance(name, str) else name) for name in names)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test, mypy, begins first: at the end one process would wait for the other."""
    items.sort(key=lambda item: item.path.name != "test_house.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    slow = item.get_closest_marker("slow") is not None
    faulthandler.dump_traceback_later(LONGEST_SECONDS[slow], exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator of its own for every test and seed."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def shapes_of_rooms(request: pytest.FixtureRequest) -> None:
    """Checks for tests of single rooms, none for whole recoveries."""
    if TYPECHECK == "rooms" and request.path.relative_to(Path(__file__).parent).parts[0] in END_TO_END:
        request.getfixturevalue("unchecked")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks: bad input meets the package's own sentences, as it does for users.

    For a whole module of such tests: `pytestmark = pytest.mark.usefixtures("unchecked")`.
    """
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
