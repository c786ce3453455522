"""Descent on a designed objective, after Ge, Lee and Ma (2018)."""

from laybare.methods.landscape_design.method import LandscapeDesign

__all__ = ["LandscapeDesign"]
