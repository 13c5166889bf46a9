"""Links and what operators do with them: declare, attach, promote, fail over, detach, pause."""
