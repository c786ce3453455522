"""What only states theory: condition numbers, guarantees with their constants, the expected risk and its curvature."""
