"""Every public function with every kind of absurd argument: a sentence, never a traceback."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from pathlib import Path

import absurd_arguments
import numpy as np
import pytest
import scipy.sparse
from absurd_arguments import Unreadable

import laybare as lb
from laybare.errors import InvalidInput

SHARE = 8
"""One case of so many in the fast part, other ones of every parameter."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("absurd")


def answers(folder: Path, start: int, step: int) -> tuple[Counter[str], list[str]]:
    """How often there was each answer, and the calls that were not answered."""
    counts: Counter[str] = Counter()
    wrong = []
    for case in list(absurd_arguments.cases(folder))[start::step]:
        seen = absurd_arguments.answer(case)
        counts[seen.split()[0]] += 1
        if seen not in ("sentence", "accepted"):
            wrong.append(f"{case} -> {seen}")
    print(f"{counts.total():,} calls: {dict(counts)}")
    return counts, wrong


def test_some_absurd_arguments_end_in_a_sentence(folder: Path) -> None:
    counts, wrong = answers(folder, 0, SHARE)
    assert wrong == []
    assert counts["sentence"] > 1000


@pytest.mark.slow
def test_all_absurd_arguments_end_in_a_sentence(folder: Path) -> None:
    counts, wrong = answers(folder, 0, 1)
    assert wrong == []
    assert counts["sentence"] > 10_000


RETURNED = {"Activation", "Audit", "Certificate", "Claim", "LaybareError", "Match", "Method", "Recovery", "Source", "Start"}
"""What functions give back, and protocols: nobody builds them from arguments (activations: `Activation.custom`)."""

ELSEWHERE = {"DaskSamples", "from_torch", "to_torch"}
"""Extras: tests/source/test_dask_samples.py, tests/export/test_torch.py."""


TRIED_OTHERWISE = {("recover", "source"), ("recover", "further"), ("first_look", "oracle")}
"""Given by place."""


def test_every_parameter_of_every_public_function_is_in_the_battery(folder: Path) -> None:
    """Whoever adds a parameter adds it to `absurd_arguments.entries`."""
    tried: dict[str, set[str]] = {}
    for entry in absurd_arguments.entries(folder):
        tried.setdefault(entry.name.split()[0], set()).update(entry.takes)
    public = {name: getattr(lb, name) for name in lb.__all__ if name not in RETURNED | ELSEWHERE and callable(getattr(lb, name))}
    functions = {name: inspect.signature(one) for name, one in public.items() if not isinstance(one, lb.Activation)}
    untried = [f"{name}({parameter})" for name, signature in functions.items() for parameter in signature.parameters
               if parameter not in tried.get(name, ()) and (name, parameter) not in TRIED_OTHERWISE]
    assert untried == []


def test_a_sparse_matrix_and_a_tensor_with_gradients_are_told_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"x is a sparse csr_matrix.*x\.toarray"):
        lb.Samples(scipy.sparse.csr_matrix(np.eye(4)), np.arange(4.0))
    with pytest.raises(InvalidInput, match=r"weights is a sparse .*weights\.toarray"):
        lb.Layer(scipy.sparse.csr_matrix(np.eye(4)))
    with pytest.raises(InvalidInput, match=r"x is a tensor that needs gradients.*x\.detach"):
        lb.Samples(Unreadable(), np.arange(4.0))


def test_activations_are_known_by_name() -> None:
    assert lb.Layer(np.eye(2), np.zeros(2), "relu").activation == lb.relu
    assert lb.random_network(3, 2, "leaky_relu(0.1)").activation == lb.leaky_relu(0.1)
    assert lb.TensorInit(activation="tanh").activation == lb.tanh
    assert lb.Lines(activation="absolute").activation == lb.absolute
    assert lb.HighThreshold(activation="step").activation == lb.step


@pytest.mark.parametrize(("weights", "words"), [
    (np.array([[1j, 2.0]]), "dtype complex"), ([["1", "2"]], "dtype <U1"), ([[True, False]], "dtype bool"),
    ([[None, 1.0]], "dtype object"), ([[10**400, 1]], "dtype object")])
def test_weights_that_are_no_real_numbers_are_refused(weights: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        lb.Layer(weights)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: lb.recover(np.eye(3), np.arange(3.0), seconds=-1), "seconds is -1"),
    (lambda: lb.recover(np.eye(3), np.arange(3.0), seconds=float("nan")), "seconds is nan"),
    (lambda: lb.recover(np.eye(3), np.arange(3.0), seconds=0), "seconds is 0"),
    (lambda: lb.recover(np.eye(3), np.arange(3.0), checkpoint=""), "checkpoint is ''"),
    (lambda: lb.Oracle(len, 2, log=""), "log is ''"),
    (lambda: lb.Network(lb.Layer(np.eye(2)), np.ones(2), offset="3"), "offset has dtype"),
    (lambda: lb.first_look(lb.Oracle(lb.random_network(2, 1, rng=0)), most=-1), "most is -1"),
    (lambda: lb.open_samples("data.csv", target=""), "No target was named")])
def test_what_was_accepted_without_a_word_is_refused(
        call: object, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,y\n1,2\n3,4\n")
    with pytest.raises(InvalidInput, match=words):
        call()
    assert os.listdir(tmp_path) == ["data.csv"]


@pytest.mark.parametrize("call", [
    lambda: lb.random_network(10**9, 10**6), lambda: lb.random_network(10, widths=(10**9, 10**9)),
    lambda: lb.random_network(3, 2, outputs=10**15), lambda: lb.Oracle(np.sum, 10**12),
    lambda: lb.Oracle(np.sum, 3, budget=10**15),
    lambda: lb.recover(np.eye(3), np.arange(3.0), width=10**15),
    lambda: lb.recover(np.eye(3), np.arange(3.0), lb.RandomStart(search=lb.Search(spares=10**15)), 2),
    lambda: lb.NetworkRecovery(width=10**15).fit(np.random.default_rng(0).normal(size=(60, 3)), np.arange(60.0)),
    lambda: lb.audit(np.sum, (60,), dim=10**12), lambda: lb.audit(lb.random_network(3, 2, rng=0), (10**15,)),
    lambda: lb.audit(lb.random_network(3, 2, rng=0), (60,), check=10**15),
    lambda: lb.Gaussian(cov=np.broadcast_to(1.0, (10**7, 10**7))), lambda: lb.source.Simulation(np.sum, 10**12, 10),
    lambda: lb.recover(lb.Oracle(lb.random_network(3, 2, rng=0)), width=10**15)])
def test_sizes_beyond_memory_are_refused_with_the_estimate_before_anything_is_allocated(call: object) -> None:
    with absurd_arguments.limited(5), pytest.raises(InvalidInput, match=r"needs about .*B of memory.*This process may have"):
        call()


def test_control_characters_of_file_names_do_not_reach_the_terminal() -> None:
    with pytest.raises(InvalidInput) as caught:
        lb.load("\x1b]0;title\x07\x1b[31mnet\udcff.safetensors")
    assert str(caught.value).isprintable()
    assert r"\x1b[31mnet\udcff.safetensors does not exist" in str(caught.value)
