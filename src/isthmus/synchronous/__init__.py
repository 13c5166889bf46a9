"""Synchronous links (KIP-986): what they require, and where they stand."""
