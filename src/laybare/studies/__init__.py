"""One file a figure of a paper, or a worked case: settings -> table -> figure."""

from laybare.studies.ge import FIGURE_2, FIGURE_3, FIGURE_4
from laybare.studies.large_network import LARGE
from laybare.studies.random_start import OVERWIDE, RATIO
from laybare.studies.study import Outcome, Settings, Study
from laybare.studies.zhong import FIGURE_1A
from laybare.studies.zhong_descent import FIGURE_1C
from laybare.studies.zhong_start import FIGURE_1B

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        OVERWIDE, RATIO, LARGE,
        FIGURE_1A, FIGURE_1B, FIGURE_1C,
        FIGURE_2, FIGURE_3, FIGURE_4,
    )
}

__all__ = ["STUDIES", "Outcome", "Settings", "Study"]
