"""Without the extras: a sentence that says what to install."""

from __future__ import annotations

import sys

import pytest
from exchanged_networks import sample

import laybare as lb


@pytest.mark.parametrize(("package", "call"), [
    ("torch", lb.to_torch), ("torch", lb.from_torch), ("onnx", lambda net: lb.to_onnx(net, "never.onnx")),
    ("onnx", lambda net: lb.from_onnx("never.onnx"))])
def test_missing_package_is_named(package, call, rng, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(lb.errors.InvalidInput, match=rf"{package} is not installed.*pip install 'laybare\[{package}\]'"):
        call(sample(rng)[0])
