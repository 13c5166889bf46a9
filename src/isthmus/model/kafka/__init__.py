"""What a Kafka cluster has, as values: topics, partitions, groups, rules, transactions."""
