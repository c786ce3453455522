"""The paper's own algorithms and identities, corrected where the print is wrong; for study and comparison.

    hermite_objective, one_by_one, simultaneous   objectives on second and fourth moments (section 2, appendix B.4)
    refine_estimate                               random search by the angle to a unit (Algorithms 1 and 2)
    correlations                                  delta, delta', delta'' (section 3, appendix C)
    even_units, shifted_objective                 Theorems 9 and 8 (section 4; Theorem 7 is `cliques`, a default)
    biased, composed, product_bounds              appendices B.7, B.8 and Lemma 1
"""
