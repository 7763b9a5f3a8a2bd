"""What rows are read: tables, joins and subqueries, and what a value in a row can be. Knows no data."""
