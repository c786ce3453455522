"""A file for every figure of a paper, or worked case: settings -> table -> figure."""

from typing import Any

from laybare.studies.angle_search import TAN_ALPHA
from laybare.studies.choosing import CHOOSE
from laybare.studies.coverage import COVERAGE
from laybare.studies.decomposition_noise import DECOMPOSITION_NOISE
from laybare.studies.deep import DEEP, DEEP_LARGE
from laybare.studies.deep_cases import DEEP_CASES
from laybare.studies.deep_trained import DEEP_TRAINED
from laybare.studies.deeper_cut import DEEPER_CUT
from laybare.studies.designed import F_PRIME, G_AND_F
from laybare.studies.fuzzing import FUZZ
from laybare.studies.ge import FIGURE_2, FIGURE_3, FIGURE_4
from laybare.studies.high_threshold import ACTIVATION_PROBABILITY, LAYER_ERROR
from laybare.studies.hostile import HOSTILE, PLAIN_NOISE
from laybare.studies.large_network import LARGE
from laybare.studies.lines import LINES
from laybare.studies.printed_high_threshold import LAYER_STARTS
from laybare.studies.printed_theorems import THEOREM_8, THEOREM_9
from laybare.studies.printed_units import GENERAL_DEGREE, THEOREM_13
from laybare.studies.random_start import OVERWIDE, RATIO
from laybare.studies.relu_error import ERROR
from laybare.studies.relu_factorial import FACTORIAL
from laybare.studies.relu_phase import PHASE
from laybare.studies.sample_complexity import SAMPLE_COMPLEXITY
from laybare.studies.scaling import SCALING
from laybare.studies.smoothed import SMOOTHED
from laybare.studies.spurious import APPENDIX_F
from laybare.studies.squared_loss import RELU_LOSS, SIGMOID_LOSS
from laybare.studies.study import Settings, Study, StudyResult
from laybare.studies.zhong import FIGURE_1A
from laybare.studies.zhong_descent import FIGURE_1C
from laybare.studies.zhong_start import FIGURE_1B

STUDIES: dict[str, Study[Any, Any]] = {
    study.name: study
    for study in (
        OVERWIDE, RATIO, LARGE, LINES, SCALING, SAMPLE_COMPLEXITY,
        FIGURE_1A, FIGURE_1B, FIGURE_1C,
        RELU_LOSS, SIGMOID_LOSS, F_PRIME, G_AND_F, APPENDIX_F,
        FIGURE_2, FIGURE_3, FIGURE_4,
        ERROR, FACTORIAL, PHASE,
        LAYER_ERROR, ACTIVATION_PROBABILITY, TAN_ALPHA, LAYER_STARTS, DEEPER_CUT,
        THEOREM_8, THEOREM_9, THEOREM_13, GENERAL_DEGREE,
        SMOOTHED, DECOMPOSITION_NOISE, HOSTILE, PLAIN_NOISE, COVERAGE, CHOOSE, FUZZ, DEEP, DEEP_LARGE, DEEP_CASES, DEEP_TRAINED,
    )
}

PAPERS = (
    "zhong-fig1a", "zhong-fig1b", "zhong-fig1c",
    "glm-fig1", "glm-fig2", "glm-fig3", "glm-fig4", "glm-appendix-f",
    "ge19-fig2", "ge19-fig3", "ge19-fig4",
    "relu-error", "relu-factorial", "relu-phase",
    "layer-error", "activation-probability", "tan-alpha", "layer-starts", "deeper-cut",
    "gp19-theorem8", "gp19-theorem9", "gp19-theorem13", "gp19-powers",
    "smoothed-analysis", "decomposition-noise",
)
"""Studies of the five papers: their figures, and their theorems where there is something to run."""

__all__ = ["PAPERS", "STUDIES", "StudyResult", "Settings", "Study"]
