"""The Kafka protocol as Isthmus uses it: record batches as bytes, connections, and routing to brokers."""
