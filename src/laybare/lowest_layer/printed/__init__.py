"""The paper's own algorithms, corrected where the print is wrong; `HighThreshold.literal` runs them.

    route                                         which of them for which units
    span, hermite_objective                       second and fourth moments along a direction, in the span of the units
    one_by_one, simultaneous                      the objectives on them (section 2, appendix B.4)
    random_search                                 random search by the angle to a unit (Algorithms 1 and 2)
    delta_correlations                            delta, delta', delta'' (section 3, appendix C)
    even_units, biased_oracle                     Theorem 9; rows retained in proportion to f (appendix B.7)

Closed forms (Lemma 1, Theorems 7 to 9, appendix B.8) are in `laybare.theory`; Algorithm 3 is in `cliques`, beside its default.
"""
