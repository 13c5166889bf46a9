"""The REST API and the console: what the fabric can do, over HTTP."""
