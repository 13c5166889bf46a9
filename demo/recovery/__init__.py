"""`make demo-recovery`: three clusters, of which the one that is written to is lost and comes back."""
