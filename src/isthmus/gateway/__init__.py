"""The gateway: a proxy in front of a cluster's brokers that Kafka's clients speak to as they would to brokers."""
