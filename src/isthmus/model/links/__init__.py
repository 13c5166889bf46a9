"""Links, as values: what is declared of them, what was found, and how they stand."""
