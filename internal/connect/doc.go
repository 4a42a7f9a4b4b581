// Package connect is how every command of jobtrail reaches Kafka and
// ClickHouse: the structs Kafka and ClickHouse name the environment variables,
// Parse fills them and reports every problem at once, and their methods turn
// them into client options. The package itself reads no environment: a command
// passes its own.
//
// A command puts the structs it needs, and its own variables, into one struct:
//
//	type config struct {
//		connect.Kafka
//		Group string `env:"JOBTRAIL_GROUP,required" doc:"Name of the worker group."`
//	}
//
//	var cfg config
//	err := connect.Parse(os.Environ(), &cfg)
//
// and prints the same struct's variables in its help with Reference and
// WriteText. A field's doc tag is its meaning; the env tag may say required;
// envDefault is its default.
package connect
