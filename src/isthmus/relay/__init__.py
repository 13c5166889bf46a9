"""A meeting place for clusters behind NAT: agents join it from within, links reach brokers through it (KIP-986)."""
