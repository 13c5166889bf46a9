"""Distribution trees (Axual), as values and rules."""
