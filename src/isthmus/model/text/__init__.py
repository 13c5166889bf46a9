"""Values as people write them, and as JSON has them."""
