"""One schema registry by its HTTP API: what is asked and answered, and schemas found by their ids and subjects."""
