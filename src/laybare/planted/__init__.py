"""Known teachers for studies and tests: random networks and layers, inputs of the laws that the papers use, label noise."""

from laybare.planted.random_networks import (
    add_noise,
    autoregressive_inputs,
    conditioned_weights,
    cube_inputs,
    gaussian_inputs,
    laplace_inputs,
    mixture_inputs,
    orthonormal_weights,
    perturb_inputs,
    perturb_network,
    perturb_weights,
    rademacher_inputs,
    random_network,
    random_unit_rows,
    student_inputs,
)

__all__ = [
    "add_noise", "autoregressive_inputs", "conditioned_weights", "cube_inputs", "gaussian_inputs", "laplace_inputs",
    "mixture_inputs", "orthonormal_weights", "perturb_inputs", "perturb_network", "perturb_weights", "rademacher_inputs",
    "random_network", "random_unit_rows", "student_inputs",
]
