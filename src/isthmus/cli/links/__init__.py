"""Commands about links: run, status, verify, promote."""
