"""The documents of the ledger, by subject; `kinds` lists them all."""
