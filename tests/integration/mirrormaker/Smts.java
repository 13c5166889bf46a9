import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka's own transforms and predicates on records of JSON: reads cases from a file, writes what becomes of their records.
 *
 * A chain is applied as TransformationStage of Kafka's connect/runtime does it. Keys and values are read and written by
 * Kafka's JsonConverter without schemas, as a connector does whose records are structured; with `"bytes": true` they are
 * handed over as MirrorSourceTask does.
 */
public final class Smts {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonConverter JSON = new JsonConverter();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    private record Stage(Transformation<SourceRecord> transform, Predicate<SourceRecord> predicate, boolean negate) {
        SourceRecord apply(SourceRecord record) {
            return predicate == null || negate ^ predicate.test(record) ? transform.apply(record) : record;
        }
    }

    public static void main(String[] arguments) throws Exception {
        JSON.configure(Map.of("schemas.enable", "false"), false);
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode one : MAPPER.readTree(new File(arguments[0]))) {
            List<Stage> stages = stages(one.get("config"));
            ArrayNode outcomes = answers.addArray();
            for (JsonNode record : one.get("records")) {
                outcomes.add(outcome(record, stages, one.path("bytes").asBoolean(), one.path("key_json").asBoolean()));
            }
        }
        System.out.println(MAPPER.writeValueAsString(answers));
    }

    @SuppressWarnings("unchecked")
    private static List<Stage> stages(JsonNode config) throws Exception {
        List<Stage> found = new ArrayList<>();
        for (String name : config.path("transforms").asText().split("\\s*,\\s*")) {
            Map<String, String> own = within(config, "transforms." + name + ".");
            String predicate = own.remove("predicate");
            boolean negate = Boolean.parseBoolean(own.remove("negate"));
            String type = own.remove("type");
            if (type.contains("Convert")) {
                continue;
            }
            Transformation<SourceRecord> transform = (Transformation<SourceRecord>) make(type);
            transform.configure(own);
            Predicate<SourceRecord> condition = null;
            if (predicate != null) {
                Map<String, String> its = within(config, "predicates." + predicate + ".");
                condition = (Predicate<SourceRecord>) make(its.remove("type"));
                condition.configure(its);
            }
            found.add(new Stage(transform, condition, negate));
        }
        return found;
    }

    private static Object make(String type) throws Exception {
        return Class.forName(type).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> within(JsonNode config, String prefix) {
        Map<String, String> found = new HashMap<>();
        config.fields().forEachRemaining(each -> {
            if (each.getKey().startsWith(prefix)) {
                found.put(each.getKey().substring(prefix.length()), each.getValue().asText());
            }
        });
        return found;
    }

    private static ObjectNode outcome(JsonNode given, List<Stage> stages, boolean isBytes, boolean isKeyJson) {
        ObjectNode found = MAPPER.createObjectNode();
        try {
            SourceRecord record = record(given, isBytes, isKeyJson);
            for (Stage stage : stages) {
                record = stage.apply(record);
                if (record == null) {
                    return found.put("dropped", true);
                }
            }
            found.put("topic", record.topic());
            found.put("key", text(record.topic(), record.keySchema(), record.key()));
            found.put("value", text(record.topic(), record.valueSchema(), record.value()));
            found.put("timestamp", record.timestamp());
            ArrayNode headers = found.putArray("headers");
            for (Header header : record.headers()) {
                byte[] held = header.value() instanceof byte[] bytes
                    ? bytes
                    : HEADERS.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value());
                headers.addArray().add(header.key()).add(held == null ? null : new String(held, StandardCharsets.UTF_8));
            }
            return found;
        } catch (RuntimeException error) {
            return found.removeAll().put("error", String.valueOf(error.getMessage()));
        }
    }

    private static SourceRecord record(JsonNode given, boolean isBytes, boolean isKeyJson) {
        ConnectHeaders headers = new ConnectHeaders();
        given.get("headers").forEach(each -> headers.addBytes(each.get(0).asText(), bytes(each.get(1))));
        SchemaAndValue key = new SchemaAndValue(Schema.OPTIONAL_BYTES_SCHEMA, bytes(given.get("key")));
        SchemaAndValue value = new SchemaAndValue(Schema.BYTES_SCHEMA, bytes(given.get("value")));
        String topic = given.get("topic").asText();
        if (isKeyJson) {
            key = JSON.toConnectData(topic, bytes(given.get("key")));
        }
        if (!isBytes) {
            value = JSON.toConnectData(topic, bytes(given.get("value")));
        }
        return new SourceRecord(
            Map.of(), Map.of(), topic, given.get("partition").asInt(), key.schema(), key.value(), value.schema(),
            value.value(), given.get("timestamp").asLong(), headers);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(String topic, Schema schema, Object held) {
        if (held == null) {
            return null;
        }
        if (held instanceof byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        return held instanceof Map<?, ?>
            ? new String(JSON.fromConnectData(topic, schema, held), StandardCharsets.UTF_8)
            : held.toString();
    }
}
