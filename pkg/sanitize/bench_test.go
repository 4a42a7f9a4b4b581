package sanitize

import (
	"strings"
	"testing"
)

// cleanText is n bytes of an ordinary error message.
func cleanText(n int) string {
	const text = "writing batch 4711 of orders to partition 12 at offset 90210: context deadline exceeded (attempt 3 of 5, " +
		"next in 2m30s); broker kafka-2.internal:9092 answered NOT_LEADER_OR_FOLLOWER after 1.25s, epoch 7; "
	return strings.Repeat(text, n/len(text)+1)[:n]
}

// dirtyText is n bytes in which every word announces a secret.
func dirtyText(n int) string {
	text := "dial postgres://svc:" + "Tr0ub4dor@db1:5432/app?password=hunter2 failed: token=" + "abcDEF123456 " +
		"Authorization: " + "Bearer abc.def.ghi\n user jane@example.org card 4111 1111 1111 1111 from 203.0.113.77, "
	return strings.Repeat(text, n/len(text)+1)[:n]
}

func BenchmarkClean300(b *testing.B) {
	benchmark(b, cleanText(300))
}

func BenchmarkClean120(b *testing.B) {
	benchmark(b, cleanText(120))
}

func BenchmarkDirty300(b *testing.B) {
	benchmark(b, dirtyText(300))
}

func BenchmarkDirty4K(b *testing.B) {
	benchmark(b, dirtyText(4<<10))
}

func BenchmarkWorst16K(b *testing.B) {
	for name, text := range hostile(16 << 10) {
		b.Run(name, func(b *testing.B) { benchmark(b, text) })
	}
}

func benchmark(b *testing.B, text string) {
	z := New(Config{})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		z.Clean(text)
	}
}

// hostile returns texts of n bytes that make a careless scanner slow.
func hostile(n int) map[string]string {
	texts := map[string]string{"dirty": dirtyText(n), "clean": cleanText(n)}
	for name, unit := range map[string]string{
		"letters": "a", "digits": "7", "dots": "1.", "groups": "4111 ", "pairs": "password=", "colons": "password:",
		"quotes": `password="`, "schemes": "x://", "ats": "a@", "mails": "a@b.cd ", "dashes": "-", "begin": "-----BEGIN ",
		"braces": "{", "objects": `{"a":`, "tags": "<", "percent": "%25", "escapes": `\u0040`, "backslashes": `\`,
		"cookies": "cookie: a ", "bearers": "bearer a ", "random": "aB3dE5gH", "phones": "tel 1234567 ",
		"calls": "call 1234567 ", "hex": "2001:", "iban": "DE89 ", "jwt": "eyJhbGciOiJ.", "quads": "1.2.3.4 ",
		"controls": "\x1b]", "wide": "\uff41", "invalid": "\xff", "options": "--password ", "keys": ")=(",
		"near": "near 'a ", "dsn": "a:b@tcp(", "at": "%40", "spaces": " ", "slashes": "/home/", "vendor": "sk_live_",
		"runs": "aB3dE5gHaB3dE5gHaB3dE5gHaB3dE5gHx ", "users": `:\\users\`, "key words": "key token key: ",
	} {
		texts[name] = strings.Repeat(unit, n/len(unit)+1)[:n]
	}
	return texts
}
