"""The numbered items of the five papers: those that the index must have, and those that have nothing to compute.

Named by the page of the paper. `ITEMS` are algorithms, theorems, figures, and whatever else is computed, corrected or run
somewhere. `ASIDE` are lemmas that only serve a proof, results that are quoted from elsewhere, restatements, remarks and drawings:
they are listed under the table. Together they are all that the papers number (`tests/test_papers.py` counts), but for equations,
of which those are here that are used or corrected by their number.
"""

from __future__ import annotations

ITEMS = {
    "tensor-init": """Algorithms 1 and 2; Theorems 3.5, 4.2, 4.4, 5.6, 6.1; Claims 5.2, 5.5; Definitions 4.1, 5.1, 5.4;
        Assumptions 5.3, 5.3(1); Properties 3.1-3.3; Figures 1(a), 1(b), 1(c); equation (3); PowerMethod, KCL, RecMagSign""",
    "landscape-design": """Algorithms 1 and 2; Theorems 2.1, 2.2, 2.3, 2.6, 2.7, A.4, A.5, A.6, B.1, C.1, C.2, C.4, C.5;
        Lemmas 2.5, A.8, A.9, C.6, C.7, D.2; Claims 3.1, A.2, A.3, D.1; Corollaries 2.4, C.3; Propositions B.6, B.7; Figures 1-4;
        Footnotes 4, 11; Appendix F; equations (2.2), (2.5), (2.6), (2.7), (2.8), (2.9), (2.10), (3.5), (4.1), (A.6), (C.1),
        (C.4), (C.5)""",
    "symmetric-inputs": """Algorithms 1-4; Theorems 1 to 10; Lemmas 1 to 11, 14, 15, 19; Corollary 1; Definition 1; Figures 2-4;
        equations (11), (18)""",
    "general-relu": """Algorithms 1-6; Theorems 3.1, 3.2, 4.2, A.5, D.1; Lemmas 3.5, 4.3, 4.5, D.3, D.4, D.10, D.11, D.12;
        Claims 4.4, 4.6, 4.8, A.4, D.5, D.6, D.8, D.14; Corollary 3.3; Proposition B.1; equation (49); RecoverScalars,
        FixSigns""",
    "high-threshold": """Algorithms 1-3; Theorems 1 to 13; Lemmas 1 to 13, 16 to 23; Claims 1-5; Corollaries 1, 2; Definition 1;
        Assumptions 1 to 4; Remark 1; Appendix B.4, Appendix B.6, Appendix B.7, Appendix B.8, Appendix C, Appendix D.1,
        Appendix D.2, Appendix D.3, Appendix E; RefineEstimate""",
}

ASIDE = {
    "tensor-init": "Remarks 3.4, 4.3",
    "landscape-design": """Theorems C.9, E.1, E.3; Lemmas A.7, B.2, B.3, B.4, B.5, E.2, E.5; Claims A.1, C.8; Corollary E.4""",
    "symmetric-inputs": "Lemmas 12, 13, 16, 17, 18, 20 to 38; Claims 1-3; Definitions 2, 3; Figures 1, 5",
    "general-relu": "Lemmas D.7, D.9, D.13; Claim D.2; Definitions A.1, A.2; Facts 4.7, A.3",
    "high-threshold": "Lemmas 14, 15; Facts 0 to 7",
}
