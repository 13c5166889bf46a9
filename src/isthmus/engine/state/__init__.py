"""The values that a lane consists of. Each has one subject, takes events, and is assigned by nobody else. No I/O."""
