"""Write docs/papers.md: item by item, where an algorithm, theorem or figure of the five papers is in the code.

    python docs/paper_index.py

Docstrings are the markers. A docstring that names a paper ("Source: Zhong et al. (2017), Algorithm 1"), or stands in a room that
is after one paper alone, is an entry for every item that it names. Tests are those that import the object; commands are the
studies whose module names the item. A test compares the page with what this file writes.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE, TESTS, PAGE = ROOT / "src" / "laybare", ROOT / "tests", ROOT / "docs" / "papers.md"


class Paper(NamedTuple):
    """How docstrings call it, its title, the rooms that follow it alone, and its page."""

    names: str
    title: str
    rooms: tuple[str, ...]
    page: str


PAPERS = (
    Paper(r"Zhong",
          "Zhong, Song, Jain, Bartlett and Dhillon (2017), Recovery guarantees for one-hidden-layer neural networks",
          ("methods/tensor_init", "theory", "studies/zhong"), "tensor-init"),
    Paper(r"Ge, Lee (?:&|and) Ma|Ge-Lee-Ma",
          "Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design",
          ("methods/landscape_design", "landscape", "studies/squared_loss", "studies/designed", "studies/spurious"),
          "landscape-design"),
    Paper(r"Ge et al \(2019\)|Kuditipudi",
          "Ge, Kuditipudi, Li and Wang (2019), Learning two-layer neural networks with symmetric inputs",
          ("methods/symmetric_inputs", "studies/ge"), "symmetric-inputs"),
    Paper(r"Awasthi",
          "Awasthi, Tang and Vijayaraghavan (2021), Efficient algorithms for learning depth-2 networks with general ReLU",
          ("methods/general_relu", "assembly/relu_scalars", "studies/relu"), "general-relu"),
    Paper(r"Goel|Panigrahy",
          "Goel and Panigrahy (2019), Recovering the lowest layer of deep networks with high threshold activations",
          ("lowest_layer", "planted/high_thresholds", "studies/high_threshold", "studies/printed_high", "studies/deeper"),
          "high-threshold"))

KINDS = ("Algorithm", "Theorem", "Lemma", "Claim", "Corollary", "Proposition", "Definition", "Property", "Figure", "Appendix")
NUMBER = r"[A-Z]?\.?\d+(?:\.\d+)*(?:\([a-z0-9]\))?|[A-Z]\b(?!\.)"
ITEM = re.compile(rf"\b({'|'.join(KINDS)})s?\s+((?:{NUMBER})(?:(?:\s*,\s*|\s+(?:and|to|or)\s+|-)(?:{NUMBER}))*)", re.IGNORECASE)
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
        yield Entry(path, "", _text(tree), frozenset(node.name for node in public if homes[node.name] == 1))
        for node in public:
            yield Entry(path, node.name, _text(node), frozenset({node.name}))
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield Entry(path, f"{node.name}.{inner.name}", _text(inner), frozenset({node.name}))


def _text(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return re.sub(r"\s+", " ", ast.get_docstring(node) or "").replace("et al. ", "et al ")


def paper_of(entry: Entry, before: str, after: str) -> Paper | None:
    """Of "Lemma 1 of Ge et al." that one; else what the sentence named last before, the room, what was named last before."""
    room = next((paper for paper in PAPERS if any(entry.file.startswith(room) for room in paper.rooms)), None)
    following = re.match(r"[\w.,() ]{0,30}? of ([^:;.]{0,40})", after)
    named = _last_named(following.group(1)) if following else None
    return named or _last_named(re.split(r"\. ", before)[-1]) or room or _last_named(before)


def _last_named(text: str) -> Paper | None:
    named = [(match.start(), i) for i, paper in enumerate(PAPERS) for match in re.finditer(paper.names, text)]
    return PAPERS[max(named)[1]] if named else None


def items(text: str) -> Iterator[tuple[int, str]]:
    """Items that a text names, each with its place: "Lemmas 6, 7" are two."""
    for match in ITEM.finditer(text):
        kind = match.group(1).capitalize()
        for number in re.findall(NUMBER, _spelled_out(match.group(2))):
            yield match.start(), f"{kind} {number}"


def _spelled_out(numbers: str) -> str:
    """"1 to 4" and "1-4" as "1, 2, 3, 4"."""
    def between(match: re.Match[str]) -> str:
        first, last = int(match.group(1)), int(match.group(2))
        return ", ".join(map(str, range(first, last + 1))) if first < last < first + 20 else match.group(0)

    return re.sub(r"(?<![.\w])(\d+)\s*(?:-|to)\s*(\d+)(?![.\w(])", between, numbers)


def used_names(text: str) -> frozenset[str]:
    """Names that a test file imports from laybare, or takes from what it imports."""
    nodes = list(ast.walk(ast.parse(text)))
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names if (getattr(node, "module", None) or alias.name).startswith("laybare")}
    taken = {
        node.attr for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported}
    return frozenset(imported | taken)


def tests_of(some: list[Entry], used: dict[str, frozenset[str]]) -> list[str]:
    """Test files that use one of the objects, those of their rooms first; no more than three."""
    words, rooms = frozenset().union(*(entry.words for entry in some)), {entry.file.split("/")[0] for entry in some}
    found = [name for name, names in used.items() if names & words]
    return sorted(found, key=lambda name: (name.split("/")[1] not in rooms, name))[:3]


def commands() -> dict[str, list[str]]:
    """File of a study -> the names that `laybare reproduce` knows."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((SOURCE / "studies").glob("*.py")):
        for name in re.findall(r'= Study\(\s*"([\w-]+)"', file.read_text(encoding="utf-8")):
            found[f"studies/{file.name}"].append(name)
    return found


def page() -> str:
    """The whole page."""
    used = {p.relative_to(ROOT).as_posix(): used_names(p.read_text(encoding="utf-8")) for p in sorted(TESTS.rglob("test_*.py"))}
    table: dict[Paper, dict[str, list[Entry]]] = {paper: defaultdict(list) for paper in PAPERS}
    for entry in entries():
        for place, item in items(entry.text):
            paper = paper_of(entry, entry.text[:place], entry.text[place:])
            if paper is not None and entry not in table[paper][item]:
                table[paper][item].append(entry)
    return HEAD + "\n".join(_section(paper, table[paper], used) for paper in PAPERS)


def _section(paper: Paper, found: dict[str, list[Entry]], used: dict[str, frozenset[str]]) -> str:
    studies = commands()
    lines = [f"## {paper.title}", "", f"See also [its page]({paper.page}.md).", "",
             "| item | as printed | stated, corrected or ours | tests | command |", "|---|---|---|---|---|"]
    for item in sorted(found, key=_order):
        some = found[item]
        literal, other = (", ".join(e.where for e in some if e.literal is wanted) for wanted in (True, False))
        asked = ", ".join(dict.fromkeys(f"`laybare reproduce {name}`" for e in some for name in studies.get(e.file, [])))
        tests = ", ".join(f"`{name}`" for name in tests_of(some, used))
        lines.append(f"| {item} | {literal} | {other} | {tests} | {asked} |")
    return "\n".join(lines) + "\n"


def _order(item: str) -> tuple[int, list[tuple[int, str]]]:
    kind, number = item.split(" ", 1)
    return KINDS.index(kind), [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.()]", number) if part]


HEAD = """# The five papers, item by item

Where an algorithm, theorem or figure is in the code, as printed or otherwise, what tests it, and which command runs it. This
page is written by `python docs/paper_index.py` from the docstrings, and a test compares it with them. Names are within `laybare`.

"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
