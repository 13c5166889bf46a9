"""Files read: documents with their lines, references to values elsewhere, and mistakes in plain words."""
