"""Settings of Kafka's clients, as they are about connections."""
