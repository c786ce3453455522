"""The five papers, item by item: what the code does with each, where, and which commands run it. Written and checked by hand.

A line is "items | what | objects | commands", for one item or several; indented lines continue it. What: "printed" (as the
paper prints it, constants left open where it leaves them open), "printed: what is done otherwise", "corrected: the erratum", or
"not computed: why". Our copies are scans: where one may have lost a sign, a bracket or a fraction, the erratum says so. Objects
are names within `laybare`; commands are names of studies, or a method and a literal form ("layer FORM:UNITS" for
`recover-layer`). Together the lines are all that the papers number (`tests/test_papers.py` counts), but for equations, of which
those are here that are used or corrected by their number. `paper_index.py` makes the page of them; the tests call every
object's name, and trace which of them the literal form of a row runs.
"""

from __future__ import annotations

QUOTED = "not computed: quoted from elsewhere, where its proof is"
RESTATED = "not computed: states informally what a numbered statement below says"

ITEMS = {
    "tensor-init": """
Algorithm 1 | corrected: M₄ counts every pairing twice in print; PowerMethod and RecMagSign are reconstructed; α of P₃ is drawn
    inside the span | methods.printed.zhong_2017.PrintedMoments | tensor-init algorithm-1
Algorithm 2 | corrected: line 4 has q + 1 parts for T + 1; one part more is for the loss after the last step |
    methods.printed.zhong_2017.PrintedDescent | tensor-init algorithm-2
Theorem 3.5 | printed | activations.activation.Activation.properties |
Theorem 4.2 | printed | theory.local_convexity |
Theorem 4.4 | printed | theory.descent_rate |
Theorem 5.6 | printed | theory.start_accuracy |
Theorem 6.1 | printed | theory.global_recovery |
Claim 5.2 | printed | moments.population_moments |
Claim 5.5, Definition 5.4 | printed: α of P₃ is drawn inside the span | methods.tensor_init.informative_orders,
    methods.printed.zhong_2017.second_tensor |
Definition 4.1 | printed | theory.conditioning |
Definition 5.1 | corrected: M₄ counts every pairing twice | moments.second_moment, moments.third_slices, moments.fourth_slices |
Assumption 5.3 | corrected: odd means odd up to a constant | theory.moment_assumptions, theory.start_accuracy |
Assumption 5.3(1) | corrected: m_(j,i) for all i where the text has m_(i,i) | theory.start_accuracy |
Property 3.1 | corrected: it needs p ≥ 0 | activations.activation.Activation.properties |
Properties 3.2, 3.3 | printed | activations.activation.Activation.properties |
Remark 3.4 | not computed: words about the properties |  |
Remark 4.3 | corrected: ρ of the square is -4σ², not 0 | activations.activation.Activation.properties |
Figure 1(a) | printed: five of its ten dimensions and four of its ten sample sizes, all with `--full` |
    studies.zhong.FIGURE_1A | zhong-fig1a
Figure 1(b) | printed: five of its ten dimensions and four of its ten sample sizes, all with `--full` |
    studies.zhong.FIGURE_1B | zhong-fig1b
Figure 1(c) | printed | studies.zhong.FIGURE_1C | zhong-fig1c
equation (3) | printed | theory.expected_risk |
PowerMethod | corrected: reconstructed, the text leaves it to a full version | decomposition.shifted_power | tensor-init
    algorithm-1
KCL | printed: written after Kuleshov et al. (2015), whose own code the paper runs | decomposition.KCL | tensor-init algorithm-1
RecMagSign | corrected: reconstructed, the text leaves it to a full version | assembly.unit_scalars.rec_mag_sign | tensor-init
    algorithm-1""",
    "landscape-design": f"""
Algorithm 1 | printed | landscape.algorithm_1, methods.printed.ge_lee_ma_2018.PrintedDesign |
    landscape-design G
Algorithm 2 | printed: least squares where the text inverts | landscape.algorithm_2,
    methods.printed.ge_lee_ma_2018.PrintedDesign | landscape-design F
Theorems 2.1, A.4, Claim A.3 | printed | landscape.ReLURisk, landscape.series_risk | glm-fig1, glm-fig2
Theorem 2.2 | printed | landscape.population_tensor_risk, landscape.least_risk | glm-fig3
Theorem 2.3 | corrected: saddles have curvature at most -τ₀, item 2 has the other sign | landscape.theorem_2_3 |
    landscape-design G
Corollary 2.4 | printed | landscape.stochastic_descent | glm-fig4
Lemma 2.5 | corrected: √m δ a_max, its proof bounds a scalar product by δ a_max | landscape.algorithm_1 | landscape-design G
Claim D.1 | printed | landscape.algorithm_1 | landscape-design G
Theorem 2.6 | corrected: the constants of (2.10) are half as large | landscape.population_g | glm-fig4
Theorem 2.7 | printed | landscape.orthogonal_design | landscape-design G
Claim 3.1 | not computed: informal; the polynomials that are used are (2.8) and (2.9) |  |
Claim A.1, Lemma A.7 | not computed: generating functions of Hermite polynomials, used in proofs |  |
Claim A.2 | {QUOTED} | |
Theorems A.5, A.6 | corrected: half of the printed constants | landscape.population_g |
Lemma A.8 | printed | moments.quartic |
Lemma A.9 | corrected: √6 where the text has 2√6 | moments.quartic, landscape.population_g |
Theorem B.1 | corrected: β is abs(σ₄)a/(2√6) and α is √6 abs(σ₄)a, half of what the text sets | landscape.population_g,
    landscape.theorem_b_1, landscape.theorem_b_1_nearness | glm-fig4
Lemmas B.2, B.3, B.4, B.5 | not computed: bounds for one row of B with the others fixed, for the proof of Theorem B.1, whose own
    are computed | |
Proposition B.6 | not computed: a weaker form of Proposition B.7, by which that is proved | |
Proposition B.7 | corrected: by the constants of Theorem B.1, for which it holds, though its proof has μβ_min for β_min |
    landscape.theorem_b_1_nearness |
Theorem C.1 | not computed: slopes and curvatures under a linear map, used in proofs | |
Theorem C.2 | corrected: the regulariser of F is squared once | landscape.whitened_design, landscape.population_f | glm-fig4
Corollary C.3 | corrected: as Theorems C.2 and 2.3 | landscape.whitened_design, landscape.population_f | glm-fig4
Theorem C.4 | corrected: saddles have curvature at most -τ₀, item 2 has the other sign | landscape.theorem_c_4 |
    landscape-design F
Theorem C.5 | corrected: δ cannot be read in our copy and follows from Lemma C.7; the literal form takes F in the span of the
    units, where Theorem C.4 holds | landscape.theorem_c_5 |
Lemma C.6 | printed | landscape.general_design |
Lemma C.7 | printed | landscape.population_f |
Claim C.8 | not computed: for the proof of Lemma C.7; a test has its bound | |
Theorem C.9 | {QUOTED} | |
Lemma D.2 | printed | landscape.algorithm_2 | landscape-design F
Theorem E.1 | not computed: restates Theorem 2.7 | |
Theorem E.3 | {QUOTED} | |
Lemma E.2, Lemma E.5, Corollary E.4 | not computed: for the proof of Theorem 2.7, whose polynomial is not stated | |
Figure 1 | printed: the last steps are of 8e-8, below its 1e-9 with `--full` | studies.glm_squared_loss.RELU_LOSS | glm-fig1
Figure 2 | printed: the last steps are of 3e-7, below its 1e-9 with `--full` | studies.glm_squared_loss.SIGMOID_LOSS | glm-fig2
Figure 3 | printed: fewer steps, as the step is not stated | studies.glm_designed.F_PRIME | glm-fig3
Figure 4 | printed: 90 of its 80,000 steps, all with `--full` | studies.glm_designed.G_AND_F | glm-fig4
Footnote 4 | corrected: σ_n of ReLU alternates in sign | landscape.coefficient |
Footnote 11 | printed | studies.glm_designed.F_PRIME | glm-fig3
Appendix F | corrected: P' is 2 at the point, as (3.4) counts both orders of a pair, where the text has 1 |
    studies.glm_designed.APPENDIX_F | glm-appendix-f
equation (2.2) | printed | landscape.SampledRisk | glm-fig1
equation (2.5) | printed | methods.printed.ge_lee_ma_2018.PrintedRisk, landscape.SampledRisk | landscape-design f-prime,
    glm-fig3
equation (2.6) | printed | landscape.least_risk | glm-fig3
equation (2.7) | printed | landscape.orthogonal_design | landscape-design G
equation (2.8) | printed | moments.quartic | landscape-design G
equation (2.9) | corrected: the mixed term has a minus sign, as in (A.6) | moments.quartic | landscape-design G
equation (2.10) | corrected: half of the printed constants | landscape.population_g |
equation (3.5) | printed | landscape.pairs_on_spheres | glm-appendix-f
equation (4.1) | corrected: a maximum, the printed minimum is 0 if one unit was found k times |
    networks.matching.landscape_error | glm-fig3
equation (A.6) | printed | moments.quartic |
equation (C.1) | corrected: lacks a factor and a constant | landscape.NormPenalty, landscape.SampledPenalty | landscape-design F
equation (C.4) | corrected: WWᵀ is the inverse of M, in our copy M | landscape.whitening |
equation (C.5) | printed | landscape.general_design |""",
    "symmetric-inputs": f"""
Algorithm 1 | printed | methods.printed.ge_2019.single_unit | symmetric-inputs algorithm-1, symmetric-inputs algorithm-3
Algorithm 2 | printed: least squares where the text inverts, real and imaginary parts of complex eigenvectors |
    methods.printed.ge_2019.PrintedNeurons | symmetric-inputs algorithm-2
Algorithm 3 | printed: as Algorithm 2 | methods.printed.ge_2019.PrintedNeurons | symmetric-inputs algorithm-3
Algorithm 4 | corrected: sample n/2 is in both halves in print | methods.printed.ge_2019.leading_outputs | symmetric-inputs
    algorithm-3
Theorem 1 | {RESTATED} (Theorem 4) | |
Theorem 2 | {RESTATED} (Theorem 7) | |
Theorem 3 | {RESTATED} (Theorems 7, 9 and 10) | |
Theorems 9, 10 | printed | studies.perturbations.SMOOTHED | smoothed-analysis
Theorem 4 | printed | moments.population_detector, methods.printed.ge_2019.PrintedNeurons | symmetric-inputs algorithm-2
Theorem 5 | printed | moments.population_detector, methods.printed.ge_2019.PrintedNeurons | symmetric-inputs algorithm-3
Theorem 6 | corrected: E[yxᵀ] is half of A W E[xxᵀ], in our copy twice | methods.printed.ge_2019.leading_outputs |
    symmetric-inputs algorithm-3
Theorem 7 | corrected: by Lemmas 11 and 14 | theory.symmetric_recovery |
Theorem 8 | printed | theory.single_unit_recovery |
Lemma 1 | printed | methods.printed.ge_2019.single_unit |
Lemma 2 | printed | moments.PureNeuronDetector |
Lemma 3, Corollary 1 | printed | moments.PureNeuronDetector |
Lemma 9 | corrected: by equation (11) | moments.PureNeuronDetector |
Lemma 4 | printed | moments.population_detector, methods.printed.ge_2019.null_span |
Lemma 10 | corrected: by equation (11) | moments.population_detector, methods.printed.ge_2019.null_span |
Lemma 5 | printed | methods.printed.ge_2019.PrintedNeurons | symmetric-inputs algorithm-2
Lemma 6 | not computed: for the proofs of Lemmas 1 to 3; it is false at p = 0, which a test has |  |
Lemma 7 | not computed: for the proofs of Lemmas 3 and 9; tests have it | |
Lemma 11 | corrected: 2ε/(αβ²), with the √2 of Lemma 14 | theory.symmetric_recovery |
Lemma 8 | not computed: with probability 1 the eigenvalues of the pencil differ, which has no number | |
Lemmas 12, 17 | not computed: for the proof of Theorem 7, by polynomials that are not stated | |
Lemma 16 | not computed: a step of the proof of Lemma 12, that bases of two spans within ε can be turned to within 2ε | |
Lemma 13 | printed | theory.first_layer_error |
Lemma 14 | corrected: αβ²/√2, the proof takes two unequal entries for equal | moments.detector_gap_bound | smoothed-analysis
Lemma 15 | printed | theory.symmetric_recovery |
Lemma 18 | corrected: δ bounds the probability that the signs differ, in our copy that they agree | theory.sign_margin |
Lemma 19 | printed | moments.gaussian_augmented |
Lemma 20, Lemma 23, Lemmas 25 to 30, Lemmas 32 to 38 | {QUOTED} | |
Lemma 21 | printed | theory.leave_one_out_bound |
Lemma 22 | printed | theory.perturbed_angle |
Lemma 24, Lemma 31 | not computed: corollaries of quoted lemmas, used in proofs | |
Claim 1 | not computed: for the proof of Theorem 10, that what holds for Gaussian laws of unit variance about any mean holds for
    wider ones, which has no number | |
Claims 2, 3 | not computed: for the proof of Theorem 10, by polynomials that are not stated | |
Definition 1 | printed | moments.gaussian_augmented, moments.augmented_matrix |
Definition 2 | printed | theory.leave_one_out_distance |
Definition 3 | not computed: quoted from elsewhere, for Lemmas 17, 32 and 33, which are not computed | |
Figure 1 | not computed: a drawing of the network |  |
Figure 5 | not computed: a drawing of T = MBCF, the factors in the proof of Lemma 14 |  |
Figure 2 | printed: descent in W with momentum; 3 dimensions from 10 to 32, 12 with `--full` | studies.ge.FIGURE_2 | ge19-fig2
Figure 3 | printed: descent in W with momentum | studies.ge.FIGURE_3 | ge19-fig3
Figure 4 | printed: descent in W with momentum | studies.ge.FIGURE_4 | ge19-fig4
equation (11) | corrected: the bracket round the two terms, which Algorithm 3 has, is lost in our copy |
    methods.printed.ge_2019.printed_detector |
    symmetric-inputs algorithm-3
equation (18) | printed | planted.perturb_weights | smoothed-analysis""",
    "general-relu": f"""
Algorithm 1 | corrected: reconstructed from the proofs; Jennrich's is the best of ten pencils |
    methods.printed.awasthi_2021.exact_units |
Algorithm 2 | corrected: reconstructed from the proofs, orders l to l + 3 | assembly.unit_scalars.recover_scalars |
    general-relu algorithm-6
Algorithm 3 | corrected: reconstructed from the proofs | assembly.unit_scalars.fix_signs | general-relu algorithm-6
Algorithm 4 | printed: Jennrich's is the best of ten pencils | methods.printed.awasthi_2021.robust_units |
    general-relu algorithm-6, general-relu algorithm-5
Algorithm 5 | printed: two features for each unit, as its proof remarks; Algorithm 4 with the best of ten pencils; units with
    abs(b) > 6 are left out, unless max_bias is inf | methods.printed.awasthi_2021.truncated_network |
    general-relu algorithm-5, general-relu algorithm-5-order-1, general-relu algorithm-5-order-3
Algorithm 6 | printed: Algorithm 4 with the best of ten pencils; units with abs(b) > 6 are left out, unless max_bias is inf |
    methods.printed.awasthi_2021.PrintedReLU | general-relu algorithm-6
Theorem 3.1 | corrected: m where the proof has √m | theory.relu_recovery, methods.printed.awasthi_2021.PrintedReLU |
    general-relu algorithm-6
Theorem 3.2 | printed | theory.relu_approximation, methods.printed.awasthi_2021.truncated_network | general-relu algorithm-5
Theorem 4.2 | corrected: reconstructed from the proofs | methods.printed.awasthi_2021.exact_units |
Theorem A.5 | {QUOTED} | |
Theorem D.1 | printed | theory.relu_units, methods.printed.awasthi_2021.robust_units | general-relu algorithm-6
Lemma 3.5 | printed | activations.activation.Activation.hermite, moments.population_moments |
Lemma 4.3 | corrected: false as printed, it holds for k + 1 and k + 2 | assembly.unit_scalars.scalars_by_recurrence |
Lemma 4.5 | corrected: it holds from k = 0 on | assembly.unit_scalars.scalars_by_recurrence |
Lemma D.3 | printed | theory.relu_units |
Lemmas D.4, D.7, D.9 | not computed: for the proof of Theorem D.1, by polynomials that are not stated | |
Lemmas D.10, D.11 | printed | assembly.unit_scalars.recover_scalars |
Lemma D.12 | printed | methods.printed.awasthi_2021.truncated_network | general-relu algorithm-5
Lemma D.13 | printed | theory.linear_stand_in |
Claim 4.4 | printed: the best of ten pencils | decomposition.flattened_jennrich |
Claim 4.6 | corrected: orders l to l + 3, the text has l + 2 twice | assembly.unit_scalars.recover_scalars |
Claim 4.8 | printed | assembly.sign_decoding.decode_signs |
Claim A.4 | printed: it holds without its factor 1/√(2k) too, by Schur's product theorem | moments.khatri_rao_gap |
Claim D.2 | not computed: for the proof of Lemma D.3, a mean of powers of n numbers | |
Claim D.5 | not computed: for the proof of Theorem D.1; a test has the sharper s₂(M₁) ≥ s₂(M_l)/√l |  |
Claim D.6 | not computed: for the proof of Theorem D.1; a test has ε where the text has 3ε |  |
Claim D.8 | not computed: for the proof of Theorem D.1; a test has its numbers |  |
Claim D.14 | printed | assembly.sign_decoding.absorb_linear | general-relu algorithm-5
Corollary 3.3 | printed: perturbed weights keep their length | moments.smoothed_width,
    planted.perturb_network | smoothed-analysis
Proposition B.1 | printed | moments.population_moments |
Definition A.1 | not computed: notation, all derivatives of order k as a tensor | |
Definition A.2, Fact A.3 | printed: every polynomial over the root of its α! | moments.hermite_features |
Fact 4.7 | {QUOTED} | |
equation (49) | printed | moments.population_moments |
RecoverScalars | corrected: reconstructed from the proofs | assembly.unit_scalars.recover_scalars | general-relu algorithm-6
FixSigns | corrected: reconstructed from the proofs | assembly.unit_scalars.fix_signs | general-relu algorithm-6""",
    "high-threshold": f"""
Algorithm 1, RefineEstimate | corrected: accepts α' ≤ (1 - c/d)α, line 4 asks for O(α/d) |
    lowest_layer.printed.searches.refine_estimate | layer one-by-one, tan-alpha
Algorithm 2, EstimateTanAlpha | printed | lowest_layer.layer_start.slab_estimate | layer one-by-one, tan-alpha
Algorithm 3 | printed: f less its mean, which takes most of the noise and changes no moment of two coordinates |
    lowest_layer.smooth_route.printed_graph | layer :exponential(0.5)
Theorem 1 | {RESTATED} (Claim 2, Theorem 11) | |
Theorem 2 | {RESTATED} (Theorem 5) | |
Theorem 3 | {RESTATED} (Corollary 1) | |
Theorem 4 | not computed: adds two pairs of numbers; its use is in Claim 2 |  |
Theorem 5 | printed | lowest_layer.printed.searches.trial_limit | layer one-by-one, tan-alpha
Theorem 6, Corollary 1 | printed: delta is a Gaussian of small width, its correlation is over φ(t), without which a t that is not
    known walks to 0, and as no search is printed, ours is ascent from random starts | lowest_layer.DeltaSearch |
    layer section-3:step
Theorem 7 | corrected: μ = exp(-ρ(t - ρD/2)) | theory.population_correlations,
    lowest_layer.smooth_route.printed_graph | layer :exponential(0.5)
Theorem 8 | corrected: h is unbounded above and has no maximum with z_j ≥ 1 on a block | theory.penalised_objective |
    gp19-theorem8
Theorem 9 | corrected: √6 u₂² for 6 u₂², no u₂ term, and e_i is a maximum if and only if 2α_i > γ_ij; others
    appear when those found are projected out | theory.even_coefficients, lowest_layer.printed.route.even_directions |
    layer :absolute, gp19-theorem9
Theorem 10 | {QUOTED} (Ge, Lee and Ma) | |
Theorem 11 | corrected: by ψ, sgn(u₄) and T; fewer units than inputs are sought in their span | lowest_layer.Simultaneous |
    layer simultaneous
Theorem 12 | printed: with `method=HighThreshold.literal(step)`, else by the default of this package |
    lowest_layer.learn_union, lowest_layer.HighThreshold |
Theorem 13 | printed: f less its smallest value | lowest_layer.printed.route.retain_by_output | layer retained:sigmoid,
    gp19-theorem13
Lemma 1 | corrected: false for positively correlated rows | theory.product_bound, theory.printed_product_bound |
Lemma 2 | corrected: exponent 2 - 2η, by Lemma 1; p = abs(W)² is at least 1 | theory.linear_part_gap, theory.layer_closeness |
Lemma 3 | printed | lowest_layer.layer_start.slab_estimate | tan-alpha
Lemma 4 | corrected: it must condition on the slab at t' | lowest_layer.layer_start.probit_estimate | tan-alpha
Lemma 5 | not computed: a step of the proof of Lemma 3, that other units add at most d e^(-Ω(tt')) | |
Lemma 6 | not computed: a step of the proof of Lemma 3, the range of t₁ and t₂ | |
Lemma 7 | printed | lowest_layer.printed.searches.refine_estimate | tan-alpha
Lemma 8 | printed | lowest_layer.slab_correlations |
Lemma 9, Corollary 2 | printed | lowest_layer.printed.objectives.hermite_correlation |
Lemmas 10, 11 | printed | theory.gaussian_tail, theory.threshold_coefficient |
Lemma 12 | printed | theory.sigmoid_tail, theory.threshold_coefficient |
Lemma 13 | {QUOTED} (Ge, Lee and Ma) | |
Lemmas 14, 15 | not computed: for the proof of Claim 2, by constants that are not stated | |
Lemma 16 | corrected: cot keeps its sign, and E[u δ'] is -C₁'(0), as in Claim 4; what is computed is C₁'(0) |
    theory.delta_prime_at_origin |
Lemma 17 | corrected: by Lemma 1 | theory.product_bound |
Lemma 18 | corrected: by Lemma 1 | theory.linear_part_gap |
Lemma 19 | corrected: two terms cancel | lowest_layer.slab_correlations |
Lemma 20 | not computed: a bound d^O(1)/ε₂ away from all units, whose exponent is not stated | |
Lemmas 21 to 23 | corrected: they are about local maxima of h, none of which has z_j ≥ 1 on a block | theory.penalised_objective
    | gp19-theorem8
Claim 1 | corrected: c_i is missing at order 4 in the text before it; z·(row i of TW) is ± (1 - abs(u₄)/(λu₂²c_i))^(-1/2), the
    text has ± 1, of z·(column i of (TW)⁻¹) | lowest_layer.printed.objectives.one_by_one_objective | layer one-by-one
Claim 2 | corrected: by Claim 1 and Lemma 2; it says something for abs(W)² < 2 only | theory.layer_closeness |
Claim 3 | printed | lowest_layer.slab_correlations |
Claim 4 | corrected: independent densities go with cot, the joint one with cos; E[f δ'] = -C₁' | theory.step_unit_slope |
Claim 5 | not computed: a bound d^O(1)/ε₂ away from all units, whose exponent is not stated | |
Definition 1 | corrected: λ_min ≥ -τ | lowest_layer.printed.objectives.is_local_minimum | layer one-by-one
Assumption 1 | printed | planted.polynomial_top |
Assumption 2 | printed | theory.gaussian_tail, theory.threshold_coefficient |
Assumption 3 | corrected: p = abs(W)² is at least 1, the text has (0, 1] | theory.layer_closeness |
Assumption 4 | printed | theory.composed_coefficients | gp19-powers
Remark 1, Appendix E | printed | studies.goel_layers.DEEPER_CUT | deeper-cut
Appendix B.4 | corrected: ψ is no Hermite polynomial in print, and sgn(u₄) and T are missing | theory.psi,
    lowest_layer.Simultaneous | layer simultaneous
Appendix B.6 | printed: as Theorem 12 | lowest_layer.learn_union, lowest_layer.HighThreshold |
Appendix B.7 | printed: f less its smallest value | lowest_layer.printed.route.retain_by_output | layer retained:sigmoid,
    gp19-theorem13
Appendix B.8 | printed | theory.composed_coefficients | gp19-powers
Appendix C | corrected: by Claim 4 and Lemma 16 | lowest_layer.DeltaSearch | layer section-3:step
Appendix C.1 | corrected: by Lemma 19 | lowest_layer.DeltaSearch | layer section-3
Appendix D.1 | corrected: the exponent is garbled | theory.population_correlations |
Appendix D.2 | corrected: by Theorem 8 | theory.shifted_mean, theory.penalised_objective | gp19-theorem8
Appendix D.3 | corrected: by Theorem 9 | theory.even_coefficients, lowest_layer.printed.route.even_directions |
    gp19-theorem9
Facts 0 to 2 | {QUOTED} | |
Facts 3, 4 | not computed: they hold for He, not for the normalised h that the text has |  |
Fact 5 | not computed: it is the coefficient of He_m in He_n(γx), k = (n - m)/2; the expectation is m! times that for He, and
    √(m!/n!) times that for the normalised h that the text has | |
Fact 6 | not computed: a fact of linear algebra, for the proof of Lemma 1 | |
Fact 7 | not computed: for the proof of Lemma 1; it holds for the leading blocks of triangular matrices there, not in
    general | |""",
}
