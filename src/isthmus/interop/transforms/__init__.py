"""Single message transforms of Kafka Connect, translated into names of topics and a link's `transform`."""
