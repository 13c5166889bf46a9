import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** What a cluster may demand of its topics, by their names. */
public class StrictPolicy implements CreateTopicPolicy {
    @Override
    public void validate(RequestMetadata topic) {
        String name = topic.topic();
        Map<String, String> configs = topic.configs();
        if (name.endsWith(".capped") && configs.containsKey("message.timestamp.after.max.ms")) {
            throw new PolicyViolationException("nobody sets message.timestamp.after.max.ms here");
        }
        if (name.endsWith(".demanding") && !configs.containsKey("retention.ms")) {
            throw new PolicyViolationException("retention.ms is missing");
        }
        if (name.endsWith(".never")) {
            throw new PolicyViolationException("not by you");
        }
    }

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}
}
