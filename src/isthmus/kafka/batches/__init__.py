"""Record batches as bytes, and the records in them."""
