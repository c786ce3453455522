"""ONNX files: every bit there and back in float64, the same values in onnxruntime, sentences for what has no operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from exchanged_networks import BUILT_IN, same_bits, sample
from numpy.testing import assert_allclose
from onnx import helper, numpy_helper

import laybare as lb

IN_FLOAT64 = [activation for activation in BUILT_IN if activation not in (lb.erf, lb.gelu)]


def run(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("activation", IN_FLOAT64, ids=str)
@pytest.mark.parametrize(("outputs", "sizes"), [(None, (6, 5)), (3, (6, 5, 4, 3))])
def test_float64_keeps_every_bit_and_value(activation, outputs, sizes, tmp_path, rng):
    net, x = sample(rng, [activation], outputs, sizes)
    lb.to_onnx(net, tmp_path / "net.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"), full_check=True)
    assert same_bits(lb.from_onnx(tmp_path / "net.onnx"), net)
    y = run(tmp_path / "net.onnx", x)
    assert y.dtype == np.float64
    assert_allclose(y if outputs else y[:, 0], net(x), rtol=1e-12, atol=1e-12 * (1 + np.abs(net(x)).max()))


def test_a_deep_file_is_read_as_a_black_box_and_written_again(tmp_path, rng):
    net, x = sample(rng, sizes=(10, 8, 6), outputs=2)
    lb.to_onnx(net, tmp_path / "box.onnx")
    found = lb.recover(lb.Oracle(str(tmp_path / "box.onnx"), budget=20_000, rng=0), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, net).max_error < 1e-12
    lb.to_onnx(found.network, tmp_path / "found.onnx")
    assert_allclose(run(tmp_path / "found.onnx", x), net(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("activation", [act for act in BUILT_IN if act != lb.step], ids=str)
def test_float32_is_the_network_in_single_precision(activation, tmp_path, rng):
    net, x = sample(rng, [activation], 2, (6, 5, 4))
    lb.to_onnx(net, tmp_path / "net.onnx", dtype="float32")
    y = run(tmp_path / "net.onnx", x.astype(np.float32))
    assert y.dtype == np.float32
    assert_allclose(y, net(x), atol=2e-5 * (1 + np.abs(net(x)).max()))
    assert_allclose(lb.from_onnx(tmp_path / "net.onnx")(x), net(x), atol=2e-5 * (1 + np.abs(net(x)).max()))


def test_float32_keeps_every_bit_of_single_precision(tmp_path, rng):
    net, _ = sample(rng, [lb.relu, lb.tanh], 2, linear=True)
    layers = [lb.Layer(*(part.astype("f4").astype("f8") for part in (layer.weights, layer.biases)), layer.activation)
              for layer in net.layers]
    single = lb.Network(layers, *(part.astype("f4").astype("f8") for part in (net.readout, net.offset, net.linear)))
    lb.to_onnx(single, tmp_path / "net.onnx", dtype="float32")
    assert same_bits(lb.from_onnx(tmp_path / "net.onnx"), single)


@pytest.mark.parametrize("outputs", [None, 2])
def test_linear_part_is_a_path_of_its_own(outputs, tmp_path, rng):
    net, x = sample(rng, outputs=outputs, linear=True)
    lb.to_onnx(net, tmp_path / "net.onnx")
    assert same_bits(lb.from_onnx(tmp_path / "net.onnx"), net)
    assert_allclose(run(tmp_path / "net.onnx", x).reshape(net(x).shape), net(x), rtol=1e-12, atol=1e-12)


def test_mixed_activations(tmp_path, rng):
    net, x = sample(rng, [lb.tanh, lb.leaky_relu(0.1), lb.leaky_relu(0.3)])
    lb.to_onnx(net, tmp_path / "net.onnx")
    assert same_bits(lb.from_onnx(tmp_path / "net.onnx"), net)
    assert_allclose(run(tmp_path / "net.onnx", x)[:, 0], net(x), rtol=1e-12, atol=1e-12)


def test_softplus_is_exact_where_it_is_almost_linear_or_zero(tmp_path):
    net = lb.Network(lb.Layer(np.ones((1, 1)), activation=lb.softplus), np.ones(1))
    lb.to_onnx(net, tmp_path / "net.onnx")
    x = np.array([[-700.0], [-40.0], [0.0], [25.0], [800.0]])
    assert_allclose(run(tmp_path / "net.onnx", x)[:, 0], net(x), rtol=1e-15, atol=1e-16)


@pytest.mark.parametrize(("activation", "operator"), [(lb.erf, "Erf"), (lb.gelu, "Gelu")], ids=str)
def test_operators_that_onnxruntime_lacks_are_named(activation, operator, tmp_path, rng):
    with pytest.raises(lb.errors.InvalidInput, match=f"no operator {operator} in float64.*float32"):
        lb.to_onnx(sample(rng, [activation])[0], tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
    x = helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["n", 2])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, ["n", 2])
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "one", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "one.onnx")
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):  # when it no longer fails, the refusal can go
        run(tmp_path / "one.onnx", np.ones((1, 2)))


# Files of other hands

def model(nodes, arrays, ends=("x", "y")):
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    outside = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ends]
    graph = helper.make_graph([helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes], "g",
                              outside[:1], outside[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ARRAYS = {"W": np.arange(6.0, dtype=np.float32).reshape(2, 3), "b": np.ones(2, dtype=np.float32),
          "A": np.array([[3.0], [4.0]], dtype=np.float32), "c": np.array([5.0], dtype=np.float32)}
CHAIN = [("Gemm", ["x", "W", "b"], ["u"], {"transB": 1}), ("Relu", ["u"], ["h"]), ("MatMul", ["h", "A"], ["v"]),
         ("Add", ["c", "v"], ["y"])]


def test_other_programs_write_matmul_and_add(tmp_path, rng):
    onnx.save(model([("Flatten", ["x"], ["f"]), ("Gemm", ["f", "W", "b"], ["u"], {"transB": 1}), *CHAIN[1:2],
                     ("Dropout", ["h"], ["e"]), ("MatMul", ["e", "A"], ["v"]), ("Add", ["c", "v"], ["z"]),
                     ("Reshape", ["z", "shape"], ["y"])], ARRAYS | {"shape": np.array([-1, 1])}), tmp_path / "net.onnx")
    expected = lb.Network(lb.Layer(ARRAYS["W"], ARRAYS["b"]), ARRAYS["A"][:, 0], 5.0)
    assert same_bits(lb.from_onnx(tmp_path / "net.onnx"), expected)


SCALES = {"m": np.array([1.0, -2.0, 3.0], dtype=np.float32), "s": np.array([2.0, 4.0, 0.5], dtype=np.float32),
          "g": np.array([2.0, 0.5], dtype=np.float32), "o": np.array([1.0, -1.0], dtype=np.float32),
          **{name: np.array(value, dtype=np.float32) for name, value in (("zero", 0.0), ("six", 6.0), ("low", -1.0))}}


@pytest.mark.parametrize("nodes", [
    [("Sub", ["x", "m"], ["p"]), ("Div", ["p", "s"], ["q"]), ("Gemm", ["q", "W", "b"], ["u"], {"transB": 1}), *CHAIN[1:]],
    [("Mul", ["s", "x"], ["p"]), ("Add", ["p", "m"], ["q"]), ("Gemm", ["q", "W", "b"], ["u"], {"transB": 1}), *CHAIN[1:]],
    [("Gemm", ["x", "W", "b"], ["t"], {"transB": 1}), ("BatchNormalization", ["t", "g", "o", "b", "g"], ["u"]), *CHAIN[1:]],
    [CHAIN[0], ("Clip", ["u", "zero", "six"], ["h"]), *CHAIN[2:]],
    [CHAIN[0], ("Clip", ["u", "low", "six"], ["k"]), ("Mul", ["k", "g"], ["h"]), *CHAIN[2:]],
    [("Reshape", ["x", "shape"], ["f"]), ("Gemm", ["f", "W", "b"], ["u"], {"transB": 1}), *CHAIN[1:]],
    [("Identity", ["x"], ["i"]), ("MatMul", ["i", "V"], ["t"]), ("Add", ["t", "b"], ["u"]), ("Relu", ["u"], ["h"]),
     ("MatMul", ["h", "A"], ["v"]), ("Add", ["v", "c"], ["z"]), ("Identity", ["z"], ["y"])],
    [("Flatten", ["x"], ["f"], {"axis": 1}), ("Gemm", ["f", "W", "b"], ["t"], {"transB": 1, "alpha": 1.0, "beta": 1.0}),
     ("BatchNormalization", ["t", "g", "o", "b", "g"], ["u"], {"epsilon": 1e-3}), ("Relu", ["u"], ["h"]),
     ("Gemm", ["h", "T", "c"], ["y"], {"transB": 1})],
    [("Cast", ["x"], ["k"], {"to": 1}), ("Sub", ["k", "m"], ["p"]), ("Div", ["p", "s"], ["q"]), ("MatMul", ["q", "V"], ["t"]),
     ("Add", ["t", "b"], ["u"]), ("Relu", ["u"], ["h"]), ("MatMul", ["h", "A"], ["v"]), ("Add", ["v", "c"], ["z"]),
     ("Reshape", ["z", "column"], ["y"])],
], ids=["standard", "min-max", "batch-norm", "relu6", "clip", "reshape", "as Keras", "as PyTorch", "as scikit-learn"])
def test_what_exporters_put_around_the_layers_is_folded_into_them(nodes, tmp_path, rng):
    path = tmp_path / "net.onnx"
    shapes = {"shape": np.array([-1, 3]), "column": np.array([-1, 1]), "V": ARRAYS["W"].T.copy(), "T": ARRAYS["A"].T.copy()}
    onnx.save(model(nodes, ARRAYS | SCALES | shapes), path)
    x = (3.0 * rng.standard_normal((50, 3))).astype(np.float32)
    net = lb.from_onnx(path)
    assert net.activation == lb.relu
    assert_allclose(net(x.astype(float)), run(path, x)[:, 0], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("slope", [[0.25], [0.25, 0.25]], ids=["PyTorch", "Keras"])
def test_a_prelu_with_one_slope_is_a_leaky_relu(slope, tmp_path, rng):
    path, x = tmp_path / "net.onnx", (3.0 * rng.standard_normal((50, 3))).astype(np.float32)
    onnx.save(model([CHAIN[0], ("PRelu", ["u", "a"], ["h"]), *CHAIN[2:]],
                    ARRAYS | {"a": np.array(slope, dtype=np.float32)}), path)
    net = lb.from_onnx(path)
    assert net.activation == lb.leaky_relu(0.25)
    assert_allclose(net(x.astype(float)), run(path, x)[:, 0], rtol=1e-5, atol=1e-4)
    onnx.save(model([CHAIN[0], ("PRelu", ["u", "a"], ["h"]), *CHAIN[2:]],
                    ARRAYS | {"a": np.array([0.25, 0.5], dtype=np.float32)}), path)
    with pytest.raises(lb.errors.InvalidInput, match="an operator PRelu"):
        lb.from_onnx(path)


def test_maps_without_biases(tmp_path):
    onnx.save(model([("MatMul", ["x", "W"], ["u"]), ("LeakyRelu", ["u"], ["h"], {"alpha": 0.25}), ("MatMul", ["h", "A"], ["y"])],
                    {"W": ARRAYS["W"].T, "A": ARRAYS["A"]}), tmp_path / "net.onnx")
    net = lb.from_onnx(tmp_path / "net.onnx")
    assert net.activation == lb.leaky_relu(0.25)
    assert not net.layer.biases.any()
    assert net.offset == 0


@pytest.mark.parametrize(("nodes", "sentence"), [
    ([*CHAIN[:3], ("Add", ["c", "v"], ["z"]), ("Softmax", ["z"], ["y"])], "an operator Softmax"),
    ([("Gemm", ["x", "W", "b"], ["u"], {"transB": 1, "alpha": 0.5}), *CHAIN[1:]], "an operator Gemm with other"),
    ([CHAIN[0], ("Clip", ["u"], ["h"]), *CHAIN[2:]], "an operator Clip"),
    ([CHAIN[0], ("MatMul", ["u", "A"], ["v"]), CHAIN[3]], "an operator MatMul"),
    ([CHAIN[0], ("Relu", ["u"], ["y"])], "1 linear maps and 1 activations"),
    ([("Gemm", ["x", "W", "b"], ["y"], {"transB": 1})], "1 linear maps and 0 activations"),
    ([*CHAIN[:3], ("Add", ["v", "v"], ["y"])], "a sum of two paths"),
    ([("MatMul", ["W", "x"], ["u"]), *CHAIN[1:]], "an operator MatMul"),
    ([("Mul", ["c", "c"], ["e"]), *CHAIN], "an operator Mul of constants alone"),
    ([CHAIN[0], ("Cast", ["u"], ["k"], {"to": 7}), ("Relu", ["k"], ["h"]), *CHAIN[2:]], "an operator Cast"),
])
def test_other_graphs_are_refused_by_name(nodes, sentence, tmp_path):
    onnx.save(model(nodes, ARRAYS), tmp_path / "net.onnx")
    with pytest.raises(lb.errors.InvalidInput, match=sentence) as caught:
        lb.from_onnx(tmp_path / "net.onnx")
    assert str(tmp_path / "net.onnx") in str(caught.value)


def test_what_is_no_onnx_file_is_refused(tmp_path, rng):
    path = tmp_path / "net.onnx"
    with pytest.raises(lb.errors.InvalidInput, match="does not exist"):
        lb.from_onnx(path)
    lb.to_onnx(sample(rng)[0], path)
    whole = path.read_bytes()
    for content in (b"", b"not onnx at all", whole[: len(whole) // 2], whole[:-3]):
        path.write_bytes(content)
        with pytest.raises(lb.errors.InvalidInput):
            lb.from_onnx(path)


def test_black_box_tops_and_custom_activations_are_refused(tmp_path, rng):
    net, _ = sample(rng)
    with pytest.raises(lb.errors.InvalidInput, match="ends in a black box"):
        lb.to_onnx(lb.Network(net.layers, net.readout, top=lambda h: h[:, 0]), tmp_path / "net.onnx")
    cube = lb.Activation.custom("cube", lambda t: t**3, lambda t: 3 * t**2, parity="odd", degree=3)
    with pytest.raises(lb.errors.InvalidInput, match="custom:cube units"):
        lb.to_onnx(lb.Network(lb.Layer(np.ones((1, 1)), activation=cube), np.ones(1)), tmp_path / "net.onnx")
