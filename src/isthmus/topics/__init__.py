"""Topics of a link: observed, planned, created at the target and kept up to date."""
