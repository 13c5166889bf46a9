"""One partition into another, exactly once: reading, writing, and what lies between."""
