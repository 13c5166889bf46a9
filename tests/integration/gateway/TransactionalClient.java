import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer in transactions: does what each line of its input says, and answers with a line of its own. */
public class TransactionalClient {
    public static void main(String[] given) throws Exception {
        String name = given[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", given[2]);
        settings.put("delivery.timeout.ms", given[2]);
        settings.put("max.block.ms", given[2]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (Producer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(done(producer, name, line));
                System.out.flush();
            }
        }
    }

    private static String done(Producer<String, String> producer, String topic, String what) throws Exception {
        try {
            switch (what) {
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "send" -> producer.send(new ProducerRecord<>(topic, 0, null, "value")).get();
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                default -> throw new IllegalArgumentException(what);
            }
            return "ok";
        } catch (ExecutionException error) {
            return ("failed " + error.getCause()).replace('\n', ' ');
        } catch (RuntimeException error) {
            return ("failed " + error).replace('\n', ' ');
        }
    }
}
