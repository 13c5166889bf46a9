"""The judge: reads both clusters through librdkafka and Kafka's own tools, and shares no code with what it judges."""
