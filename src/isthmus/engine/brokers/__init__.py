"""What an engine needs of brokers: leaders, distance, room, and the permission to write."""
