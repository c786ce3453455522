"""The first look at a black box: what it is and what to do about it, within its first queries.

    oracle  ->  rounding and noise  ->  shape at a few places  ->  kinks followed | tails | borders  ->  Insight
"""

from laybare.insight.findings import Finding, Insight
from laybare.insight.look import first_look

__all__ = ["Finding", "Insight", "first_look"]
