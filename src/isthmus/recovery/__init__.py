"""A follower that has diverged is brought back to what its source holds, and what only it had is set aside."""
