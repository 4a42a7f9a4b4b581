package sanitize

import (
	"net/netip"
	"strings"
)

// ipNear is how far before an address a word is looked for that makes it the
// address of a person.
const ipNear = 24

var ipWords = [...]string{"client", "remote", "forwarded", "for", "visitor", "real", "connecting"}

// ipv4 looks at a digit at t[i] and returns the span of a dotted quad that is
// a public address, or any address of a client. A version is none.
func (s *scanner) ipv4(i int) (start, end int) {
	t := s.t
	if i > 0 && (t[i-1] == '.' || afterLetter(t, i)) {
		return 0, 0
	}
	if end = quad(t, i); end == 0 {
		return 0, 0
	}
	addr, err := netip.ParseAddr(t[i:end])
	if err != nil || !s.exposed(addr, i) || version(t, i, end) {
		return 0, 0
	}
	return i, end
}

// quad returns the end of a dotted quad at t[i], or 0.
func quad(t string, i int) int {
	k := i
	for part := range 4 {
		if part > 0 {
			if k == len(t) || t[k] != '.' {
				return 0
			}
			k++
		}
		first := k
		for k < len(t) && isDigit(t[k]) && k-first < 4 {
			k++
		}
		if k == first || k-first > 3 {
			return 0
		}
	}
	if k < len(t) && (isLetter(t[k]) || t[k] == '_') || k+1 < len(t) && t[k] == '.' && isDigit(t[k+1]) {
		return 0
	}
	return k
}

// exposed reports whether an address at t[i] is to be removed: a public one
// always, one of a private network when it is that of a client.
func (s *scanner) exposed(a netip.Addr, i int) bool {
	a = a.Unmap()
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		return false
	}
	if a.Is4() {
		b := a.As4()
		if b[0] == 0 || b[0] >= 240 {
			return false
		}
		if !a.IsPrivate() && !a.IsLinkLocalUnicast() && (b[0] != 100 || b[1]&0xC0 != 64) {
			return true
		}
	} else if b := a.As16(); b[0]&0xE0 == 0x20 {
		return true
	}
	return s.ofClient(i)
}

// ofClient reports whether the words before t[i] say that an address is that
// of a client.
func (s *scanner) ofClient(i int) bool {
	t := s.t
	k := wordBefore(t, i, ipNear, ipWords[:])
	if k >= 0 && ipWords[k] != "for" {
		return true
	}
	return k >= 0 && strings.Contains(strings.ToLower(t[max(0, i-ipNear):i]), "forwarded")
}

// version reports whether a dotted quad t[i:end] is a version: after "v",
// after "version", or right after the name of a program and "/" or a blank.
func version(t string, i, end int) bool {
	if end+1 < len(t) && t[end] == ':' && isDigit(t[end+1]) {
		return false
	}
	if end+1 < len(t) && (t[end] == '-' || t[end] == '+') && isLetter(t[end+1]) {
		return true
	}
	if i == 0 {
		return false
	}
	sep := t[i-1]
	if sep != '/' && sep != ' ' && sep != '-' && sep != '=' && sep != ':' && sep != '(' && sep != '_' {
		return false
	}
	k := i - 1
	for k > 0 && (t[k-1] == ' ' || t[k-1] == ':' || t[k-1] == '=') {
		k--
	}
	first := k
	for first > 0 && k-first < 24 && (isAlnum(t[first-1]) || t[first-1] == '.' || t[first-1] == '+' || t[first-1] == '#') {
		first--
	}
	first = afterEscape(t, first, k)
	word := t[first:k]
	if word == "" {
		return false
	}
	if indexFold(word, versionWords[:]) >= 0 || len(word) > 3 && strings.EqualFold(word[:3], "lib") {
		return true
	}
	return (sep == '/' || sep == '-') && (first == 0 || t[first-1] != '/') && isLetter(word[0]) &&
		indexFold(word, protocolWords[:]) < 0
}

// versionWords come before a version.
var versionWords = [...]string{
	"v", "version", "ver", "release", "build", "rev", "driver", "sdk", "go", "java", "jdk", "jre", "openjdk",
	"kafka", "clickhouse", "chrome", "chromium", "safari", "firefox", "edg", "opera", "opr", "webkit", "nginx",
	"apache", "openssl", "python", "npm", "postgres", "postgresql", "mysql", "mariadb", "redis", "oracle",
	"windows", "linux", "kernel", "macos", "android", "ios", "docker", "kubernetes", "kubectl", "helm", "terraform",
	"librdkafka", "confluent", "redpanda", "spark", "flink", "hadoop", "zookeeper", "elasticsearch", "opensearch",
	"dotnet", "maven", "gradle", "curl", "grpc", "protobuf", "electron", "skype", "teams", "upgrade", "upgraded",
}

// protocolWords come before an address.
var protocolWords = [...]string{
	"tcp", "udp", "ip", "ipv4", "inet", "host", "client", "remote", "addr", "address", "from", "to", "peer", "tcp4",
	"server", "http", "https", "icmp", "src", "dst", "node",
}

// ipv6 looks at a hexadecimal digit at t[i] and returns the span of an address
// that is public, or that of a client.
func (s *scanner) ipv6(i int) (start, end int) {
	t := s.t
	if i < s.ipUntil || i > 0 && (t[i-1] == ':' && (i == 1 || t[i-2] != ':') || t[i-1] == '.') {
		return 0, 0
	}
	k := i
	for k < len(t) && isHex(t[k]) && k-i < 5 {
		k++
	}
	if k == len(t) || t[k] != ':' || k-i > 4 {
		return 0, 0
	}
	colons := 0
	for k < len(t) && (isHex(t[k]) || t[k] == ':' || t[k] == '.') && k-i < 46 {
		if t[k] == ':' {
			colons++
		}
		k++
	}
	s.ipUntil = k
	if colons < 2 || k < len(t) && isAlnum(t[k]) {
		return 0, 0
	}
	for k > i && (t[k-1] == '.' || t[k-1] == ':' && t[k-2] != ':') {
		k--
	}
	addr, err := netip.ParseAddr(t[i:k])
	if err != nil || !s.exposed(addr, i) {
		return 0, 0
	}
	return i, k
}
