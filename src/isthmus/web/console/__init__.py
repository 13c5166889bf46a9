"""The console: pages for people who would rather look than read, from what the REST API knows as well."""
