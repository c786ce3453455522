"""What studies and tests plant: random networks and layers, inputs of every law that the papers use, label noise."""

from laybare.planted.inputs import (
    add_noise,
    autoregressive_inputs,
    cube_inputs,
    gaussian_inputs,
    laplace_inputs,
    mixture_inputs,
    perturbed,
    rademacher_inputs,
    student_inputs,
)
from laybare.planted.random_networks import (
    conditioned_weights,
    gaussian_rows,
    orthonormal_weights,
    random_network,
    smoothed,
    smoothed_network,
)

__all__ = [
    "add_noise", "autoregressive_inputs", "conditioned_weights", "cube_inputs", "gaussian_inputs", "gaussian_rows",
    "laplace_inputs", "mixture_inputs", "orthonormal_weights", "perturbed", "rademacher_inputs", "random_network", "smoothed",
    "smoothed_network", "student_inputs",
]
