"""What the caller set for NumPy, numbers at the ends of the range of floats, and libraries that print: none of it shows."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from absurd_arguments import outcome
from signalled_programs import ENVIRONMENT, PROGRAM

import laybare as lb

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
NET = lb.random_network(3, 2, rng=1)
LAYER = lb.Network(lb.Layer(np.eye(3), np.full(3, -1.0)), np.ones(3))

VERBS: dict[str, Callable[[], object]] = {
    "recover": lambda: lb.recover(X, NET(X) + 0.1 * RNG.standard_normal(300), width=2),
    "refine": lambda: lb.refine(lb.Samples(X, NET(X)), NET),
    "black box": lambda: lb.recover(lb.Oracle(NET, budget=2000)),
    "box": lambda: lb.recover(lb.Oracle(NET, budget=2000, box=(-1, 1))),
    "audit": lambda: lb.audit(NET, (100,)),
    "recover_layer": lambda: lb.recover_layer(lb.Samples(X, LAYER(X)), width=3),
    "union": lambda: lb.UnionOfHalfSpaces(width=1).fit(X, X[:, 0] > 1).predict(X),
    "choose": lambda: lb.choose(lb.Samples(X, NET(X))).explain(),
    "first_look": lambda: lb.first_look(lb.Oracle(lb.random_network(3, 2, lb.tanh, rng=1), budget=400)),
    "compare": lambda: lb.compare(NET, NET.canonical()),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_caller_who_lets_numpy_raise_gets_the_same_answers(verb: str) -> None:
    with np.errstate(all="raise"):
        assert VERBS[verb]() is not None


@pytest.mark.parametrize("act", [
    lb.relu, lb.tanh, lb.sigmoid, lb.erf, lb.gelu, lb.softplus, lb.step, lb.absolute, lb.leaky_relu(0.1), lb.power_relu(2),
    lb.exponential(0.5)], ids=str)
def test_activations_far_out_neither_warn_nor_raise(act: lb.Activation) -> None:
    t = np.array([-1e300, -800.0, -1e-320, 0.0, 1e-320, 700.0])
    with np.errstate(all="raise"):
        assert not np.isnan(act(t)).any()
        assert not np.isnan(act.derivative(t)).any()
        assert np.isfinite(act.hermite(2, 1.0, -30.0))


ODD = {
    "no such backend": ({"MPLBACKEND": "nonsense"}, ("--report", "r.html"), "matplotlib cannot be imported"),
    "no threads": ({"LAYBARE_THREADS": "many"}, (), "LAYBARE_THREADS is 'many'"),
    "no width": ({"COLUMNS": "0"}, (), ""),
    "letters that ASCII has not": ({"PYTHONIOENCODING": "ascii"}, ("--verbose",), ""),
    "a date that is none": ({"SOURCE_DATE_EPOCH": "abc"}, (), "An import failed: ValueError (invalid literal for int()"),
    "a date that is no number of seconds": ({"SOURCE_DATE_EPOCH": "9" * 20}, (), "An import failed: OverflowError"),
    "no such switch of a library": ({"JAXTYPING_DISABLE": "abc"}, (), "JAXTYPING_DISABLE"),
    "no fonts": ({"MPLCONFIGDIR": "/dev/null/a", "HOME": "/dev/null/b", "TMPDIR": "/dev/null/c"}, ("--report", "r.html"), ""),
    "no such thread of linear algebra": ({"OMP_NUM_THREADS": "abc", "OPENBLAS_NUM_THREADS": "-4"}, (), ""),
    "a completion of no shell": ({"_LAYBARE_COMPLETE": "abc"}, (), "_LAYBARE_COMPLETE is 'abc'"),
    "a completion of no word": (
        {"_LAYBARE_COMPLETE": "bash_complete", "COMP_WORDS": "laybare", "COMP_CWORD": "abc"}, (), "_LAYBARE_COMPLETE is"),
    "a completion of nothing": ({"_LAYBARE_COMPLETE": "bash_complete"}, (), "_LAYBARE_COMPLETE is 'bash_complete'")}
"""Variables, further words, and the sentence; none where the command succeeds."""


@pytest.mark.parametrize("name", ODD)
def test_odd_variables_of_the_environment(name: str, tmp_path: Path) -> None:
    variables, words, sentence = ODD[name]
    np.savetxt(tmp_path / "data.csv", np.column_stack([X, NET(X)]), delimiter=",", header="a,b,c,y", comments="")
    done = subprocess.run(
        [*PROGRAM, "recover", "data.csv", "--width", "2", *words], env={**ENVIRONMENT, **variables}, cwd=tmp_path,
        capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr and sentence in done.stderr
    assert (done.returncode == 2) == bool(sentence), done.stderr


def test_a_current_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd gone && rmdir ../gone && exec {shlex.join(PROGRAM)} extract numpy:abs --dim 1"
    done = subprocess.run(["sh", "-c", script], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("laybare: the current folder was not"), done.stderr


def test_an_odd_variable_is_no_failed_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit without a single pass would have booked it as a refusal."""
    monkeypatch.setenv("LAYBARE_THREADS", "0")
    with pytest.raises(lb.errors.InvalidInput, match="LAYBARE_THREADS is '0'"):
        lb.audit(NET, (100,))


class QuantisedUnits:
    """A network whose hidden activations are rounded to multiples of 1 / parts."""

    def __init__(self, network: lb.Network, parts: int) -> None:
        self.network, self.parts = network, parts

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.round(self.network.layer(x) * self.parts) / self.parts @ self.network.readout


@pytest.mark.parametrize("parts", [2, 8, 64, 1024])
@pytest.mark.parametrize("box", [None, (-1.0, 1.0)])
def test_boxes_with_quantised_activations_end_in_a_result_or_a_sentence(parts: int, box: tuple[float, float] | None) -> None:
    """A slope that does not change divided by zero once."""
    target = QuantisedUnits(lb.random_network(4, 3, rng=1), parts)
    assert outcome(lambda: lb.recover(lb.Oracle(target, 4, budget=3000, box=box))) in ("accepted", "sentence")


@pytest.mark.parametrize(("inputs", "outputs"), [(1e300, 1.0), (1.0, 1e300), (1e300, 1e300), (1e-300, 1.0), (1.0, 1e-300)])
def test_numbers_near_the_ends_of_the_range_end_in_a_sentence_without_a_warning(inputs: float, outputs: float) -> None:
    with pytest.raises(lb.LaybareError, match=r"overflow|constant|squares"):
        lb.recover(X * inputs, NET(X) * outputs)


def test_outputs_of_a_black_box_near_the_end_of_the_range_end_in_a_sentence() -> None:
    with pytest.raises(lb.LaybareError, match="leave the range of floats"):
        lb.recover(lb.Oracle(lambda x: 1e300 * NET(x), 3, budget=2000))
