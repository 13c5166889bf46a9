"""Commands that make and check a configuration."""
