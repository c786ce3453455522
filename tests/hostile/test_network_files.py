"""Files that are not networks, and disks that do not cooperate: a sentence each, and nothing lost."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_bytes

from laybare.activations import Activation, leaky_relu
from laybare.errors import BudgetExhausted, InvalidInput
from laybare.networks import Layer, Network, load

ARRAYS = {"weights": np.ones((2, 3)), "biases": np.zeros(2), "readout": np.ones(2), "offset": np.array(0.5)}
DESCRIPTION = {"format": "network", "version": 1, "activation": "relu", "outputs": None}


def file_bytes(arrays=None, description=None, key="laybare"):
    """A saved network with some arrays and some of the description replaced; None takes one out."""
    arrays = {name: array for name, array in (ARRAYS | (arrays or {})).items() if array is not None}
    description = {name: value for name, value in (DESCRIPTION | (description or {})).items() if value != "gone"}
    return safetensors_bytes(arrays, {key: json.dumps(description)})


def with_header(text):
    return len(text).to_bytes(8, "little") + text


def zipped(*names):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in names:
            archive.writestr(name, b"something")
    return memory.getvalue()


def array_file(array):
    memory = io.BytesIO()
    np.save(memory, array)
    return memory.getvalue()


GOOD = file_bytes()
REFUSED = {
    "empty": (b"", "is not a safetensors file"),
    "short": (b"abc", "is not a safetensors file"),
    "text": (b"weights,biases\n1,2\n3,4\n", "is not a safetensors file"),
    "npy": (array_file(np.ones(3)), "is not a safetensors file"),
    "npz": (zipped("weights.npy"), r"is a zip archive \(weights.npy\)"),
    "zip cut short": (zipped("weights.npy")[:20], "is a zip archive"),
    "header of a terabyte": ((1 << 40).to_bytes(8, "little") + b"{}", "header of 1,099,511,627,776 bytes"),
    "header of two megabytes": (with_header(b"{" + b" " * (2 << 20) + b"}"), "header of 2,097,154 bytes"),
    "header not JSON": (with_header(b"not json at all!"), "not a readable safetensors file"),
    "header cut short": (GOOD[:60], "not a readable safetensors file"),
    "data cut short": (GOOD[:-3], "not a readable safetensors file"),
    "data too long": (GOOD + b"xxxx", "not a readable safetensors file"),
    "offsets beyond the file": (GOOD.replace(b"[2,3]", b"[9,3]"), "not a readable safetensors file"),
    "somebody else's": (file_bytes(key="pt"), "without the mark of laybare .*biases, offset, readout, weights"),
    "no description": (safetensors_bytes(ARRAYS), "without the mark of laybare"),
    "description not JSON": (safetensors_bytes(ARRAYS, {"laybare": "relu"}), "is not a JSON object .'relu'"),
    "description a list": (safetensors_bytes(ARRAYS, {"laybare": "[1]"}), "is not a JSON object"),
    "description nested": (safetensors_bytes(ARRAYS, {"laybare": "[" * 100_000}), "is not a JSON object"),
    "description short": (file_bytes(description={"activation": "gone"}), "description .* instead of"),
    "description long": (file_bytes(description={"extra": 1}), "description .*extra.* instead of"),
    "format": (file_bytes(description={"format": "moments"}), "format 'moments' instead of 'network'"),
    "newer version": (file_bytes(description={"version": 2, "extra": 1}), "version 2 instead of 1.*Update laybare"),
    "version as text": (file_bytes(description={"version": "1"}), "version '1' instead of 1"),
    "version true": (file_bytes(description={"version": True}), "version True instead of 1"),
    "activation": (file_bytes(description={"activation": "snake"}), "No activation is called 'snake'"),
    "activation a number": (file_bytes(description={"activation": 3}), "No activation is called '3'"),
    "activation with code": (file_bytes(description={"activation": "leaky_relu(exit())"}), "leaky_relu"),
    "custom activation": (file_bytes(description={"activation": "custom:swish"}), "custom:swish"),
    "array missing": (file_bytes({"biases": None}), r"arrays \['offset', 'readout', 'weights'\] instead of"),
    "array too many": (file_bytes({"masks": np.ones(1)}), "arrays .*masks.* instead of"),
    "weights flat": (file_bytes({"weights": np.ones(6)}), "dimensions of weights 1 instead of 2"),
    "weights a number": (file_bytes({"weights": np.array(1.0)}), "dimensions of weights 0 instead of 2"),
    "weights cubic": (file_bytes({"weights": np.ones((2, 3, 1))}), "dimensions of weights 3 instead of 2"),
    "biases long": (file_bytes({"biases": np.ones(3)}), r"shape of biases \(3,\) instead of \(2,\)"),
    "readout long": (file_bytes({"readout": np.ones(3)}), r"shape of readout \(3,\) instead of \(2,\)"),
    "readout for more outputs": (file_bytes({"readout": np.ones((2, 2))}), r"shape of readout \(2, 2\) instead of \(2,\)"),
    "outputs as text": (file_bytes(description={"outputs": "two"}), "instead of"),
    "linear part": (file_bytes({"linear": np.ones(2)}), r"shape of linear \(2,\) instead of \(3,\)"),
    "offset": (file_bytes({"offset": np.ones(1)}), r"shape of offset \(1,\) instead of \(\)"),
    "float32": (file_bytes({"weights": np.ones((2, 3), dtype=np.float32)}), "weights in .* has type F32"),
    "integers": (file_bytes({"biases": np.ones(2, dtype=np.int64)}), "biases in .* has type I64"),
    "bfloat16": (GOOD.replace(b'"dtype":"F64","shape":[2,3]', b'"dtype":"BF16","shape":[24]'), "instead|complete|type"),
    "NaN": (file_bytes({"weights": np.array([[1, 2, 3], [4, np.nan, 6]])}), r"weights\[1, 1\] is nan"),
    "infinity": (file_bytes({"offset": np.array(np.inf)}), r"offset.* is inf"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_a_network_is_refused(kind, tmp_path):
    content, sentence = REFUSED[kind]
    path = tmp_path / "net.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence) as caught:
        load(path)
    assert str(path) in str(caught.value)


class Bomb:
    """A pickle of it would raise when loaded."""

    def __reduce__(self):
        return os.abort, ()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("content", [[1.0, 2.0], {"weights": [1.0, 2.0]}, np.ones(3), None, Bomb()], ids=type)
def test_pickle_is_called_a_pickle_and_never_run(protocol, content, tmp_path):
    path = tmp_path / "net.pkl"
    path.write_bytes(pickle.dumps(content, protocol))
    with pytest.raises(InvalidInput, match=r"is a pickle.*can run any code"):
        load(path)


def test_torch_file_is_called_one(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(zipped("net/data.pkl", "net/data/0"))
    with pytest.raises(InvalidInput, match="is a PyTorch file"):
        load(path)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "net.safetensors"
    for length in range(len(GOOD)):
        path.write_bytes(GOOD[:length])
        with pytest.raises(InvalidInput):
            load(path)


def test_random_damage_never_escapes_as_another_error(tmp_path, rng):
    path = tmp_path / "net.safetensors"
    for _ in range(500):
        damaged = bytearray(GOOD)
        for place in rng.integers(len(GOOD), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(InvalidInput):
            assert isinstance(load(path), Network)  # damage inside the numbers gives other numbers


def test_paths_without_a_file_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"absent.* does not exist"):
        load(tmp_path / "absent")
    with pytest.raises(InvalidInput, match="is a directory"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="not a regular file"):
        load(tmp_path / "pipe")


@pytest.fixture
def net():
    return Network(Layer(np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0]), leaky_relu(0.1)), np.ones(2))


def failing(code):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))
    return fail


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize(("code", "kind"), [
    (errno.ENOSPC, BudgetExhausted), (errno.EDQUOT, BudgetExhausted), (errno.EACCES, InvalidInput), (errno.EIO, InvalidInput)])
def test_failed_write_leaves_the_old_file_and_nothing_else(step, code, kind, net, tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    net.save(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(code))
        with pytest.raises(kind, match=os.strerror(code)):
            Network(net.layer, np.zeros(2)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["net.safetensors"]


def test_disk_that_fills_up_in_the_middle(net, tmp_path):
    resource = pytest.importorskip("resource", reason="POSIX only")
    net.save(tmp_path / "net")
    before, limits = (tmp_path / "net").read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(BudgetExhausted, match="bytes were needed"):
            Network(net.layer, np.zeros(2)).save(tmp_path / "net")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "net").read_bytes() == before
    assert os.listdir(tmp_path) == ["net"]


def test_interrupted_write_leaves_no_trace(net, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        net.save(tmp_path / "net.safetensors")
    assert os.listdir(tmp_path) == []


def test_save_refuses_impossible_places(net, tmp_path):
    with pytest.raises(InvalidInput, match="is a directory"):
        net.save(tmp_path)
    with pytest.raises(InvalidInput, match=r"No such file or directory.*a directory that exists"):
        net.save(tmp_path / "absent" / "net.safetensors")
    assert os.listdir(tmp_path) == []


def test_save_follows_a_link(net, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    net.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "target").activation == leaky_relu(0.1)


def test_save_respects_the_umask_as_open_does(net, tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    net.save(tmp_path / "net")
    assert (tmp_path / "net").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_longest_possible_name(net, tmp_path):
    path = tmp_path / ("n" * 255)
    net.save(path)
    assert load(path).width == 2


def test_custom_activation_cannot_be_saved(tmp_path):
    def cube(t):
        return t**3

    impostor = Activation(name="relu", value=cube, slope=lambda t: 3 * t * t, centre=0.0)
    for mine in (Activation.custom("cube", cube, impostor.slope, parity="odd"), impostor):
        with pytest.raises(InvalidInput, match=f"{mine.name} is not built in"):
            Network(Layer(np.ones((1, 2)), activation=mine), np.ones(1)).save(tmp_path / "net")
    assert os.listdir(tmp_path) == []
