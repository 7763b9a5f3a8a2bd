"""What gets noise: aggregates become measures, in groups. Knows no data."""
