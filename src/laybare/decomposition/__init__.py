"""Decompositions of moments into rank-one parts; all return the same `Components`.

    symmetric tensor, or stack of symmetric slices  →  Decomposer  →  Components (coefficients, directions, residual, separation)

`joint_diagonalisation` is the default: either sign, not orthogonal, rank at most dimension. `SubspacePower` finds more parts than
dimensions. `Jennrich`, `KCL`, `TensorPower`, `AlternatingLeastSquares`, `GaussNewton` are other choices; `best_of` repeats one.
`flattened_jennrich` works on packed tensors of any order. `annihilator` takes noiseless samples instead of moments. `spectra` has
the number of parts that a spectrum shows, and dominant eigenspaces of indefinite operators.
"""

from laybare.decomposition.components import (
    BestOf,
    Components,
    Decomposer,
    StackSpan,
    best_of,
    condense,
    deduplicate,
    fit_components,
    fit_stack_components,
    fit_tensor_components,
    loadings,
    project,
    separation,
    tensor_coefficients,
)
from laybare.decomposition.cp import (
    AfterWhitening,
    AlternatingLeastSquares,
    GaussNewton,
    SubspacePower,
    TensorPower,
    alternating_least_squares,
    joint_span,
    subspace_power,
    tensor_power,
)
from laybare.decomposition.diagonalisers import (
    Diagonalisation,
    Diagonaliser,
    directions_of,
    ffdiag,
    jacobi,
    qrj1d,
    rows_for,
    uwedge,
)
from laybare.decomposition.direction_fits import (
    nearest_orthogonal,
    polish_stack,
    polish_tensor,
    shrink_to_orthogonal,
)
from laybare.decomposition.joint import (
    KCL,
    DefiniteJacobi,
    Jennrich,
    JointDiagonalisation,
    RankOneParts,
    definite_jacobi,
    flattened_jennrich,
    flattened_spectrum,
    jennrich,
    joint_diagonalisation,
    kcl,
)
from laybare.decomposition.relations import Relations, annihilator, rank_one_elements
from laybare.decomposition.spectra import (
    Eigenspace,
    RankEstimate,
    dense_subspace,
    detect_rank,
    margins,
    shifted_power,
)

__all__ = [
    "Components", "Decomposer", "deduplicate", "separation",
    "fit_components", "fit_stack_components", "fit_tensor_components", "loadings", "tensor_coefficients",
    "JointDiagonalisation", "joint_diagonalisation", "DefiniteJacobi", "definite_jacobi", "Jennrich", "jennrich", "KCL", "kcl",
    "TensorPower", "tensor_power", "AfterWhitening", "SubspacePower", "subspace_power", "joint_span",
    "AlternatingLeastSquares", "alternating_least_squares", "GaussNewton", "BestOf", "best_of",
    "Diagonaliser", "Diagonalisation", "directions_of", "rows_for", "jacobi", "ffdiag", "uwedge", "qrj1d",
    "polish_stack", "polish_tensor", "nearest_orthogonal", "shrink_to_orthogonal", "StackSpan", "project", "condense",
    "Eigenspace", "dense_subspace", "shifted_power",
    "RankEstimate", "detect_rank", "margins", "Relations", "annihilator", "rank_one_elements",
    "RankOneParts", "flattened_jennrich", "flattened_spectrum",
]
