"""Recovery by another likelihood than equal normal noise: other losses, weights of rows, groups of rows."""

from laybare.likelihood.judged_recovery import JudgedFit, Judgement, judgement_of, random_start_of, recover_by_likelihood

__all__ = ["JudgedFit", "Judgement", "judgement_of", "random_start_of", "recover_by_likelihood"]
