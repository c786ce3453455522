"""One file a figure of a paper, or a worked case: settings -> table -> figure."""

from laybare.studies.ge import FIGURE_2, FIGURE_3, FIGURE_4
from laybare.studies.large_network import LARGE
from laybare.studies.random_start import OVERWIDE, RATIO
from laybare.studies.relu_error import ERROR
from laybare.studies.relu_factorial import FACTORIAL
from laybare.studies.relu_phase import PHASE
from laybare.studies.study import Outcome, Settings, Study
from laybare.studies.zhong import FIGURE_1A

STUDIES: dict[str, Study] = {
    study.name: study for study in (
        OVERWIDE, RATIO, LARGE, FIGURE_1A, FIGURE_2, FIGURE_3, FIGURE_4, ERROR, FACTORIAL, PHASE)}

__all__ = ["STUDIES", "Outcome", "Settings", "Study"]
