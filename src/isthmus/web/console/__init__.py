"""The console: pages for people, from the same data as the REST API."""
