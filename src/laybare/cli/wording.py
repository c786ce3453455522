"""Messages of the library in the words of the command line: `--target` where Python has `target=`; and as wide as a terminal.

Nothing is imported here that is not Python's own: a sentence about a failed import can be said.
"""

from __future__ import annotations

import re
import sys
from shutil import get_terminal_size
from textwrap import fill

METHODS = {
    "GeneralReLU": "--method general-relu", "LandscapeDesign": "--method landscape-design",
    "RandomStart": "--method random-start", "SymmetricInputs": "--method symmetric-inputs", "TensorInit": "--method tensor-init",
    "HighThreshold": "laybare recover-layer", "Lines": "laybare extract"}
OPTIONS = {"drop": "--drop-columns", "drop_missing": "--drop-missing", "rng": "--seed"}
NAMED = "inputs|target|loss|groups|width|activation|law|budget|link|box|dim|depth|method|log|drop_missing|drop|rng"

LAYER = r"\brecover_layer\((?:\w+, (?:lb\.)?HighThreshold\([^()]*\))?\)"


def in_command_line_words(message: str) -> str:
    """The same sentence for somebody who has options and no objects."""
    message = re.sub(r"\b(?:lb\.)?(Gaussian|Symmetric|Unknown)\(\)", lambda seen: f"--law {seen[1].lower()}", message)
    message = re.sub(r"\b(?:law=)?(?:lb\.)?Gaussian\(([\d.e+-]+), ([\d.e+-]+)\)", _law, message)
    message = re.sub(LAYER, "laybare recover-layer", message)
    message = re.sub(rf"\b(?:lb\.)?({'|'.join(METHODS)})\(([^()]*(?:\([^()]*\))?[^()]*)\)", _method, message)
    message = re.sub(r"\bsample_weight\b", "--weights", message)
    message = re.sub(rf"\b({NAMED})=(True|None|\.\.\.)?", _option, message)
    return re.sub(r"\blb\.(?=[a-z])", "", message)


def _law(seen: re.Match[str]) -> str:
    """Gaussian(0, 0.04) -> --law normal:0,0.2."""
    return f"--law normal:{seen[1]},{float(seen[2]) ** 0.5:g}"


def _option(seen: re.Match[str]) -> str:
    """target= -> --target; width=7 -> --width 7; drop_missing=True -> --drop-missing."""
    name = OPTIONS.get(seen[1], f"--{seen[1].replace('_', '-')}")
    follows = seen.string[seen.end() : seen.end() + 1]
    return name + (" " if seen[2] is None and (follows.isalnum() or follows in "'\"({[") and follows else "")


def _method(seen: re.Match[str]) -> str:
    """TensorInit(activation=tanh) -> --method tensor-init with activation=tanh."""
    return f"{METHODS[seen[1]]} with {seen[2]}" if seen[2] else METHODS[seen[1]]


def wrapped(text: str, width: int, indent: int = 0) -> str:
    """Lines of at most this number of characters, broken between words; what has no blank, such as a path, is left whole."""
    return "\n".join(
        line if len(line) <= width else fill(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n"))


def for_standard_error(sentence: str) -> str:
    """Wrapped if a terminal shows it; files and programs get one line."""
    return wrapped(sentence, get_terminal_size().columns) if sys.stderr.isatty() else sentence
