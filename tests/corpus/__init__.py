"""One corpus of SQL: what is answered and what is refused, each written once, with the tables that it asks."""
