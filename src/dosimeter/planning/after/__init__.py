"""What is computed from the noisy numbers (Q4). Knows no data."""
