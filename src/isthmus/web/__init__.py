"""The REST API: what the fabric can do, over HTTP."""
