"""Write docs/papers.md: item by item, where an algorithm, theorem or figure of the five papers is in the code.

    python docs/paper_index.py

Docstrings are the markers. A docstring that names a paper ("Source: Zhong et al. (2017), Algorithm 1"), or stands in a room that
is after one paper alone, is an entry for every item that it names; so is the string below a study. Tests are those that name the
item beside its paper, and those that import the object; commands are the studies that name the item, or those whose module does.
What a paper numbers stands in `paper_items.py`. Tests compare the page with what this file writes, and with that list.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from paper_items import ASIDE

ROOT = Path(__file__).parent.parent
SOURCE, TESTS, PAGE = ROOT / "src" / "laybare", ROOT / "tests", ROOT / "docs" / "papers.md"
FORMS = SOURCE / "cli" / "literal_forms.py"


class Paper(NamedTuple):
    """How docstrings call it, its title, the rooms that follow it alone, and its page."""

    names: str
    title: str
    rooms: tuple[str, ...]
    page: str


PAPERS = (
    Paper(r"Zhong",
          "Zhong, Song, Jain, Bartlett and Dhillon (2017), Recovery guarantees for one-hidden-layer neural networks",
          ("methods/tensor_init", "methods/printed/zhong",
           "theory/guarantees", "theory/risk_curvature", "studies/zhong"),
          "tensor-init"),
    Paper(r"Ge, Lee (?:&|and) Ma|Ge-Lee-Ma",
          "Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design",
          ("methods/landscape_design", "methods/printed/ge_lee",
           "landscape", "studies/glm"),
          "landscape-design"),
    Paper(r"Ge et al \(2019\)|Kuditipudi",
          "Ge, Kuditipudi, Li and Wang (2019), Learning two-layer neural networks with symmetric inputs",
          ("methods/symmetric", "methods/printed/ge_2019", "theory/symmetric", "studies/ge"), "symmetric-inputs"),
    Paper(r"Awasthi",
          "Awasthi, Tang and Vijayaraghavan (2021), Efficient algorithms for learning depth-2 networks with general ReLU",
          ("methods/general_relu", "methods/printed/awasthi",
           "assembly/unit_scalars", "theory/relu", "studies/awasthi"), "general-relu"),
    Paper(r"Goel|Panigrahy",
          "Goel and Panigrahy (2019), Recovering the lowest layer of deep networks with high threshold activations",
          ("lowest_layer", "planted/high_thresholds", "theory/high_threshold_forms", "studies/high_threshold", "studies/printed",
           "studies/deeper", "studies/angle"),
          "high-threshold"))

KINDS = ("Algorithm", "Theorem", "Lemma", "Claim", "Corollary", "Proposition", "Definition", "Assumption", "Property", "Figure",
         "Footnote", "Remark", "Fact", "Appendix", "Equation", "Procedure")
NUMBER = r"[A-Z]?\.?\d+(?:\.\d+)*(?:\([a-z0-9]\))?|[A-Z]\b(?!\.)"
NAMES = "|".join((*KINDS[:-2], "Properties", "Corollaries"))
ITEM = re.compile(rf"\b({NAMES})s?\s+((?:{NUMBER})(?:(?:\s*,\s*|\s+(?:and|to|or)\s+|-)(?:{NUMBER}))*)", re.IGNORECASE)
EQUATION = re.compile(r"\bequations?\s+((?:(?:,\s*|\s+and\s+)?\([A-Z\d.]+\))+)", re.IGNORECASE)
PROCEDURES = {
    "PowerMethod": "tensor-init", "KCL": "tensor-init", "RecMagSign": "tensor-init", "RecoverScalars": "general-relu",
    "FixSigns": "general-relu", "RefineEstimate": "high-threshold"}
"""Named parts of algorithms, and the page of their paper."""

PROCEDURE = re.compile(rf"\b({'|'.join(PROCEDURES)})\b", re.IGNORECASE)
LITERAL = re.compile(r"as printed|[Ll]iteral|the paper's own")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


class Entry(NamedTuple):
    """A docstring that names items: file, name of the object ("" for the file itself), text, names by which tests reach it."""

    file: str
    name: str
    text: str
    words: frozenset[str]

    @property
    def where(self) -> str:
        dotted = self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"`{dotted}.{self.name}`" if self.name else f"`{dotted}`"

    @property
    def literal(self) -> bool:
        return "printed" in self.file or bool(LITERAL.search(self.text))


def entries() -> Iterator[Entry]:
    """Docstrings of modules, public classes with their public methods, and public functions."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}
    homes = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, DEFINITIONS))
    for file, tree in trees.items():
        path = file.relative_to(SOURCE).as_posix()
        public = [node for node in tree.body if isinstance(node, DEFINITIONS) and not node.name.startswith("_")]
        names = frozenset(node.name for node in public if homes[node.name] == 1)
        yield Entry(path, "", _text(tree), names)
        for name, text in described(tree):
            yield Entry(path, name, text, names | {name})
        for node in public:
            yield Entry(path, node.name, _text(node), frozenset({node.name}))
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield Entry(path, f"{node.name}.{inner.name}", _text(inner), frozenset({node.name}))


def described(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Studies of a module, and the strings below them."""
    for node, below in pairwise(tree.body):
        is_study = isinstance(node, ast.Assign) and getattr(getattr(node.value, "func", None), "id", "") == "Study"
        if is_study and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield node.targets[0].id, _plain(below.value.value)


def named_in_tests() -> dict[Paper, dict[str, list[str]]]:
    """Paper -> item -> files of tests whose docstrings name both."""
    found: dict[Paper, dict[str, list[str]]] = {paper: defaultdict(list) for paper in PAPERS}
    for file in sorted(TESTS.rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        for node in nodes_of(file):
            if isinstance(node, (ast.Module, *DEFINITIONS)):
                for paper, item in _named(Entry(name, "", _text(node), frozenset())):
                    found[paper][item] = list(dict.fromkeys([*found[paper][item], name]))
    return found


def _named(entry: Entry) -> Iterator[tuple[Paper, str]]:
    """The items that a docstring names, each with its paper."""
    for place, item in items(entry.text):
        page = PROCEDURES.get(item.removeprefix("Procedure "))
        own = next((paper for paper in PAPERS if paper.page == page), None)
        paper = own or paper_of(entry, entry.text[:place], entry.text[place:])
        if paper is not None:
            yield paper, item


def _text(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return _plain(ast.get_docstring(node) or "")


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("et al. ", "et al ")


def paper_of(entry: Entry, before: str, after: str) -> Paper | None:
    """Of "Lemma 1 of Ge et al." that one; else what the sentence named last before, the room, what was named last before."""
    file = entry.file.removeprefix("tests/")
    room = next((paper for paper in PAPERS if any(file.startswith(room) for room in paper.rooms)), None)
    following = re.match(r"[-\w.,() ]{0,30}? of ([^:;.]{0,40})", after)
    named = _last_named(following.group(1)) if following else None
    return named or _last_named(re.split(r"\. ", before)[-1]) or room or _last_named(before)


def _last_named(text: str) -> Paper | None:
    named = [(match.start(), i) for i, paper in enumerate(PAPERS) for match in re.finditer(paper.names, text)]
    return PAPERS[max(named)[1]] if named else None


def items(text: str) -> Iterator[tuple[int, str]]:
    """Items that a text names, each with its place: "Lemmas 6, 7" are two."""
    for match in ITEM.finditer(text):
        kind = re.sub("ies$", "y", match.group(1).capitalize())
        for number in re.findall(NUMBER, _spelled_out(match.group(2))):
            yield match.start(), f"{kind} {number}"
    for match in EQUATION.finditer(text):
        for number in re.findall(r"\(([A-Z\d.]+)\)", match.group(1)):
            yield match.start(), f"Equation {number}"
    spelled = {name.lower(): name for name in PROCEDURES}
    for match in PROCEDURE.finditer(text):
        yield match.start(), f"Procedure {spelled[match.group(1).lower()]}"


def _spelled_out(numbers: str) -> str:
    """"1 to 4" and "1-4" as "1, 2, 3, 4", "3.1-3.3" as "3.1, 3.2, 3.3"."""
    def between(match: re.Match[str]) -> str:
        before, first, last = match.group(1), int(match.group(2)), int(match.group(3))
        return ", ".join(f"{before}{n}" for n in range(first, last + 1)) if first < last < first + 20 else match.group(0)

    return re.sub(r"(?<![.\w])((?:\d+\.)?)(\d+)\s*(?:-|to)\s*\1(\d+)(?![.\w(])", between, numbers)


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def used_names(file: Path) -> frozenset[str]:
    """Names that a test file imports from laybare, or takes from what it imports."""
    nodes = nodes_of(file)
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names if (getattr(node, "module", None) or alias.name).startswith("laybare")}
    taken = {
        node.attr for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported}
    return frozenset(imported | taken)


def tests_of(some: list[Entry], used: dict[str, frozenset[str]], named: list[str]) -> list[str]:
    """Test files that name the item, then those that use one of the objects, of their rooms first; no more than three."""
    words, rooms = frozenset().union(*(entry.words for entry in some)), {entry.file.split("/")[0] for entry in some}
    found = [name for name, names in used.items() if names & words]
    others = sorted(found, key=lambda name: (name.split("/")[1] not in rooms, name))
    return list(dict.fromkeys([*named, *others]))[:3]


def commands() -> dict[str, dict[str, str]]:
    """File of studies -> name of a study in it -> the command that runs it."""
    return {
        f"studies/{file.name}": {
            constant: f"`laybare reproduce {name}`"
            for constant, name in re.findall(r'(?m)^(\w+) = Study\(\s*"([\w-]+)"', file.read_text(encoding="utf-8"))}
        for file in sorted((SOURCE / "studies").glob("*.py"))}


def commands_of(some: list[Entry], studies: dict[str, dict[str, str]]) -> list[str]:
    """Commands of the studies that name the item; of all in the files that do if no study does."""
    own = [studies[e.file][e.name] for e in some if e.name in studies.get(e.file, {})]
    return own or [command for e in some for command in studies.get(e.file, {}).values()]


def literal_commands() -> dict[Paper, dict[str, list[str]]]:
    """Paper -> item -> commands, from the lines "`command`  paper, items" in the docstring of the literal forms."""
    found: dict[Paper, dict[str, list[str]]] = {paper: defaultdict(list) for paper in PAPERS}
    lines = (ast.get_docstring(ast.parse(FORMS.read_text(encoding="utf-8"))) or "").splitlines()
    for command, source in (match.groups() for line in lines if (match := re.match(r"\s*(`laybare [^`]*`)\s+(.*)", line))):
        for paper, item in _named(Entry(FORMS.name, "", source.replace("et al. ", "et al "), frozenset())):
            found[paper][item].append(command)
    return found


def page() -> str:
    """The whole page."""
    used = {p.relative_to(ROOT).as_posix(): used_names(p) for p in sorted(TESTS.rglob("test_*.py"))}
    table: dict[Paper, dict[str, list[Entry]]] = {paper: defaultdict(list) for paper in PAPERS}
    for entry in entries():
        for paper, item in _named(entry):
            if entry not in table[paper][item]:
                table[paper][item].append(entry)
    named, literally, studies = named_in_tests(), literal_commands(), commands()

    def row(paper: Paper, item: str) -> str:
        some = table[paper].get(item, [])
        literal, other = (", ".join(e.where for e in some if e.literal is wanted) for wanted in (True, False))
        asked = [*literally[paper].get(item, []), *commands_of(some, studies)]
        tests = ", ".join(f"`{name}`" for name in tests_of(some, used, named[paper].get(item, [])))
        return f"| {item} | {literal} | {other} | {tests} | {', '.join(dict.fromkeys(asked))} |"

    return HEAD + "\n".join(
        _section(paper, [row(paper, item) for item in sorted({*table[paper], *named[paper]}, key=_order)]) for paper in PAPERS)


def _section(paper: Paper, rows: list[str]) -> str:
    lines = [f"## {paper.title}", "", f"See also [its page]({paper.page}.md).", "",
             "| item | as printed | stated, corrected or ours | tests | command |", "|---|---|---|---|---|"]
    aside = ", ".join(sorted({item for _, item in items(ASIDE[paper.page])}, key=_order))
    rest = f"Nothing to compute: {aside}. They serve proofs only, are quoted, or repeat what stands above."
    return "\n".join([*lines, *rows, "", rest]) + "\n"


def _order(item: str) -> tuple[int, list[tuple[int, str]]]:
    kind, number = item.split(" ", 1)
    return KINDS.index(kind), [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.()]", number) if part]


HEAD = """# The five papers, item by item

Where an algorithm, theorem or figure is in the code, as printed or otherwise, what tests it, and which command runs it. This
page is written by `python docs/paper_index.py` from the docstrings, and a test compares it with them. Names are within `laybare`.

"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
