"""Descent on a designed objective, after Ge, Lee and Ma (2018)."""

from laybare.methods.landscape_design.method import LandscapeDesign
from laybare.methods.landscape_design.printed import PrintedDesign
from laybare.methods.landscape_design.routes import PolarRoute, TensorRoute, WhitenedRoute

__all__ = ["LandscapeDesign", "PolarRoute", "PrintedDesign", "TensorRoute", "WhitenedRoute"]
