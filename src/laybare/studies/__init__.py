"""Studies that anybody can run again: figures of the papers, theorems where there is something to run, and worked cases."""

from typing import Any

from laybare.studies.automatic import CHOOSE, FIVE, FUZZ
from laybare.studies.awasthi import ERROR, FACTORIAL, PHASE
from laybare.studies.black_boxes import DEEP, DEEP_CASES, DEEP_LARGE, DEEP_TRAINED, DEEP_WIDE, DEFENCES, LINES
from laybare.studies.caution import CAUTION, COVERAGE, SAME_DATA
from laybare.studies.certificates import HOSTILE, HOSTILE_BOXES, HOSTILE_SAMPLES, PLAIN_NOISE
from laybare.studies.few_samples import NEAR_LIMIT, PHASE_DIAGRAM
from laybare.studies.ge import FIGURE_2, FIGURE_3, FIGURE_4
from laybare.studies.glm_designed import APPENDIX_F, F_PRIME, G_AND_F
from laybare.studies.glm_squared_loss import RELU_LOSS, SIGMOID_LOSS
from laybare.studies.goel_layers import ACTIVATION_PROBABILITY, DEEPER_CUT, LAYER_ERROR, LAYER_STARTS, TAN_ALPHA
from laybare.studies.goel_theorems import GENERAL_DEGREE, THEOREM_8, THEOREM_9, THEOREM_13
from laybare.studies.hinges import HINGES
from laybare.studies.perturbations import DECOMPOSITION_NOISE, SMOOTHED
from laybare.studies.real_data import LIKELIHOODS, REAL_DATA
from laybare.studies.sample_complexity import SAMPLE_COMPLEXITY
from laybare.studies.scaling import LARGE, OVERWIDE, RATIO, SCALING
from laybare.studies.study import Settings, Study, StudyResult
from laybare.studies.zhong import FIGURE_1A, FIGURE_1B, FIGURE_1C

_OF_PAPERS: tuple[Study[Any], ...] = (
    FIGURE_1A, FIGURE_1B, FIGURE_1C,
    RELU_LOSS, SIGMOID_LOSS, F_PRIME, G_AND_F, APPENDIX_F,
    FIGURE_2, FIGURE_3, FIGURE_4,
    ERROR, FACTORIAL, PHASE,
    LAYER_ERROR, ACTIVATION_PROBABILITY, TAN_ALPHA, LAYER_STARTS, DEEPER_CUT,
    THEOREM_8, THEOREM_9, THEOREM_13, GENERAL_DEGREE,
    SMOOTHED, DECOMPOSITION_NOISE,
)

PAPERS = tuple(study.name for study in _OF_PAPERS)
"""Studies of the five papers: their figures, and their theorems where there is something to run."""

_ALL: tuple[Study[Any], ...] = (
    OVERWIDE, RATIO, LARGE, LINES, SCALING, SAMPLE_COMPLEXITY, PHASE_DIAGRAM, NEAR_LIMIT, FIVE, *_OF_PAPERS,
    HOSTILE, HOSTILE_SAMPLES, HOSTILE_BOXES, PLAIN_NOISE, CAUTION, SAME_DATA, COVERAGE, HINGES, CHOOSE, FUZZ, DEEP, DEEP_LARGE,
    DEEP_CASES, DEEP_WIDE, DEEP_TRAINED, LIKELIHOODS, REAL_DATA, DEFENCES,
)

STUDIES = {study.name: study for study in _ALL}

__all__ = ["PAPERS", "STUDIES", "StudyResult", "Settings", "Study"]
