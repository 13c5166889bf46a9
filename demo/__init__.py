"""The demonstration: real flights, mirrored between two real clusters, and verified."""
