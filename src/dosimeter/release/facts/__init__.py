"""Find the facts of a schema by spending a little ε (B1): questions, one charge for all of them, and what was found."""
