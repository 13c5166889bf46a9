"""Pure values and rules: no clocks, no randomness, no sockets."""
