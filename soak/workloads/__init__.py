"""Who writes, commits and creates at the source while faults happen, through librdkafka."""
