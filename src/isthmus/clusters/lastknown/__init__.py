"""What clusters remember of each other, for when one is lost."""
