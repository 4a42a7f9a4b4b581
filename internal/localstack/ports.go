package localstack

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Default ports for people, which are those of the servers themselves and of
// docker-compose.yml.
const (
	DefaultKafkaPort          = 9092
	DefaultClickHousePort     = 9000
	DefaultClickHouseHTTPPort = 8123
)

// ports are the two ports of one server: clients and controller for Kafka,
// native and HTTP for ClickHouse. 0 means any free one.
type ports struct {
	Port   int `json:"port"`
	Second int `json:"second_port"`
}

// fits reports whether used is what p asks for.
func (p ports) fits(used ports) bool {
	return (p.Port == 0 || p.Port == used.Port) && (p.Second == 0 || p.Second == used.Second)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// A PortTakenError says that somebody else listens on a port that a server was
// told to use.
type PortTakenError struct {
	Server string
	Port   int
	// Dir is the data folder of the stack of this user that has the port; empty if
	// none has.
	Dir string
}

func (e *PortTakenError) Error() string {
	if e.Dir != "" {
		return fmt.Sprintf("port %d for %s is taken by the stack in %s (stop that one with: jobtrail down --data %[3]s)", e.Port, e.Server, e.Dir)
	}
	return fmt.Sprintf("port %d for %s is taken (see who has it with: ss -ltnp 'sport = :%d')", e.Port, e.Server, e.Port)
}

// holder returns the data folder of the stack that runs on the port, as far as
// it is this user's.
func holder(port int) string {
	for _, dir := range runningDirs() {
		for _, l := range []launcher{kafka{}, clickHouse{}} {
			text, err := os.ReadFile(filepath.Join(dir, l.stateName()))
			if err != nil {
				continue
			}
			var st state
			if json.Unmarshal(text, &st) == nil && (st.Port == port || st.Second == port) {
				return dir
			}
		}
	}
	return ""
}

func isFree(port int) bool {
	l, err := net.Listen("tcp4", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Free ports are taken from below the range that the kernel gives to outgoing
// connections: there, a client that dials a stopped server could be given the
// server's own port, connect to itself and keep it.
const (
	lowestFree  = 20000
	highestFree = 32000
)

// choose fills in free ports where p has 0 and checks the others. chosen says
// whether there was one to fill in.
func (p ports) choose(server string) (_ ports, chosen bool, err error) {
	for _, port := range []*int{&p.Port, &p.Second} {
		if *port != 0 {
			if !isFree(*port) {
				return p, chosen, &PortTakenError{Server: server, Port: *port, Dir: holder(*port)}
			}
			continue
		}
		chosen = true
		for range 1000 {
			if candidate := lowestFree + rand.IntN(highestFree-lowestFree); candidate != p.Port && isFree(candidate) {
				*port = candidate
				break
			}
		}
		if *port == 0 {
			return p, chosen, fmt.Errorf("finding a free port for %s between %d and %d: none", server, lowestFree, highestFree)
		}
	}
	return p, chosen, nil
}
