"""How the source is built: sizes, arrows between folders, and words, counted and held against bounds."""
