"""How links stand, what a run would find, and waiting for it."""
