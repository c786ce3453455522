"""One file a figure of a paper, or a worked case: settings -> table -> figure."""

from laybare.studies.designed import FIGURE_3, FIGURE_4
from laybare.studies.large_network import LARGE
from laybare.studies.random_start import OVERWIDE, RATIO
from laybare.studies.spurious import APPENDIX_F
from laybare.studies.squared_loss import FIGURE_1, FIGURE_2
from laybare.studies.study import Outcome, Settings, Study
from laybare.studies.zhong import FIGURE_1A

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (OVERWIDE, RATIO, LARGE, FIGURE_1A, FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4, APPENDIX_F)}

__all__ = ["STUDIES", "Outcome", "Settings", "Study"]
