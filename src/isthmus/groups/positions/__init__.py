"""One position of a group: translated, and judged."""
