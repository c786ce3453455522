"""Absurd arguments: some sixty values of every type × every parameter of the public functions, one at a time.

A call with one absurd value must end in a sentence (a LaybareError), unless the value is one that the parameter takes. It is raw
if another exception escapes, silent if a value that makes no sense is accepted, hanging if it does not end within SECONDS.

    python tests/support/absurd_arguments.py            counts, and every case that is not answered
"""

from __future__ import annotations

import datetime
import functools
import io
import itertools
import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import laybare as lb
from laybare.cli.checking import measured_rates, plan_recovery
from laybare.export import from_json, from_npz, to_json, to_npz
from laybare.solver import Effort
from laybare.source import Endpoint, Schedule, Simulation

SECONDS = 20


class Unreadable:
    """An object whose array cannot be had, as a tensor that needs gradients: NumPy calls __array__, which raises."""

    shape, ndim = (4, 2), 2
    requires_grad = True

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


class Hostile:
    """An object that objects to everything."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("no items")

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __repr__(self) -> str:
        return "Hostile()"

    __hash__ = None  # type: ignore[assignment]


def structured() -> np.ndarray:
    return np.zeros(4, dtype=[("a", float), ("b", int)])


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "True": lambda: True, "np.True_": lambda: np.True_, "0": lambda: 0, "-1": lambda: -1,
    "np.int64(-5)": lambda: np.int64(-5), "1e30 whole": lambda: 10**30, "-1e30 whole": lambda: -(10**30), "0.5": lambda: 0.5,
    "-0.5": lambda: -0.5, "nan": lambda: float("nan"), "inf": lambda: float("inf"), "-inf": lambda: float("-inf"),
    "1e308": lambda: 1e308, "np.float64(nan)": lambda: np.float64("nan"), "1j": lambda: 1j, "Decimal": lambda: Decimal("0.5"),
    "Fraction": lambda: Fraction(1, 3), "empty text": lambda: "", "text": lambda: "no such thing",
    "text of a number": lambda: "3", "long text": lambda: "x" * 5000, "text with NUL": lambda: "a\0b",
    "text with escapes": lambda: "\x1b[31mred\x1b]0;title\x07", "text with a surrogate": lambda: "\udcff",
    "bytes": lambda: b"abc", "memoryview": lambda: memoryview(b"abc"), "empty list": list, "list of text": lambda: ["a"],
    "list of None": lambda: [None, None], "ragged": lambda: [[1.0], [2.0, 3.0]], "numbers": lambda: (1, 2, 3), "dict": dict,
    "set": lambda: {1}, "range": lambda: range(3), "generator": lambda: (i for i in (1, 2)), "object": object,
    "function": lambda: lambda: None, "int": lambda: int, "Ellipsis": lambda: ..., "module": lambda: np,
    "NotImplemented": lambda: NotImplemented, "date": lambda: datetime.date(2020, 1, 1), "exception": lambda: ValueError("x"),
    "folder": lambda: Path("."), "missing file": lambda: Path("missing/file.npz"), "file object": lambda: io.BytesIO(b"abc"),
    "array of nothing": lambda: np.zeros((0, 0)), "array of text": lambda: np.array(["a", "b"]),
    "array of NaN": lambda: np.full((4, 2), np.nan), "array of complex": lambda: np.full((4, 2), 1j),
    "array of objects": lambda: np.array([None, 1.0], dtype=object), "array of booleans": lambda: np.array([True, False]),
    "array of dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"), "array of records": structured,
    "array with 3 axes": lambda: np.ones((2, 2, 2)), "array 0-d": lambda: np.array(2.5),
    "masked array": lambda: np.ma.masked_array(np.ones((4, 2)), mask=True),
    "sparse": lambda: scipy.sparse.csr_matrix(np.eye(4, 2)), "tensor with gradients": Unreadable, "hostile object": Hostile,
}

NOTHING: set[str] = set()
LEFT_OUT = {"None"}
SIZES = {"0.5", "Decimal", "Fraction", "1e308", "array 0-d", "1e30 whole"}
NUMBERS = SIZES | {"0"}
SIGNED = NUMBERS | {"-1", "-0.5", "np.int64(-5)", "-1e30 whole"}
NAMES = {"text", "text of a number", "long text", "text with escapes", "text with a surrogate", "text with NUL"}
NEW_FILES = NAMES - {"text with NUL", "long text"}
FOLDERS = LEFT_OUT | NEW_FILES | {"folder", "missing file"}
SEEDS = LEFT_OUT | {"0", "1e30 whole", "numbers", "range", "empty list", "set"}
ROWS = SIGNED | {"memoryview", "array of booleans", "array with 3 axes", "numbers", "range"}
BOXES = LEFT_OUT | {"ragged", "generator"}
FLAGS = {"True", "np.True_"}
SHORT = {"0.5", "Decimal", "Fraction", "array 0-d"}
"""Seconds that can be waited for."""
OWN_CODE = {"function", "int"}
"""Functions that raise when they are called: what a user's own callback raises ends the work, as it is."""
ABSENT = object()


class Entry(NamedTuple):
    """A public function, the arguments of a call that works, and for each parameter the values that it may take."""

    name: str
    call: Callable[..., object]
    valid: dict[str, Any]
    takes: dict[str, set[str]]


def entry(called: str, call: Callable[..., object], /, **parameters: tuple[Any, set[str]]) -> Entry:
    """From a valid value (or ABSENT) and the values that are taken, for every parameter."""
    valid = {key: value for key, (value, _) in parameters.items() if value is not ABSENT}
    return Entry(called, call, valid, {key: takes for key, (_, takes) in parameters.items()})


class Case(NamedTuple):
    """One call."""

    entry: Entry
    parameter: str
    value: str

    def __str__(self) -> str:
        return f"{self.entry.name}({self.parameter}={self.value})"


def by_place(function: Callable[..., object]) -> Callable[..., object]:
    """Called with its first argument by place, whatever it is called."""
    return lambda first, **named: function(first, **named)


@functools.cache
def entries(folder: Path) -> tuple[Entry, ...]:
    """All of them; files are written to a folder."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2))
    y = np.maximum(x[:, 0] + 0.3, 0.0)
    samples, net = lb.Samples(x, y), lb.Network(lb.Layer(np.array([[1.0, 0.0]]), np.array([0.3])), np.array([1.0]))
    quick, truth = lb.RandomStart(search=lb.Search(hops=0)), lb.Network(lb.Layer(np.array([[1.0, 0.1]])), np.array([1.0]))
    np.savez(folder / "data.npz", x=x, y=y)
    (folder / "data.csv").write_text("a,b,y\n" + "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)))
    net.save(folder / "net.safetensors")
    to_npz(net, folder / "net.npz")
    to_json(net, folder / "net.json")
    lb.to_onnx(net, folder / "net.onnx")
    law, schedule, unit = (lb.Gaussian(), NOTHING), (Schedule(), NOTHING), (lb.relu, NOTHING)
    seed, progress, checkpoint = (0, SEEDS), (None, LEFT_OUT | FLAGS), (None, FOLDERS)
    search = (None, LEFT_OUT)

    def oracle(**named: Any) -> lb.Oracle:
        return lb.Oracle(**({"target": net, "budget": 50} | named))

    def look(**named: Any) -> object:
        return lb.first_look(oracle(budget=400), **named)

    @functools.cache
    def known() -> lb.Recovery:
        return lb.refine(samples, net, rng=0)

    @functools.cache
    def fitted(kind: Any) -> Any:
        return kind(width=1, random_state=0).fit(x, y if kind is lb.NetworkRecovery else y > 0.9)

    @functools.cache
    def filed() -> lb.Audit:
        return lb.audit(net, (60,), check=500)

    return (
        entry("recover", by_place(lb.recover), first=(samples, NOTHING), method=(quick, LEFT_OUT), width=(1, LEFT_OUT),
              activation=(lb.relu, LEFT_OUT), law=(None, LEFT_OUT), rng=seed, progress=progress, checkpoint=checkpoint,
              seconds=(5.0, LEFT_OUT | SIZES | {"inf"}), assurance=(None, LEFT_OUT), loss=("squared", LEFT_OUT),
              sample_weight=(None, LEFT_OUT), groups=(None, LEFT_OUT)),
        entry("recover of arrays", lambda y, **named: lb.recover(x, y, quick, 1, **named), y=(y, NOTHING),
              sample_weight=(np.ones(30), LEFT_OUT), groups=(None, LEFT_OUT), loss=("huber", LEFT_OUT)),
        entry("refine", lb.refine, source=(samples, NOTHING), start=(net, NOTHING), rng=seed, progress=progress,
              checkpoint=checkpoint),
        entry("recover_layer", lb.recover_layer, source=(samples, NOTHING), method=(lb.HighThreshold(), LEFT_OUT),
              width=(1, LEFT_OUT), rng=seed, progress=progress, checkpoint=checkpoint),
        entry("audit", lb.audit, target=(net, NOTHING), budgets=((60,), NOTHING), dim=(2, LEFT_OUT), law=law,
              link=(None, LEFT_OUT), box=(None, BOXES), log=checkpoint, method=(None, LEFT_OUT),
              activation=(lb.relu, LEFT_OUT), rng=(0, {"0", "1e30 whole"}), progress=progress, inputs=(None, LEFT_OUT),
              defences=(("cap:10",), {"empty list", "dict", "array of nothing"}), check=(500, NOTHING),
              command=("", NAMES | {"empty text"})),
        entry("Audit.render", filed().render, form=("html", NOTHING)),
        entry("Audit.report", filed().report, path=(folder / "a.html", NEW_FILES), form=("json", LEFT_OUT)),
        entry("Endpoint", Endpoint, url=("http://host/", NOTHING), batch=(2, {"1e30 whole"}), timeout=(1.0, SHORT),
              retries=(1, {"0", "1e30 whole"}), pause=(1.0, SHORT | {"0"}), token=("TOKEN", NAMES | {"empty text"}),
              contact=(1.0, SHORT), largest=(9, {"1e30 whole"}),
              headers=((), {"empty text", "empty list", "dict", "array of nothing"}),
              request=('{"a": "$x"}', NOTHING), response=("a", NAMES | {"empty text"}), rate=(None, LEFT_OUT | SIZES),
              notify=(None, LEFT_OUT | OWN_CODE)),
        entry("simplify", lb.simplify, network=(net, NOTHING), box=((-1.0, 1.0), LEFT_OUT | BOXES)),
        entry("Recovery call", by_place(known()), first=(x, {"array of NaN"})),
        entry("Recovery.predict", known().predict, x=(x, {"array of NaN"}), interval=(0.9, {"0.5", "Decimal", "Fraction"})),
        entry("Recovery.report", known().report, path=(folder / "a.html", NEW_FILES)),
        entry("Recovery.save", known().save, path=(folder / "r.safetensors", NEW_FILES)),
        entry("choose", lb.choose, source=(samples, NOTHING), width=(1, LEFT_OUT | {"1e30 whole"}),
              activation=(lb.relu, LEFT_OUT), rng=seed),
        entry("first_look", look, most=(200, {"1e30 whole"}), rng=seed),
        entry("first_look of", by_place(lb.first_look), first=(None, NOTHING)),
        entry("plan_recovery", plan_recovery, rows=(100, {"1e30 whole"}), dim=(2, {"1e30 whole"}), width=(1, {"1e30 whole"}),
              outputs=(1, {"1e30 whole"}), workers=(1, {"1e30 whole"}), rates=(measured_rates(2, 1, 1), LEFT_OUT)),
        entry("compare", lb.compare, found=(net, NOTHING), truth=(truth, NOTHING), pairing=("bottleneck", NOTHING)),
        entry("random_network", lb.random_network, dim=(3, NOTHING), width=(2, NOTHING), activation=unit, outputs=(1, NOTHING),
              biases=(1.0, LEFT_OUT | NUMBERS), bias_law=("uniform", LEFT_OUT),
              condition=(None, LEFT_OUT | {"1e308", "1e30 whole", "array 0-d"}), readout=("signs", NOTHING), rng=seed),
        entry("random_network of widths", lb.random_network, dim=(3, NOTHING), widths=((2, 2), {"numbers"})),
        entry("Layer", lb.Layer, weights=(np.eye(2), NOTHING), biases=(np.zeros(2), LEFT_OUT), activation=unit),
        entry("Layer call", net.layer, x=(x, {"array of NaN"})),
        entry("Network", lb.Network, layers=(net.layer, NOTHING), readout=(np.ones(1), NOTHING), offset=(0.0, SIGNED),
              linear=(None, LEFT_OUT), top=(None, LEFT_OUT | OWN_CODE)),
        entry("Network call", net, x=(x, {"array of NaN"})),
        entry("Network.save", net.save, path=(folder / "a.safetensors", NEW_FILES)),
        entry("Samples", lb.Samples, x=(x, NOTHING), y=(y, NOTHING), law=law, schedule=schedule,
              columns=(samples.columns, NOTHING), dropped=(0, {"0", "1e30 whole"})),
        entry("Simulation", Simulation, function=(net, NOTHING), dim=(2, NOTHING), size=(2000, {"1e30 whole"}), law=law, rng=seed,
              schedule=schedule, inputs=(None, LEFT_OUT)),
        entry("open_samples", lb.open_samples, path=(folder / "data.csv", NOTHING), target=("y", {"list of text"}),
              drop=((), {"empty text", "empty list", "list of text"}), drop_missing=(False, FLAGS), law=law, schedule=schedule),
        entry("open_samples of arrays", lb.open_samples, path=(folder / "data.npz", NOTHING), target=("y", NOTHING),
              drop=((), {"empty text", "empty list"})),
        entry("Oracle", oracle, target=(net, OWN_CODE), dim=(2, LEFT_OUT), law=law, budget=(50, NOTHING), log=checkpoint,
              link=(None, LEFT_OUT), box=(None, BOXES), rng=seed, schedule=schedule, inputs=(None, LEFT_OUT),
              batch=(None, LEFT_OUT | {"1e30 whole"}), name=(None, LEFT_OUT | NAMES), memory=(1 << 20, {"0", "1e30 whole"})),
        entry("Oracle.ask", lambda **named: oracle().ask(**named), x=(np.zeros((1, 2)), NOTHING),
              purpose=("a", LEFT_OUT | NAMES)),
        entry("Schedule", Schedule, workers=(1, LEFT_OUT | {"1e30 whole"}), block_bytes=(1 << 20, {"0", "1e30 whole"}),
              progress=(None, LEFT_OUT | OWN_CODE), keep_bytes=(1 << 20, {"0", "1e30 whole"}), engine=(None, LEFT_OUT),
              journal=(None, LEFT_OUT)),
        entry("Search", lb.Search, spares=(1, LEFT_OUT | {"0", "1e30 whole"}), hops=(1, {"0", "1e30 whole"}),
              bias_scale=(0.5, NUMBERS), effort=(Effort(), NOTHING), exact=(False, FLAGS),
              equations=(1.2, {"1e308", "1e30 whole", "array 0-d"})),
        entry("Effort", Effort, max_steps=(10, {"0", "1e30 whole"}), damping=(0.01, NUMBERS),
              stall_steps=(3, {"0", "1e30 whole"}), gain_tol=(1e-3, NUMBERS)),
        entry("Gaussian", lb.Gaussian, mean=(0.0, LEFT_OUT | SIGNED | {"numbers", "range", "memoryview"}),
              cov=(1.0, LEFT_OUT | SIZES)),
        *(entry(kind.__name__, kind, activation=unit, route=(ABSENT, NOTHING), search=search)
          for kind in (lb.TensorInit, lb.LandscapeDesign, lb.SymmetricInputs, lb.GeneralReLU)),
        entry("RandomStart", lb.RandomStart, activation=unit, biases=(True, FLAGS), search=(ABSENT, NOTHING)),
        entry("HighThreshold", lb.HighThreshold, activation=unit, start=(ABSENT, NOTHING), annealing=(ABSENT, NOTHING),
              repairs=(1, {"0", "1e30 whole"}), degree=(2, {"0", "1e30 whole"}), powers=(1, {"0", "1e30 whole"}),
              baseline=(None, LEFT_OUT | SIGNED), queries=search, printed=search, top=search, jumps=search),
        entry("Lines", lb.Lines, depth=(1, LEFT_OUT | {"1e30 whole"}), activation=(lb.relu, LEFT_OUT),
              precision=(None, LEFT_OUT | NUMBERS), spread=(1.0, NUMBERS), patience=search, assurance=(ABSENT, NOTHING)),
        entry("leaky_relu", lb.leaky_relu, slope=(0.1, SIGNED)),
        entry("power_relu", lb.power_relu, power=(2, {"array 0-d"})),
        entry("exponential", lb.exponential, rho=(0.5, SIGNED - {"0"})),
        entry("relu", lb.relu, t=(0.5, ROWS | FLAGS | {"nan", "np.float64(nan)", "inf", "-inf", "empty list", "array of nothing",
                                                       "array of NaN", "masked array"})),
        entry("relu.hermite", lb.relu.hermite, order=(2, {"0"}), scale=(1.0, (ROWS - {"0"}) | {"empty list", "array of nothing"}),
              bias=(0.0, ROWS | {"empty list", "array of nothing"})),
        entry("Activation.custom", lb.Activation.custom, name=("mine", NAMES), value=(np.tanh, NOTHING),
              derivative=(lambda t: 1 / np.cosh(t) ** 2, NOTHING), kinks=((), {"empty list", "numbers", "range", "memoryview"}),
              degree=(None, LEFT_OUT), parity=(None, LEFT_OUT), centre=(None, LEFT_OUT | {"0"}), mirror=(None, LEFT_OUT)),
        entry("load", lb.load, path=(folder / "net.safetensors", NOTHING)),
        entry("from_npz", from_npz, path=(folder / "net.npz", NOTHING)),
        entry("from_json", from_json, source=(folder / "net.json", NOTHING)),
        entry("from_onnx", lb.from_onnx, path=(folder / "net.onnx", NOTHING)),
        entry("from_sklearn", lb.from_sklearn, mlp=(lb.to_sklearn(net), NOTHING)),
        entry("to_npz", to_npz, network=(net, NOTHING), path=(folder / "b.npz", NEW_FILES)),
        entry("to_json", to_json, network=(net, NOTHING), path=(folder / "b.json", NEW_FILES | LEFT_OUT)),
        entry("to_onnx", lb.to_onnx, network=(net, NOTHING), path=(folder / "b.onnx", NEW_FILES), dtype=("float64", NOTHING)),
        entry("to_sklearn", lb.to_sklearn, network=(net, NOTHING), classes=(None, LEFT_OUT | {"array of text"})),
        entry("NetworkRecovery", lambda **named: lb.NetworkRecovery(**named).fit(x, y), method=(quick, LEFT_OUT),
              width=(1, LEFT_OUT), activation=("relu", LEFT_OUT), random_state=(0, {"None", "0", "module"}), law=(None, LEFT_OUT),
              n_jobs=(None, LEFT_OUT | {"-1", "1e30 whole"}), progress=progress, loss=("squared", LEFT_OUT)),
        entry("NetworkClassifier", lambda **named: lb.NetworkClassifier(**named).fit(x, y > 0.9), method=(quick, LEFT_OUT),
              width=(1, LEFT_OUT), activation=("relu", LEFT_OUT), random_state=(0, {"None", "0", "module"}), law=(None, LEFT_OUT),
              n_jobs=(None, LEFT_OUT | {"-1", "1e30 whole"}), progress=progress),
        *(entry(f"{kind.__name__}.fit", lambda kind=kind, **named: kind(method=quick, width=1, random_state=0).fit(**named),
                X=(x, NOTHING), y=(labels, NOTHING), sample_weight=(None, LEFT_OUT | SIZES - {"array 0-d"}),
                groups=(None, LEFT_OUT)) for kind, labels in ((lb.NetworkRecovery, y), (lb.NetworkClassifier, y > 0.9))),
        *(entry(f"{kind.__name__}.{verb}", lambda kind=kind, verb=verb, **named: getattr(fitted(kind), verb)(**named),
                X=(x, NOTHING)) for kind, verb in (
            (lb.NetworkRecovery, "predict"), (lb.NetworkRecovery, "transform"), (lb.NetworkClassifier, "predict_proba"),
            (lb.UnionOfHalfSpaces, "predict"))),
        entry("UnionOfHalfSpaces", lambda **named: lb.UnionOfHalfSpaces(**named).fit(x, y > 0.9), width=(1, LEFT_OUT),
              inside=(None, LEFT_OUT | FLAGS | {"0"}), method=(None, LEFT_OUT), random_state=(0, {"None", "0", "module"})),
    )


def cases(folder: Path) -> Iterator[Case]:
    """Every parameter of every function with every value."""
    for one in entries(folder):
        for parameter, value in itertools.product(one.takes, VALUES):
            if not (parameter == "progress" and value in OWN_CODE and one.name != "Schedule"):
                yield Case(one, parameter, value)


class TookTooLong(BaseException):
    """No answer in time."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TookTooLong after so many seconds."""

    def stop(number: int, frame: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def set_apart() -> Iterator[None]:
    """In an empty folder, without output or warnings."""
    with (tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings(), redirect_stdout(io.StringIO()),
          redirect_stderr(io.StringIO())):
        warnings.simplefilter("ignore")
        yield


def outcome(call: Callable[[], object], seconds: int = SECONDS) -> str:
    """"sentence" or "accepted", or what is wrong: "raw ...", "hanging", "unprintable"."""
    try:
        with limited(seconds), set_apart():
            call()
    except lb.LaybareError as error:
        return "sentence" if str(error).replace("\n", "").isprintable() and len(str(error)) < 6000 else "unprintable"
    except TookTooLong:
        return "hanging"
    except Exception as error:
        return f"raw {type(error).__name__}: {str(error)[:90]!r}"
    return "accepted"


def answer(case: Case) -> str:
    """The outcome of a call; "silent" if it accepts what makes no sense."""
    arguments = case.entry.valid | {case.parameter: VALUES[case.value]()}
    seen = outcome(lambda: case.entry.call(**arguments))
    return "silent" if seen == "accepted" and case.value not in case.entry.takes[case.parameter] else seen


def main() -> None:
    show = functools.partial(print, file=os.fdopen(os.dup(1), "w"), flush=True)  # a number taken for a path may close the first
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)):
            if wanted in str(case):
                seen = answer(case)
                found[seen.split()[0]] += 1
                if seen not in ("sentence", "accepted"):
                    show(case, "->", seen)
    show(f"{found.total():,} cases:", ", ".join(f"{count:,} {name}" for name, count in found.most_common()))


if __name__ == "__main__":
    main()
