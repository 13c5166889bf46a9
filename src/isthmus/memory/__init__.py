"""What the ledgers of clusters hold of links: declared, remembered and claimed. It knows no other room."""
