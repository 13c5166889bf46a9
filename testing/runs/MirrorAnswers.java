import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Asks Kafka's own MirrorClient: `PROPERTY=VALUE ... -- QUESTION ...`; each answer is a line. */
public final class MirrorAnswers {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        int at = 0;
        for (; !arguments[at].equals("--"); at++) {
            String[] parts = arguments[at].split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        try (MirrorClient client = new MirrorClient(properties)) {
            for (at++; at < arguments.length; at++) {
                System.out.println(answer(client, properties, arguments[at].split(" ")));
            }
        }
    }

    private static String answer(MirrorClient client, Map<String, Object> properties, String[] question)
            throws Exception {
        switch (question[0]) {
            case "upstreamClusters":
                return sorted(client.upstreamClusters());
            case "replicationHops":
                return String.valueOf(client.replicationHops(question[1]));
            case "heartbeatTopics":
                return sorted(client.heartbeatTopics());
            case "checkpointTopics":
                return sorted(client.checkpointTopics());
            case "remoteTopics":
                return sorted(question.length == 1 ? client.remoteTopics() : client.remoteTopics(question[1]));
            case "translateOffsets":
                return sorted(positions(
                    RemoteClusterUtils.translateOffsets(properties, question[1], question[2], TIMEOUT)));
            case "translateGroups":
                Collection<String> found = new TreeSet<>();
                RemoteClusterUtils.translateOffsets(properties, question[1], Pattern.compile(question[2]), TIMEOUT)
                    .forEach((group, offsets) ->
                        positions(offsets).forEach(position -> found.add(group + "@" + position)));
                return sorted(found);
            default:
                throw new IllegalArgumentException(question[0]);
        }
    }

    private static Collection<String> positions(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return offsets.entrySet().stream()
            .map(each -> each.getKey() + ":" + each.getValue().offset() + ":" + each.getValue().metadata())
            .toList();
    }

    private static String sorted(Collection<String> names) {
        return String.join(" ", new TreeSet<>(names));
    }
}
