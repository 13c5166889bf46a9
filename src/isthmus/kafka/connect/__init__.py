"""Connections to brokers: addresses, proxies, TLS, SASL, and the reasons why one fails."""
