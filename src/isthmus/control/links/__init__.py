"""Links: what is declared and remembered of them, how they stand, and what operators do with them."""
