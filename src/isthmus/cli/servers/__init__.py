"""Commands that serve: REST, gateway, relay, metrics."""
