package sanitize

import "strings"

// commandNear is how far after the name of a command its options are looked
// for.
const commandNear = 256

// option looks at a dash at t[i] that begins a word and returns the span of
// the secret value of a command line option.
func (s *scanner) option(i int) (start, end int) {
	t := s.t
	if i > 0 && (isAlnum(t[i-1]) && !(i > 1 && lineBreak(t, i-2)) || t[i-1] == '-') {
		return 0, 0
	}
	if i+2 >= len(t) {
		return 0, 0
	}
	if t[i+1] == '-' {
		return s.longOption(i)
	}
	at := i + 2
	switch c := t[i+1]; {
	case c == 'u' && t[at] == ' ':
		if start, end = s.argument(at); start < end && strings.IndexByte(t[start:end], ':') > 0 || markerAt(t, start) {
			return start, end
		}
	case c == 'p' && i < s.mysqlUntil && t[at] != ' ' && t[at] != '-' && !strings.HasPrefix(t[i:], "-port"):
		start, end, _ = s.value(at)
		return start, end
	case (c == 'p' || c == 'a') && i < s.commandUntil && t[at] == ' ':
		return s.argument(at)
	}
	return 0, 0
}

// longOption is option for "--name value". The form with "=" is a pair.
func (s *scanner) longOption(i int) (start, end int) {
	t := s.t
	k := i + 2
	for k < len(t) && keyByte(t[k]) {
		k++
	}
	if k == len(t) || k == i+2 {
		return 0, 0
	}
	at := k
	if t[at] == '"' || t[at] == '\'' { // ["--password", "x"]
		at++
		for at < len(t) && at-k < 3 && (t[at] == ',' || t[at] == ' ') {
			at++
		}
		if at-k < 2 || t[at-1] != ' ' && t[at-1] != ',' || at == len(t) || t[at] != '"' && t[at] != '\'' {
			return 0, 0
		}
		at--
	} else if t[at] != ' ' {
		return 0, 0
	}
	name := t[i+2 : k]
	kind := classify(t, i+2, k)
	if kind == strongKey || kind == pluralKey || kind == shortKey || kind == weakKey || kind == plainKey {
		start, end = s.argument(at)
		if start < end && (kind != weakKey && kind != plainKey && !prose(t[start:end]) || secretValue(t[start:end], weakKey, false)) {
			return start, end
		}
		return 0, 0
	}
	if name == "user" || name == "proxy-user" {
		if start, end = s.argument(at); start < end && strings.IndexByte(t[start:end], ':') > 0 {
			return start, end
		}
	}
	return 0, 0
}

// argument returns the span of the argument after the blanks at t[at].
func (s *scanner) argument(at int) (start, end int) {
	t := s.t
	for at < len(t) && (t[at] == ' ' || t[at] == ',') {
		at++
	}
	if at == len(t) || t[at] == '-' {
		return 0, 0
	}
	start, end, _ = s.value(at)
	return start, end
}

// commandWords are how the commands begin that command knows.
var commandWords = [...]string{"mysql", "mariadb", "sshpass", "redis-cli", "login", "vault", "sqlplus"}

// command looks at a word at t[i]. It remembers a command whose short options
// take a password, and returns the span of a secret that is an argument.
func (s *scanner) command(i int) (start, end int) {
	t := s.t[i:]
	switch {
	case strings.HasPrefix(t, "mysql"), strings.HasPrefix(t, "mariadb"):
		s.mysqlUntil = i + commandNear
	case strings.HasPrefix(t, "sshpass "), strings.HasPrefix(t, "redis-cli "), strings.HasPrefix(t, "login -"):
		s.commandUntil = i + commandNear
	case strings.HasPrefix(t, "vault login "):
		start, end = s.argument(i + 11)
		if start < end && opaqueValue(s.t[start:end]) {
			return start, end
		}
	case strings.HasPrefix(t, "sqlplus "):
		start, end = s.argument(i + 7)
		if strings.IndexByte(s.t[start:end], '/') > 0 {
			if at := strings.LastIndexByte(s.t[start:end], '@'); at > 0 {
				end = start + at
			}
			return start, end
		}
	}
	return 0, 0
}
