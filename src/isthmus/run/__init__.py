"""Links that run: begun and ended, followed and succeeded, and what one of them is made of."""
