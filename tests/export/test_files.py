"""npz and JSON: every bit there and back, and a sentence for what is no network."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from exchanged_networks import BUILT_IN, same_bits, sample
from hypothesis import given
from numpy.testing import assert_array_equal
from sample_networks import networks

import laybare as lb

WRITERS = {"npz": (lb.export.to_npz, lb.export.from_npz), "json": (lb.export.to_json, lb.export.from_json)}
STORED = networks().filter(lambda net: not net.activation.name.startswith("custom:"))


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("linear", [False, True])
def test_files_keep_every_bit(kind, outputs, linear, tmp_path, rng):
    write, read = WRITERS[kind]
    for sizes in ((6, 5), (6, 5, 4, 3)):
        net, x = sample(rng, BUILT_IN[:3], outputs, sizes, linear)
        write(net, tmp_path / "net")
        back = read(tmp_path / "net")
        assert same_bits(back, net)
        assert_array_equal(back(x), net(x))


@given(net=STORED)
def test_every_small_network_comes_back(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "net"
    assert same_bits(lb.export.from_json(lb.export.to_json(net)), net)
    lb.export.to_npz(net, path)
    assert same_bits(lb.export.from_npz(path), net)


def test_npz_opens_with_numpy(tmp_path, rng):
    net, _ = sample(rng)
    lb.export.to_npz(net, tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz") as held:
        assert_array_equal(held["weights.1"], net.layers[1].weights)
        assert_array_equal(held["readout"], net.readout)


def test_json_is_plain(tmp_path, rng):
    net, _ = sample(rng, sizes=(2, 1), linear=True)
    held = json.loads(lb.export.to_json(net, tmp_path / "net.json"))
    assert held == json.loads((tmp_path / "net.json").read_text())
    assert held["layers"] == [
        {"activation": "relu", "weights": net.layer.weights.tolist(), "biases": net.layer.biases.tolist()}]
    assert (held["dim"], held["outputs"], held["linear"]) == (2, None, net.linear.tolist())


@pytest.mark.parametrize("kind", WRITERS)
def test_what_cannot_be_stored_is_refused(kind, tmp_path, rng):
    net, _ = sample(rng)
    write, read = WRITERS[kind]
    with pytest.raises(lb.errors.InvalidInput, match="ends in a black box"):
        write(lb.Network(net.layers, net.readout, top=lambda h: h[:, 0]), tmp_path / "net")
    cube = lb.Activation.custom("cube", lambda t: t**3, lambda t: 3 * t**2, parity="odd", degree=3)
    with pytest.raises(lb.errors.InvalidInput, match="custom:cube is not built in"):
        write(lb.Network(lb.Layer(np.ones((1, 1)), activation=cube), np.ones(1)), tmp_path / "net")
    assert not list(tmp_path.iterdir())
    with pytest.raises(lb.errors.InvalidInput, match="absent"):
        read(tmp_path / "absent")


GOOD = json.loads(lb.export.to_json(lb.Network(lb.Layer(np.ones((2, 3))), np.ones(2))))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("change", "sentence"), [
    ({"version": 2}, "version 2"), ({"format": "moments"}, "format 'moments'"), ({"layers": []}, "No layers"),
    ({"layers": [{"weights": [[1, 2, 3]], "biases": [0]}]}, "not a readable network in JSON .KeyError: 'activation'"),
    ({"readout": [1]}, "readout has shape"),
    ({"readout": ["a", "b"]}, "does not hold a network"), ({"dim": None}, "does not hold a network"),
    ({"layers": [GOOD["layers"][0] | {"activation": "snake"}]}, "No activation is called 'snake'"),
    ({"layers": [GOOD["layers"][0] | {"weights": [[1, 2], [3]]}]}, "does not hold a network"),
    ({"layers": [GOOD["layers"][0] | {"weights": [[1, 2, 3], [4, 5, float("nan")]]}]}, r"weights\[1, 2\] is nan"),
    ({"offset": [[1]]}, "offset has shape"), ({"linear": [1.0]}, "linear has shape"),
])
def test_json_of_something_else_is_refused(change, sentence):
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        lb.export.from_json(json.dumps(GOOD | change))


@pytest.mark.parametrize("text", ["{", '{"format": "network"}', "{}", "[1]", '{"a": ' + "[" * 100_000])
def test_text_that_is_no_network_is_refused(text):
    with pytest.raises(lb.errors.InvalidInput):
        lb.export.from_json(text)


class Bomb:
    def __reduce__(self):
        return exit, ()


def test_other_archives_are_refused_and_nothing_in_them_is_run(tmp_path, rng):
    path = tmp_path / "net.npz"
    for content in (b"", b"PK"):
        path.write_bytes(content)
        with pytest.raises(lb.errors.InvalidInput, match=r"is not a readable archive"):
            lb.export.from_npz(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(lb.errors.InvalidInput, match=r"contains pickled objects"):
        lb.export.from_npz(path)
    np.savez(path, weights=np.array([Bomb()], dtype=object))
    with pytest.raises(lb.errors.InvalidInput, match=r"contains pickled objects"):
        lb.export.from_npz(path)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(lb.errors.InvalidInput, match=r"is not a readable archive"):
        lb.export.from_npz(tmp_path / "one.npy")
    np.savez(path, weights=np.ones(3))
    with pytest.raises(lb.errors.InvalidInput, match=r"no description of a network \(its arrays: weights\)"):
        lb.export.from_npz(path)
    net, _ = sample(rng)
    lb.export.to_npz(net, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(lb.errors.InvalidInput):
            lb.export.from_npz(path)
    lb.export.to_npz(net, path)
    with pytest.raises(lb.errors.InvalidInput, match="from_npz"):
        lb.load(path)
