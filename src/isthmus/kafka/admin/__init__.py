"""What describes or changes a cluster: topics, configurations, access rules, quotas, brokers."""
