"""One Kafka cluster by its public protocol: batches as bytes, connections, routing, logs, groups, administration."""
