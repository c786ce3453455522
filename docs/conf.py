"""Sphinx: pages in Markdown (MyST), docstrings in numpydoc."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import isfunction
from typing import Any

import laybare

project = "laybare"
author = "The laybare developers"
copyright = "2026, The laybare developers"
release = version = laybare.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
html_math_renderer = "mathml"  # formulas are MathML in the page itself: no script, nothing fetched
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "peers-measured.md", "pipelines-measured.md", "zoo-measured.md"]


def own_members(module: str, name: str) -> list[str]:
    """Public methods and properties of a class; fields are described in its docstring."""
    members = vars(getattr(import_module(module), name)).items()
    return [key for key, value in members if not key.startswith("_") and (isfunction(value) or isinstance(value, MEMBERS))]


MEMBERS = (property, classmethod, staticmethod)
autosummary_generate = True
autosummary_context = {"own_members": own_members}
suppress_warnings = ["config.cache"]  # own_members is a function: Sphinx cannot cache it, and need not
autodoc_typehints = "none"  # numpydoc sections say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

default_role = "code"  # `x` in a docstring is code


def formulas_as_text(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """|w| and x_ in docstrings are formulas, not the markup that they would be in reStructuredText."""
    for number, line in enumerate(lines):
        spoken = re.split(r"(`+[^`]*`+_*)", line)  # code between backticks stays as it is
        spoken[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", words) for words in spoken[::2]]
        lines[number] = "".join(spoken)


def notes_after_parameters(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Sentences that follow the list of parameters are notes; numpydoc would take them for one more parameter."""
    begun = next((i for i, line in enumerate(lines) if line.strip() in ("Parameters", "Attributes")), None)
    for i in range(len(lines) if begun is None else begun + 2, len(lines) - 1):
        following = lines[i + 1]
        if lines[i].strip() == "" and following[:1].strip() and not re.match(r"[*\w, ]+ : ", following) and (
                i + 2 >= len(lines) or not lines[i + 2].startswith("---")):
            lines[i + 1 : i + 1] = ["Notes", "-----"]
            return


def inline_formula(self: Any, node: Any) -> None:
    """A formula in a line of text."""
    from docutils import nodes
    from latex2mathml.converter import convert

    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def display_formula(self: Any, node: Any) -> None:
    """A formula on a line of its own."""
    from docutils import nodes
    from latex2mathml.converter import convert

    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline_formula, None), (display_formula, None))
    app.connect("autodoc-process-docstring", notes_after_parameters, priority=100)  # before numpydoc
    app.connect("autodoc-process-docstring", formulas_as_text, priority=900)  # after numpydoc


html_theme = "furo"
html_title = f"laybare {release}"
html_static_path, html_css_files = ["_static"], ["laybare.css"]
html_copy_source = False
