package sanitize

// placeholder reports whether a value is a word that says that there is no
// value, or what is wrong with it.
func placeholder(v string) bool {
	if toBeFilled(v) {
		return true
	}
	if len(v) > 16 {
		return false
	}
	var buf [16]byte
	n := 0
	for ; n < len(v); n++ {
		buf[n] = lower(v[n])
	}
	switch string(buf[:n]) {
	case "nil", "null", "none", "missing", "required", "invalid", "expired", "wrong", "empty", "unset",
		"undefined", "incorrect", "rejected", "denied", "failed", "failure", "mismatch", "unknown", "true",
		"false", "yes", "no", "ok", "n/a", "<nil>", "<none>", "<null>", "<empty>", "<unset>", "(nil)", "(none)",
		"revoked", "disabled", "enabled", "bad", "malformed", "unsupported", "unauthorized", "forbidden",
		"hidden", "redacted", "<redacted>", "<hidden>", "changed", "rotated", "reset", "optional", "absent",
		"unavailable", "set", "ref", "string", "undef", "nan", "blank", "present", "found", "not_found",
		"notfound", "unreadable", "unauthenticated", "invalid_grant", "invalid_client", "ignored":
		return true
	}
	for i := range len(v) {
		if v[i] != '*' && v[i] != 'x' && v[i] != 'X' && v[i] != '.' && v[i] != '-' {
			return false
		}
	}
	return true
}

// toBeFilled reports whether v is the name of a variable to be filled in, as in
// ${DB_PASSWORD}, of which the last brace may be cut off.
func toBeFilled(v string) bool {
	if len(v) < 4 || v[0] != '$' || v[1] != '{' {
		return false
	}
	for k := 2; k < len(v); k++ {
		if c := v[k]; !isUpper(c) && !isDigit(c) && c != '_' && !(c == '}' && k == len(v)-1) {
			return false
		}
	}
	return true
}

// prose reports whether a word after "key: " begins a sentence or the next
// link of an error chain and not a value.
func prose(v string) bool {
	if placeholder(v) {
		return true
	}
	if n := len(v); n > 0 && v[n-1] == ':' {
		v = v[:n-1]
	}
	if len(v) > 16 {
		return false
	}
	var buf [16]byte
	n := 0
	for ; n < len(v); n++ {
		buf[n] = lower(v[n])
	}
	switch string(buf[:n]) {
	case "must", "should", "cannot", "can't", "can", "could", "couldn't", "not", "is", "isn't", "was", "has", "hasn't",
		"had", "have", "too", "the", "a", "an", "for", "from", "in", "of", "to", "at", "on", "by", "and", "or", "but",
		"with", "does", "doesn't", "did", "didn't", "been", "be", "are", "were", "will", "won't", "it", "its",
		"this", "that", "there", "please", "only", "expected", "unexpected", "error", "unable", "invalid",
		"authentication", "authorization", "validation", "verification", "length", "minimum", "maximum", "check",
		"access", "permission", "operation", "timeout", "context", "connection", "unrecognized", "illegal", "key",
		"value", "field", "user", "account", "user's", "your", "our", "name", "policy", "status", "code", "http",
		"https", "net", "tls", "x509", "asn1", "pem", "crypto", "rpc", "grpc", "oauth2", "json", "yaml", "xml",
		"sql", "pq", "dial", "open", "read", "write", "stat", "lstat", "exec", "get", "post", "put", "delete",
		"lookup", "decode", "decoding", "encode", "encoding", "parse", "parsing", "fetch", "fetching", "load",
		"loading", "reading", "writing", "opening", "creating", "create", "update", "updating", "decrypt",
		"decrypting", "verify", "verifying", "eof", "i/o", "io", "jwt", "jose", "kms", "vault", "aws", "no such",
		"unmarshal", "marshal", "strconv", "server", "client", "request", "response", "already", "never", "still",
		"store", "file", "path", "signature", "base64", "hex", "square/go-jose", "crypto/rsa", "crypto/ecdsa",
		"ssh", "ldap", "saml", "see", "use", "try", "got", "when", "while", "because", "as", "if", "no", "none",
		"too-short", "relation", "column", "table", "database", "role", "schema", "constraint", "function", "all", "any", "each", "one", "two", "unmarshaling",
		"authenticating", "contains", "exceeds", "needs", "failing", "failed", "wanted", "want", "need", "via":
		return true
	}
	return false
}
