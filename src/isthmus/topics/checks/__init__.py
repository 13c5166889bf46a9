"""What is examined of a topic before it is mirrored."""
