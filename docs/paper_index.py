"""Write docs/papers.md: item by item, what the code does with the algorithms, theorems and figures of the five papers.

    python docs/paper_index.py
    python docs/paper_index.py --draw 60 SEED    print that many rows at random, to check by hand

What stands in a row is in `paper_items.py`, by hand. Tests are those that name the item beside its paper, and those that use one
of its objects. The table of literal forms, defaults and the control is that of `laybare reproduce literal-forms`, as it was read.
Tests compare the page with what this file writes, call every object by its name, and ask every command for its help.
"""

from __future__ import annotations

import ast
import random
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from paper_items import ITEMS

ROOT = Path(__file__).parent.parent
TESTS, PAGE, READING = ROOT / "tests", ROOT / "docs" / "papers.md", ROOT / "docs" / "studies" / "literal-forms.md"


class Paper(NamedTuple):
    """Its page, how the docstrings of tests call it, its title."""

    page: str
    names: str
    title: str


PAPERS = (
    Paper("tensor-init", r"Zhong|tensor_init",
          "Zhong, Song, Jain, Bartlett and Dhillon (2017), Recovery guarantees for one-hidden-layer neural networks"),
    Paper("landscape-design", r"Ge, Lee (?:&|and) Ma|Ge-Lee-Ma|landscape",
          "Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design"),
    Paper("symmetric-inputs", r"Ge et al\.? \(2019\)|Kuditipudi|symmetric",
          "Ge, Kuditipudi, Li and Wang (2019), Learning two-layer neural networks with symmetric inputs"),
    Paper("general-relu", r"Awasthi|general_relu",
          "Awasthi, Tang and Vijayaraghavan (2021), Efficient algorithms for learning depth-2 networks with general ReLU"),
    Paper("high-threshold", r"Goel|Panigrahy|lowest_layer|high_threshold",
          "Goel and Panigrahy (2019), Recovering the lowest layer of deep networks with high threshold activations"))

KINDS = ("Algorithm", "Theorem", "Lemma", "Claim", "Corollary", "Proposition", "Definition", "Assumption", "Property", "Figure",
         "Footnote", "Remark", "Fact", "Appendix", "Equation", "Procedure")
PROCEDURES = ("PowerMethod", "KCL", "RecMagSign", "RecoverScalars", "FixSigns", "RefineEstimate", "EstimateTanAlpha")
NUMBER = r"[A-Z]?\.?\d+(?:\.\d+)*(?:\([a-z0-9]\))?|[A-Z]\b(?!\.)"
NAMES = "|".join((*KINDS[:-2], "Properties", "Corollaries"))
ITEM = re.compile(rf"\b({NAMES})s?\s+((?:{NUMBER})(?:(?:\s*,\s*|\s+(?:and|to|or)\s+|-)(?:{NUMBER}))*)", re.IGNORECASE)
EQUATION = re.compile(r"\bequations?\s+((?:(?:,\s*|\s+and\s+)?\([A-Z\d.]+\))+)", re.IGNORECASE)
PROCEDURE = re.compile(rf"\b({'|'.join(PROCEDURES)})\b")


class Row(NamedTuple):
    """An item of a paper: what the code does with it, the objects that do, the commands that run them."""

    paper: Paper
    item: str
    what: str
    objects: tuple[str, ...]
    commands: tuple[str, ...]


def rows() -> Iterator[Row]:
    """All items, in the order of their kinds and numbers."""
    for paper in PAPERS:
        found = []
        for line in re.sub(r"\n {4,}", " ", ITEMS[paper.page]).strip().splitlines():
            named, what, objects, commands = (cell.strip() for cell in line.split("|"))
            found += [Row(paper, item, what, _split(objects), tuple(map(command, _split(commands)))) for item in items(named)]
        yield from sorted(found, key=lambda row: _order(row.item))


def _split(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(",") if part.strip())


def command(short: str) -> str:
    """The command of a study, or of a method and its literal form."""
    if " " not in short:
        return f"laybare reproduce {short}"
    method, form = short.split(" ")
    if method != "layer":
        return f"laybare recover DATA --method {method} --literal --form {form}"
    form, _, units = form.partition(":")
    options = f" --form {form}" * bool(form) + f" --activation {shlex.quote(units)}" * bool(units)
    return f"laybare recover-layer DATA --literal{options}"


def items(text: str) -> list[str]:
    """Items that a text names: "Lemmas 6, 7" are two."""
    found = []
    for match in ITEM.finditer(text):
        kind = re.sub("ies$", "y", match.group(1).capitalize())
        found += [f"{kind} {number}" for number in re.findall(NUMBER, _spelled_out(match.group(2)))]
    for match in EQUATION.finditer(text):
        found += [f"Equation {number}" for number in re.findall(r"\(([A-Z\d.]+)\)", match.group(1))]
    return found + [f"Procedure {match.group(1)}" for match in PROCEDURE.finditer(text)]


def _spelled_out(numbers: str) -> str:
    """"1 to 4" and "1-4" as "1, 2, 3, 4", "3.1-3.3" as "3.1, 3.2, 3.3"."""
    def between(match: re.Match[str]) -> str:
        before, first, last = match.group(1), int(match.group(2)), int(match.group(3))
        return ", ".join(f"{before}{n}" for n in range(first, last + 1)) if first < last < first + 20 else match.group(0)

    return re.sub(r"(?<![.\w])((?:\d+\.)?)(\d+)\s*(?:-|to)\s*\1(\d+)(?![.\w(])", between, numbers)


class TestFile(NamedTuple):
    """Docstrings of a test file, the module's first; names that it uses, its other texts, where imported names come from."""

    texts: tuple[str, ...]
    used: frozenset[str]
    said: frozenset[str]
    homes: dict[str, str]

    def uses(self, name: str) -> bool:
        """Whether the object is used: its last name is, and does not come from another room."""
        *rooms, last = name.split(".")
        home = self.homes.get(last, "laybare").split(".")
        return last in self.used and (home[0] != "laybare" or len(home) == 1 or not rooms or home[1] == rooms[0])


@cache
def test_files() -> dict[str, TestFile]:
    """Test file -> what it says and uses."""
    found = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        texts = [ast.get_docstring(n) or "" for n in nodes if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
        used = {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {n.id for n in nodes if isinstance(n, ast.Name)}
        said = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        homes = {name.asname or name.name: n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) for name in n.names}
        told = tuple(re.sub(r"\s+", " ", text) for text in texts)
        found[file.relative_to(ROOT).as_posix()] = TestFile(told, frozenset(used), frozenset(said), homes)
    return found


@cache
def naming(paper: Paper) -> dict[str, list[str]]:
    """Item -> test files with a docstring that names it, and the paper; where it names none, the module or the path does."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, each in test_files().items():
        for text in each.texts:
            if paper in next(filter(None, map(_papers_in, (text, each.texts[0], file))), []):
                for item in items(text):
                    found[item] += [file] * (file not in found[item])
    return found


def _papers_in(text: str) -> list[Paper]:
    """The papers that a text names."""
    return [paper for paper in PAPERS if re.search(paper.names, text)]


def tests_of(row: Row) -> list[str]:
    """Test files: those that name the item, then what runs its command, then those that use one of its objects; at most three."""
    studies = {command.split()[-1] for command in row.commands if "reproduce" in command}
    using = [file for file, each in test_files().items() if any(map(each.uses, row.objects)) or each.said & studies]
    named = naming(row.paper).get(row.item, [])
    by_command = [
        "tests/test_literal_forms.py" if "--literal" in command else "tests/test_papers.py" for command in row.commands]
    return list(dict.fromkeys([*named, *by_command, *using] if row.objects else named))[:3]


def page() -> str:
    """The whole page."""
    return HEAD + comparison() + "\n" + "\n".join(_section(paper) for paper in PAPERS)


def comparison() -> str:
    """The reading of literal forms, defaults and the control."""
    if not READING.exists():
        return ""
    text = READING.read_text(encoding="utf-8")
    measured, asked = (re.search(rf"{name}\n: (.*)\n", text) for name in ("Measured", "Command"))
    table = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert measured and asked and table
    return (
        "## Literal beside default beside control\n\n"
        f"Printed by {asked.group(1)}, in the settings of the papers, or as near to them as a minute allows: 10 units for 50 and "
        "50,000 samples in all for 262,144 a step of Ge, Lee and Ma, or 5 units and one such batch; the last two papers have no "
        f"experiments. Angles are in rad, the largest of a true unit to the nearest found one. {measured.group(1)}\n\n"
        f"```text\n{table.group(1)}```\n")


def _section(paper: Paper) -> str:
    lines = [f"## {paper.title}", "", f"See also [its page]({paper.page}.md).", "",
             "| item | what the code does | where | tests | command |", "|---|---|---|---|---|"]
    for row in rows():
        if row.paper is paper:
            where, tests, commands = (
                ", ".join(f"`{name}`" for name in some) for some in (row.objects, tests_of(row), row.commands))
            lines.append(f"| {row.item} | {row.what} | {where} | {tests} | {commands} |")
    return "\n".join(lines) + "\n"


def _order(item: str) -> tuple[int, list[tuple[int, str]]]:
    kind, number = item.split(" ", 1)
    return KINDS.index(kind), [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.()]", number) if part]


HEAD = """# The five papers, item by item

What the code does with every algorithm, theorem and figure: it is *printed* (as the paper has it, constants left open where the
paper leaves them open; if anything is done otherwise, the row says what), *corrected* (with the erratum), or *not computed* (and
why). Then where, what tests it, and which command runs it. Names are within `laybare`. The copies we have are scans: where one
may have lost a sign, a bracket or a fraction, the erratum says so. This page is written by `python docs/paper_index.py`.

Parts by their printed names, each with its call:

```python
import numpy as np

import laybare as lb
from laybare.assembly.unit_scalars import rec_mag_sign
from laybare.assembly.unit_scalars import fix_signs, recover_scalars
from laybare.lowest_layer.layer_start import measure_profile, slab_estimate
from laybare.lowest_layer.printed.searches import refine_estimate
from laybare.methods.printed.awasthi_2021 import exact_units
from laybare.methods.printed.ge_2019 import single_unit
from laybare.moments import population_moments

rng = np.random.default_rng(0)
square = lb.random_network(5, 3, lb.power_relu(2), biases=0, rng=1)
norms = np.linalg.norm(square.layer.weights, axis=1, keepdims=True)
found = rec_mag_sign(
    population_moments(square, 4), square.layer.weights / norms, square.activation)
print(lb.compare(found, square).max_error < 1e-10)  # True: RecMagSign

# Algorithms 1, 2 and 3 of Awasthi et al. (2021)
net = lb.random_network(5, 3, biases=0.5, rng=0)
moments = population_moments(net, 4)
units = exact_units(moments, 1, rng=rng)
scalars = recover_scalars(moments, units.directions, 1)
signs = fix_signs(moments, units.directions, scalars, centred=False)
layer = lb.Layer(signs[:, None] * units.directions, signs * scalars.biases, lb.relu)
print(lb.compare(lb.Network(layer, scalars.readout), net).max_error < 1e-8)  # True

# Algorithm 1 of Ge et al. (2019): one unit, symmetric inputs
x = rng.standard_normal((20_000, 5))
w = np.array([0.6, 0.0, -0.8, 0.0, 0.0])
rows = single_unit(lb.Samples(x, np.maximum(x @ w, 0), law=lb.Symmetric()))
print(np.abs(rows - w).max() < 0.05)  # True

# EstimateTanAlpha and RefineEstimate of Goel and Panigrahy (2019)
activity = lb.Samples(x, (x @ w > 1.5).astype(float))
aside = np.array([0.0, 1.0, 0.0, 0.0, 0.0])
near = np.cos(0.3) * w + np.sin(0.3) * aside
tangent = slab_estimate(measure_profile(activity, near[None]), 0).tangent
refined = refine_estimate(activity, near, rng=rng).direction
print(0.8 < tangent / np.tan(0.3) < 1.6, np.arccos(refined @ w) < 0.3)  # True True
```

"""

def draw(count: int, seed: int) -> str:
    """Rows at random, by paper: the item, what the code does with it, where, and the command."""
    chosen = set(random.Random(seed).sample(list(rows()), count))
    lines = (" | ".join((row.paper.page, row.item, row.what, ", ".join(row.objects), ", ".join(row.commands)))
             for row in rows() if row in chosen)
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw"]:
        sys.stdout.write(draw(*map(int, sys.argv[2:])) + "\n")
    else:
        PAGE.write_text(page(), encoding="utf-8")
