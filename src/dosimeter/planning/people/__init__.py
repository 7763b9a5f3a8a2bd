"""What is computed from an individual's own rows before anything is measured (Q2). Knows no data."""
