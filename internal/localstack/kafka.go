package localstack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// brokerProperties is the broker's configuration; its paths are relative to
// the data folder, in which the broker runs. %[1]d and %[2]d are the ports of
// clients and of the controller, %[3]s the folder of the segments, %[4]s the
// protocol for clients.
const brokerProperties = `# Written by jobtrail at every start.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=CLIENT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=CLIENT://127.0.0.1:%[1]d
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CLIENT:%[4]s,CONTROLLER:PLAINTEXT
log.dirs=%[3]s

# Topics are made by "jobtrail topics apply", never by a misspelt name.
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
message.max.bytes=16777216
replica.fetch.max.bytes=16777216

# After a kill -9 the controller, in the same process, waits this long before it
# lets the broker register again (9 s by default).
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500

# One node: internal topics have one replica, and few partitions load fast.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1

# A lost worker is noticed after 3 s, not 45 s; it bounds recovery.
group.consumer.assignors=range,uniform
group.consumer.min.session.timeout.ms=3000
group.consumer.session.timeout.ms=3000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
group.min.session.timeout.ms=2000
group.initial.rebalance.delay.ms=0

# The transaction of a dead producer ends within 1 s of its timeout, not 10 s.
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000

# 512 MB of heap, of which the cleaner would take 128.
log.cleaner.dedupe.buffer.size=16777216
num.recovery.threads.per.data.dir=2
`

// brokerLogging sends the broker's log to logs/kafka.log, at most 80 MB of it.
const brokerLogging = `status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = logs/kafka.log
appender.file.filePattern = logs/kafka.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %m (%c)%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
`

// kafka is the launcher of the broker.
type kafka struct {
	java       string            // program
	jars       string            // class path
	passwords  map[string]string // by user; none: nobody logs in
	authorized bool              // only the first user may do anything
}

func (kafka) name() string       { return "Kafka " + kafkaVersion }
func (kafka) stateName() string  { return "kafka.json" }
func (kafka) logNames() []string { return []string{"kafka.log", "kafka.out"} }
func (kafka) grace() time.Duration {
	return 20 * time.Second
}

// command writes the configuration for p and returns the broker's command
// line. A new data folder is formatted first.
func (k kafka) command(ctx context.Context, dir string, p ports) (*exec.Cmd, error) {
	if err := os.MkdirAll(filepath.Join(dir, "kafka"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kafka", "log4j2.properties"), []byte(brokerLogging), 0o644); err != nil {
		return nil, err
	}
	if err := k.format(ctx, dir, p); err != nil {
		return nil, err
	}
	properties := filepath.Join("kafka", "server.properties")
	if err := k.writeProperties(dir, properties, p, "kafka/data"); err != nil {
		return nil, err
	}
	cmd := exec.Command(k.java, "-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Dlog4j2.configurationFile=kafka/log4j2.properties",
		"-cp", k.jars, "kafka.Kafka", properties)
	return cmd, nil
}

// format makes the folder of the segments, all of it or nothing.
func (k kafka) format(ctx context.Context, dir string, p ports) error {
	data := filepath.Join(dir, "kafka", "data")
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	properties := filepath.Join("kafka", "format.properties")
	if err := k.writeProperties(dir, properties, p, "kafka/data.new"); err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	// A cluster id must not start with a dash: it would be read as a flag.
	id[0] &= 0x7f
	err := runTool(ctx, dir, k.java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile=kafka/log4j2.properties", "-cp", k.jars, "kafka.tools.StorageTool",
		"format", "-t", base64.RawURLEncoding.EncodeToString(id), "-c", properties)
	if err != nil {
		return fmt.Errorf("formatting the broker's data folder: %w", err)
	}
	return os.Rename(fresh, data)
}

func (k kafka) writeProperties(dir, name string, p ports, data string) error {
	protocol := "PLAINTEXT"
	if len(k.passwords) > 0 {
		protocol = "SASL_PLAINTEXT"
	}
	text := fmt.Sprintf(brokerProperties, p.Port, p.Second, data, protocol) + k.login()
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

// login returns the properties by which users log in; the broker itself is the
// first of them.
func (k kafka) login() string {
	if len(k.passwords) == 0 {
		return ""
	}
	users := slices.Sorted(maps.Keys(k.passwords))
	var b strings.Builder
	fmt.Fprintf(&b, "\n# Users.\nsasl.enabled.mechanisms=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n"+
		"listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\"", users[0], k.passwords[users[0]])
	for _, u := range users {
		fmt.Fprintf(&b, " user_%s=\"%s\"", u, k.passwords[u])
	}
	b.WriteString(";\n")
	if k.authorized {
		// ANONYMOUS is the broker on the listener of its own controller.
		fmt.Fprintf(&b, "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nallow.everyone.if.no.acl.found=false\nsuper.users=User:%s;User:ANONYMOUS\n", users[0])
	}
	return b.String()
}

// checkPasswords reports what cannot stand in the broker's configuration.
func checkPasswords(passwords map[string]string) error {
	for user, p := range passwords {
		if user == "" || strings.Trim(user, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return fmt.Errorf("Config.KafkaPasswords: the user %q is not made of a-z and 0-9", user)
		}
		if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Errorf("Config.KafkaPasswords: the password of %s is empty, or holds a quote, a backslash or no ASCII", user)
		}
	}
	return nil
}

// ready asks for what a worker needs at once: the brokers and both
// coordinators, whose topics the first question makes.
func (k kafka) ready(ctx context.Context, p ports) error {
	opts := []kgo.Opt{kgo.SeedBrokers(address(p.Port)), kgo.DialTimeout(time.Second), kgo.RetryTimeout(time.Second)}
	if users := slices.Sorted(maps.Keys(k.passwords)); len(users) > 0 {
		opts = append(opts, kgo.SASL(plain.Auth{User: users[0], Pass: k.passwords[users[0]]}.AsMechanism()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	const probe = "jobtrail-localstack"
	meta, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if len(meta.Brokers) == 0 || meta.Controller < 0 {
		return errors.New("no controller yet")
	}
	return errors.Join(
		admin.FindGroupCoordinators(ctx, probe).Error(),
		admin.FindTxnCoordinators(ctx, probe).Error(),
	)
}

func classPath(dir string) string {
	return filepath.Join(dir, "lib") + string(filepath.Separator) + "*"
}

func checkClassPath(cache string) error {
	if strings.ContainsRune(cache, filepath.ListSeparator) {
		return fmt.Errorf("the cache folder %q must not hold a %q: it is part of a Java class path", cache, filepath.ListSeparator)
	}
	return nil
}
