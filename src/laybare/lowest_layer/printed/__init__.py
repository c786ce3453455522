"""The paper's own algorithms, corrected where the print is wrong; `HighThreshold.literal` runs them.

    route        which of them for which units; Theorem 9 (even units); rows retained in proportion to f (appendix B.7)
    objectives   fourth moments in the span of the units: one unit at a time (section 2), all at once (appendix B.4)
    searches     random search by the angle to a unit (Algorithms 1 and 2)
    delta        delta, delta', delta'' without linear terms or high thresholds (section 3, appendix C)

Closed forms (Lemma 1, Theorems 7 to 9, appendix B.8) are in `laybare.theory`; Algorithm 3 is in `smooth_route`.
"""
