"""Known teachers for studies and tests: random networks and layers, inputs of the laws that the papers use, label noise."""

from laybare.planted.inputs import (
    add_noise,
    autoregressive_inputs,
    cube_inputs,
    gaussian_inputs,
    laplace_inputs,
    mixture_inputs,
    perturb_inputs,
    rademacher_inputs,
    student_inputs,
)
from laybare.planted.random_networks import (
    conditioned_weights,
    orthonormal_weights,
    perturb_network,
    perturb_weights,
    random_network,
    random_unit_rows,
)

__all__ = [
    "add_noise", "autoregressive_inputs", "conditioned_weights", "cube_inputs", "gaussian_inputs", "laplace_inputs",
    "mixture_inputs", "orthonormal_weights", "perturb_inputs", "perturb_network", "perturb_weights", "rademacher_inputs",
    "random_network", "random_unit_rows", "student_inputs",
]
