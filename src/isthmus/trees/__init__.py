"""Distribution trees: declared, reshaped, switched, verified to be complete."""
