package redact

import (
	"slices"
	"strings"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// New returns the sanitiser of a command. It removes the secret variables of
// config (nil for none), what is a secret among the variables of environ
// ("NAME=value" lines as of os.Environ), read by the command or not, and more.
func New(config any, environ []string, more ...string) *sanitize.Sanitizer {
	secrets := slices.Concat(inEnvironment(environ), more)
	if config != nil {
		secrets = append(secrets, connect.Secrets(config)...)
	}
	return sanitize.New(sanitize.Config{Secrets: secrets, Extractors: []sanitize.Extractor{kafkaError, clickHouseError, chError}})
}

// secretClasses are the classes of what is a secret of the process when it is
// found in its environment. The others are found in texts by themselves.
var secretClasses = []string{"key-value", "url", "header", "jwt", "vendor-token", "pem"}

// inEnvironment returns the secrets among environment variables: the values of
// those whose names say so, and what is one by its looks, such as the password
// of a URL.
func inEnvironment(environ []string) []string {
	finder := sanitize.New(sanitize.Config{})
	var secrets []string
	for _, line := range environ {
		name, value, ok := strings.Cut(line, "=")
		if !ok || value == "" {
			continue
		}
		// The value alone: what makes all of it a secret is its name, which is
		// tried with a short word, because the value may hold anything.
		const word = "x7Kq2mZp"
		if _, found := finder.Explain(name + "=" + word); slices.ContainsFunc(found, isSecret) {
			if _, found := finder.Explain(name + "=" + value); slices.ContainsFunc(found, isSecret) {
				secrets = append(secrets, value)
			}
		}
		// Offsets are those of the normalised text: of plain text it is the text.
		if !plain(value) {
			continue
		}
		_, found := finder.Explain(value)
		for _, f := range found {
			if !isSecret(f) {
				continue
			}
			secrets = append(secrets, value[f.Start:f.End])
			if _, password, ok := strings.Cut(value[f.Start:f.End], ":"); ok && f.Class == "url" {
				secrets = append(secrets, password)
			}
		}
	}
	return secrets
}

func isSecret(f sanitize.Finding) bool { return slices.Contains(secretClasses, f.Class) }

// plain reports whether normalising leaves s as it is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) < 4096 && !strings.Contains(s, "  ")
}

// Lines returns an error as lines for the person who gave the input, each
// cleaned: other than in a Text, paths and places in the input stay.
func Lines(clean *sanitize.Sanitizer, err error) []string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = clean.Clean(l).String()
	}
	return lines
}
