"""From components to a network: signs, scales, biases, readout."""
