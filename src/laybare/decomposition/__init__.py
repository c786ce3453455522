"""Ways to pull rank-one parts out of moments; all return the same `Components`.

    symmetric tensor, or stack of symmetric slices  →  Decomposer  →  Components (coefficients, directions, residual, separation)

`joint_diagonalisation` is the default: either sign, not orthogonal, rank at most dimension. `SubspacePower` finds more parts than
dimensions. `Jennrich`, `KCL`, `TensorPower`, `AlternatingLeastSquares`, `GaussNewton` are other choices; `best_of` repeats one.
`subspace` holds dominant eigenspaces of indefinite operators, `rank` the number of parts that a spectrum shows.
`flattened_jennrich` works on packed tensors of any order. `annihilator` takes noiseless samples instead of moments.
"""

from laybare.decomposition.als import AlternatingLeastSquares, alternating_least_squares
from laybare.decomposition.components import Components, Decomposer, deduplicate, separation
from laybare.decomposition.cp import GaussNewton, polish_tensor
from laybare.decomposition.definite import DefiniteJacobi, definite_jacobi
from laybare.decomposition.diagonaliser import Diagonalisation, Diagonalise, directions_of, rows_for
from laybare.decomposition.explanation import explain, explain_stack, explain_tensor, loadings, tensor_coefficients
from laybare.decomposition.flattened import RankOneParts, flattened_jennrich, flattened_spectrum
from laybare.decomposition.joint import JointDiagonalisation, joint_diagonalisation
from laybare.decomposition.mixing_fit import uwedge
from laybare.decomposition.multiplicative import ffdiag
from laybare.decomposition.pencil import Jennrich, jennrich
from laybare.decomposition.power import AfterWhitening, TensorPower, tensor_power
from laybare.decomposition.random_projections import KCL, kcl
from laybare.decomposition.rank import RankEstimate, detect_rank, margins
from laybare.decomposition.rank_one import rank_one_elements
from laybare.decomposition.relations import Relations, annihilator
from laybare.decomposition.repeats import BestOf, best_of
from laybare.decomposition.rotations import jacobi
from laybare.decomposition.shears import qrj1d
from laybare.decomposition.shrinkage import nearest_orthogonal, shrink_to_orthogonal
from laybare.decomposition.slices import StackSpan, condense, project
from laybare.decomposition.spm import SubspacePower, joint_span, subspace_power
from laybare.decomposition.stack_fit import polish_stack
from laybare.decomposition.subspace import (
    Eigenspace,
    dense_subspace,
    shifted_power,
)

__all__ = [
    "Components", "Decomposer", "deduplicate", "separation",
    "explain", "explain_stack", "explain_tensor", "loadings", "tensor_coefficients",
    "JointDiagonalisation", "joint_diagonalisation", "DefiniteJacobi", "definite_jacobi", "Jennrich", "jennrich", "KCL", "kcl",
    "TensorPower", "tensor_power", "AfterWhitening", "SubspacePower", "subspace_power", "joint_span",
    "AlternatingLeastSquares", "alternating_least_squares", "GaussNewton", "BestOf", "best_of",
    "Diagonalise", "Diagonalisation", "directions_of", "rows_for", "jacobi", "ffdiag", "uwedge", "qrj1d",
    "polish_stack", "polish_tensor", "nearest_orthogonal", "shrink_to_orthogonal", "StackSpan", "project", "condense",
    "Eigenspace", "dense_subspace", "shifted_power",
    "RankEstimate", "detect_rank", "margins", "Relations", "annihilator", "rank_one_elements",
    "RankOneParts", "flattened_jennrich", "flattened_spectrum",
]
