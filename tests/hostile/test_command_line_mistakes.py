"""What a hand may type, or a model may do, on the command line: a sentence and status 2, and no file is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from signalled_programs import ENVIRONMENT, PROGRAM

import laybare as lb
from laybare.cli import program

pytestmark = pytest.mark.usefixtures("unchecked")

MODELS = """
import sys
import numpy as np

def answers(x): return np.maximum(x @ np.arange(1.0, 4.0), 0.0)
def leaves(x): sys.exit()
def tiny(x): return 1e-310 * answers(x)
def silent(x):
    class Silent(Exception):
        def __str__(self): raise ValueError("no words")
    raise Silent
"""

Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Types a command in a folder with data and models: its exit status, and what standard error says in one line."""
    truth, x = lb.random_network(3, 2, rng=1), np.random.default_rng(0).standard_normal((300, 3))
    table = np.column_stack([x, truth(x)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    np.savetxt("data.csv", table, delimiter=",", header="a,b,c,y", comments="")
    np.savetxt("constant.csv", np.column_stack([np.ones(300), table]), delimiter=",", header="one,a,b,c,y", comments="")
    np.savetxt("copies.csv", np.tile(table[:5], (60, 1)), delimiter=",", header="a,b,c,y", comments="")
    Path("missing.csv").write_text(Path("data.csv").read_text(encoding="utf-8") + "nan,1,2,3\n", encoding="utf-8")
    np.savez("data.npz", x=x, y=truth(x))
    np.savez("number.npz", x=np.float64(3.0), y=np.float64(2.0))
    Path("models.py").write_text(MODELS)
    Path("breaks.py").write_text("1 / 0\n")
    Path("misspelt.py").write_text("def f(:\n")

    def typed(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["laybare", *words])
        with pytest.raises(SystemExit) as ended:
            program.run()
        sys.modules.pop("models", None)
        return int(ended.value.code or 0), " ".join(capsys.readouterr().err.split())

    return typed


@pytest.mark.parametrize("words", [
    ("recover", "data.csv", "--out", "data.csv"), ("recover", "data.csv", "--report", "./data.csv"),
    ("recover", "data.npz", "--out", "data.npz"),
    ("extract", "models:answers", "--dim", "3", "--inputs", "data.csv", "--out", "data.csv"),
    ("extract", "models:answers", "--dim", "3", "--log", "log", "--report", "log/log.json"),
    ("recover", "data.csv", "--out", "new.json", "--report", "./new.json")])
def test_nothing_is_written_over_what_is_read(say: Say, words: tuple[str, ...]) -> None:
    Path("log").mkdir()
    Path("log/log.json").write_text("{}")
    before = {path: path.read_bytes() for path in Path().rglob("*.*") if path.is_file()}
    status, said = say(*words)
    assert status == 2 and any(why in said for why in ("would be lost", "are both", "what is written here is a .html file")), said
    assert all(path.read_bytes() == content for path, content in before.items()) and not Path("new.json").exists()


@pytest.mark.parametrize(("words", "sentence"), [
    (("recover", "number.npz"), "x has shape ()"),
    (("recover", "constant.csv"), "Column one is constant"),
    (("recover", "constant.csv"), "--drop-columns 'one'"),
    (("recover", "missing.csv"), "column a (rows are counted from 0)"),
    (("recover", "missing.csv"), "--drop-missing leaves such rows"),
    (("recover", "copies.csv"), "no width could be distinguished from noise"),
    (("recover", "https://host/data.csv?key=abc"), "https://host/data.csv?key=*** is an address"),
    (("recover", "data.csv", "--drop-columns", "y"), "y is named as an output and as a column to leave out"),
    (("recover", "data.csv", "--weights", "w"), "--weights: data.csv has no column w"),
    (("recover", "data.csv", "--weights", "a"), "--weights is"),
    (("recover", "data.csv", "--groups", ""), "--groups: the name of a column is missing"),
    (("recover", "data.csv", "--groups", "a,b"), "--groups: data.csv has no column a,b"),
    (("recover", "data.csv", "--groups", "y"), "--groups: y is an output"),
    (("recover", "data.csv", "--seconds", "nan"), "'--seconds': nan is not a number"),
    (("compare", "data.csv", "data.csv", "--tol", "nan"), "'--tol': nan is not a number"),
    (("reproduce", "coverage", "--out", "/dev/null/pages"), "/dev/null/pages was not written or read"),
    (("reproduce", "literal-forms", "--arm", "models:answers"), "models:answers() raised TypeError"),
    (("recover", "data.csv", "--report", ""), "'' is not the name of a file"),
    (("recover", "data.csv", "--report", "/dev/null"), "'/dev/null' is not the name of a file"),
    (("recover", "data.csv", "--activation", "exponential(1e308)", "--seconds", "4"), "overflow"),
    (("extract", "breaks:f"), "'breaks:f' cannot be imported: ZeroDivisionError"),
    (("extract", "misspelt:f"), "'misspelt:f' cannot be imported: SyntaxError"),
    (("extract", "models.py:answers"), "Write models:answers"),
    (("extract", "models:leaves", "--dim", "3"), "ended the program (SystemExit"),
    (("extract", "models:silent", "--dim", "3"), "The black box raised Silent when it was asked"),
    (("extract", "models:answers", "--dim", "3", "--link", "softmax"), "one answer to each input"),
    (("extract", "models:answers", "--dim", "3", "--link", "logit"), "which are not probabilities"),
    (("extract", "models:answers", "--dim", "3", "--depth", "9" * 5000), "give a number of hidden layers"),
    (("extract", "models:answers", "--dim", "3", "--depth", "²"), "give a number of hidden layers"),
    (("extract", "models:answers", "--dim", "3", "--law", "normal:0,1e200"), "The cov"),
    (("extract", "models:answers", "--dim", "3", "--inputs", "data.csv", "--box", f"{'9' * 5000}=0:1"), "names no input"),
    (("extract", "models:answers", "--dim", "3", "--inputs", "/dev/zero"), "is not a regular file"),
    (("extract", "http://127.0.0.1:9/", "--dim", "3", "--header", "X=@/dev/zero"), "/dev/zero is not a regular file"),
    (("extract", "http://127.0.0.1:9/", "--dim", "3", "--header", "X=@missing"), "missing does not exist"),
    (("extract", "http://127.0.0.1:9/", "--dim", "3", "--timeout", "1e300"), "timeout is 1e+300"),
    (("extract", "http://127.0.0.1:9/", "--dim", "3", "--rate", "1e-300"), "rate, in requests per second, is 1e-300"),
    (("recover", "data.csv", "--report", "page.pdf"), "page.pdf ends in .pdf"),
    (("audit", "models:answers", "--dim", "3", "--report", "page.docx"), "page.docx ends in .docx"),
    (("audit", "models:answers", "--dim", "3", "--check", "100"), "takes 568"),
    (("reproduce", "hostile", "--seeds", "0-99999999999999"), "Give fewer of them"),
    (("reproduce", "hostile", "--seeds", f"0-{'9' * 5000}"), "give FIRST-LAST"),
])
def test_mistakes_are_answered_with_a_sentence(say: Say, words: tuple[str, ...], sentence: str) -> None:
    status, said = say(*words)
    assert status == 2 and sentence in said and "Traceback" not in said, said


def test_answers_below_the_normal_numbers_end_in_a_verdict(say: Say) -> None:
    assert say("extract", "models:tiny", "--dim", "3", "--budget", "2000")[0] in (0, 2, 3, 4)


def test_columns_may_be_named_twice_for_two_purposes(say: Say) -> None:
    Path("weighted.csv").write_text("\n".join(
        line + (",w" if number == 0 else f",{1 + number % 3}") for number, line in enumerate(
            Path("data.csv").read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    status, said = say("recover", "weighted.csv", "--weights", "w", "--drop-columns", "w", "--seconds", "20")
    assert status in (0, 3), said


def test_a_model_that_leaves_is_no_success_from_a_shell(tmp_path: Path) -> None:
    """Status 0 would be a verdict."""
    (tmp_path / "models.py").write_text(MODELS)
    done = subprocess.run(
        [*PROGRAM, "extract", "models:leaves", "--dim", "3"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True,
        timeout=120)
    assert done.returncode == 2 and "ended the program" in done.stderr
