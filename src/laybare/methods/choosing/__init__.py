"""Which method suits the data: evidence -> what each method needs -> an order to try them in, with a sentence for each."""

from laybare.methods.choosing.evidence import Evidence, gather_evidence
from laybare.methods.choosing.ranking import Candidate, Choice, choose
from laybare.methods.choosing.suitability import Condition, Suitability, suitabilities

__all__ = ["Candidate", "Choice", "Condition", "Evidence", "Suitability", "choose", "gather_evidence", "suitabilities"]
