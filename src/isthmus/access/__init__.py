"""Access rules and client quotas, kept alike; the rights that a link needs."""
