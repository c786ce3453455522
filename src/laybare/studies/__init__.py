"""One file a figure of a paper, or a worked case: settings -> table -> figure."""

from laybare.studies.deeper_cut import DEEPER_CUT
from laybare.studies.high_threshold import ACTIVATION_PROBABILITY, LAYER_ERROR
from laybare.studies.large_network import LARGE
from laybare.studies.printed_high_threshold import LAYER_STARTS, TAN_ALPHA
from laybare.studies.random_start import OVERWIDE, RATIO
from laybare.studies.study import Outcome, Settings, Study
from laybare.studies.zhong import FIGURE_1A

STUDIES: dict[str, Study] = {study.name: study for study in (
    OVERWIDE, RATIO, LARGE, FIGURE_1A, LAYER_ERROR, ACTIVATION_PROBABILITY, TAN_ALPHA, LAYER_STARTS, DEEPER_CUT)}

__all__ = ["STUDIES", "Outcome", "Settings", "Study"]
