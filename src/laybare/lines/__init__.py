"""A black box read by lines: kinks, pieces, jumps, and the network behind them at about one query per parameter.

    ask -> Purse                     counts, keeps, stays inside the budget and the box
    Purse -> FirstLook               piecewise linear? how exact are the answers?
    Line -> Bends                    all kinks of a line, and the straight pieces between them
    Bends -> Gradients -> LineUnits      dim queries a piece; the jump between two of them is a unit
    LineUnits -> Book                    predicts further lines; what it does not predict is a unit that is missing
    Book -> PolishResult -> Network      Gauss-Newton on all answers; signs and activation

Nothing before the book assumes that there is one layer only.
"""

from laybare.lines.asking import Answers, Ask, AskBox, Purse
from laybare.lines.book import Book, LineUnits
from laybare.lines.borders import Rays
from laybare.lines.found import LinesFound, Reader, read_network
from laybare.lines.gradients import Gradients, read_gradients
from laybare.lines.kinks import Bends, Kink, find_kinks
from laybare.lines.line import Line, line_through, random_line
from laybare.lines.polishing import PolishResult, polish
from laybare.lines.recognise import FirstLook, first_look
from laybare.lines.search import Patience, Reading, read_lines
from laybare.lines.straight import LinePoints, Straight

__all__ = [
    "Answers", "Ask", "AskBox", "Purse", "Line", "line_through", "random_line", "Straight", "LinePoints",
    "FirstLook", "first_look", "Bends", "Kink", "find_kinks", "Rays", "Gradients", "read_gradients", "Book", "LineUnits",
    "Patience", "Reading", "read_lines", "PolishResult", "polish", "Reader", "LinesFound", "read_network"]
