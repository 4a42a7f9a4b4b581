package sanitize

// keyKind says what a key promises about its value.
type keyKind uint8

const (
	noKey     keyKind = iota
	strongKey         // any value is secret
	pluralKey         // any value is secret that does not begin a sentence
	shortKey          // any value is secret that is not a small number or a word of prose
	plainKey          // as weakKey, and the value is no identifier
	weakKey           // an opaque value is secret
	toldKey           // a quoted value is secret, and a bare one that begins no sentence
	queryKey          // an opaque value is secret in the query of a URL
	safeKey           // the value is known not to be secret
)

// A keyWord is how a key ends, in lower case and without separators. A whole
// word must be a component of its own: "user_pin", but not "spin".
type keyWord struct {
	text  string
	kind  keyKind
	whole bool
}

// keyWords are grouped by their last letter. Within a group the first match
// decides, so longer words come first.
var keyWords = [26][]keyWord{
	'c' - 'a': {{"cvc", strongKey, true}},
	'd' - 'a': {
		{"password", strongKey, false}, {"passwd", strongKey, false}, {"pswd", strongKey, true}, {"pwd", strongKey, true},
		{"accesskeyid", strongKey, false}, {"sessionid", strongKey, false}, {"sessid", strongKey, false},
		{"secretid", strongKey, false}, {"connectsid", strongKey, false}, {"sid", strongKey, true}, {"appid", queryKey, true},
	},
	'e' - 'a': {
		{"passphrase", strongKey, false}, {"secretkeybase", strongKey, false}, {"passcode", strongKey, false}, {"sharedaccesssignature", strongKey, false},
		{"otpcode", strongKey, true}, {"pincode", strongKey, true}, {"pinblock", strongKey, true},
		{"signature", weakKey, true}, {"nonce", weakKey, true}, {"code", queryKey, true}, {"state", queryKey, true},
	},
	'g' - 'a': {{"connectionstring", strongKey, false}, {"connstring", strongKey, false}, {"sig", queryKey, true}},
	'h' - 'a': {{"auth", weakKey, true}},
	'l' - 'a': {{"credential", pluralKey, false}},
	'n' - 'a': {
		{"accesstoken", strongKey, false}, {"refreshtoken", strongKey, false}, {"idtoken", strongKey, true},
		{"authtoken", strongKey, false}, {"sessiontoken", strongKey, false}, {"bearertoken", strongKey, false},
		{"securitytoken", strongKey, false}, {"csrftoken", strongKey, false}, {"xsrftoken", strongKey, false},
		{"apitoken", strongKey, false}, {"secrettoken", strongKey, false}, {"sastoken", strongKey, false},
		{"bottoken", strongKey, true}, {"bearer", strongKey, true}, {"session", weakKey, true},
		{"token", weakKey, true}, {"pin", strongKey, true}, {"ssn", strongKey, true},
	},
	'p' - 'a': {{"totp", strongKey, true}, {"otp", strongKey, true}},
	'r' - 'a': {{"connstr", strongKey, false}, {"connectionstr", strongKey, false}},
	's' - 'a': {{"pass", shortKey, true}},
	't' - 'a': {{"clientsecret", strongKey, false}, {"secret", strongKey, false}},
	'v' - 'a': {{"cvv", strongKey, true}},
	'w' - 'a': {{"pw", shortKey, true}},
	'y' - 'a': {
		{"secretaccesskey", strongKey, false}, {"sharedaccesskey", strongKey, false}, {"secretkey", strongKey, false},
		{"apikey", strongKey, false}, {"accesskey", strongKey, false}, {"privatekey", strongKey, false},
		{"signingkey", strongKey, false}, {"encryptionkey", strongKey, false}, {"decryptionkey", strongKey, false},
		{"masterkey", strongKey, false}, {"accountkey", strongKey, false}, {"storagekey", strongKey, false},
		{"sharedkey", strongKey, false}, {"authkey", strongKey, false}, {"licensekey", strongKey, false},
		{"hmackey", strongKey, false}, {"aeskey", strongKey, false}, {"sshkey", strongKey, false},
		{"partitionkey", safeKey, false}, {"primarykey", safeKey, false}, {"routingkey", safeKey, false},
		{"foreignkey", safeKey, false}, {"sortkey", safeKey, false}, {"sortingkey", safeKey, false},
		{"idempotencykey", safeKey, false}, {"cachekey", safeKey, false}, {"rowkey", safeKey, false},
		{"jobkey", safeKey, false}, {"messagekey", safeKey, false}, {"recordkey", safeKey, false},
		{"orderingkey", safeKey, false}, {"uniquekey", safeKey, false}, {"duplicatekey", safeKey, false},
		{"dedupkey", safeKey, false}, {"dedupekey", safeKey, false}, {"objectkey", safeKey, false},
		{"publickey", safeKey, false}, {"indexkey", safeKey, false}, {"mapkey", safeKey, false},
		{"concurrencykey", safeKey, false}, {"key", plainKey, true},
	},
}

// maxKey is how much of a key, seen from its end, is looked at.
const maxKey = 40

// classify returns what the key t[start:end] promises. Separators and case do
// not matter, a plural and trailing digits are as good as the word itself.
func classify(t string, start, end int) keyKind {
	start = max(start, end-maxKey)
	if !keyTail(t, start, end) {
		return noKey
	}
	var word [maxKey]byte
	var parts uint64 // bit n: a component begins at word[n]
	n, edge := 0, true
	for i := start; i < end; i++ {
		c := t[i]
		if !isAlnum(c) {
			edge = true
			continue
		}
		if isUpper(c) && i > start && !isUpper(t[i-1]) {
			edge = true
		}
		if edge {
			parts |= 1 << n
			edge = false
		}
		word[n] = lower(c)
		n++
	}
	for n > 0 && isDigit(word[n-1]) {
		n--
	}
	if k := endsIn(word[:n], parts); k != noKey || n < 4 || word[n-1] != 's' {
		return k
	}
	if k := endsIn(word[:n-1], parts); k != weakKey {
		return k
	}
	return plainKey
}

// keyTails holds for the last letter of every key word a bit for the one
// before it.
var keyTails = func() (bits [26]uint32) {
	for last, list := range keyWords {
		for _, w := range list {
			bits[last] |= 1 << (w.text[len(w.text)-2] & 31)
		}
	}
	return bits
}()

// keyTail reports whether the last two letters of t[start:end] are those of a
// key word, of which the plural counts too.
func keyTail(t string, start, end int) bool {
	for end > start && !isLetter(t[end-1]) {
		end--
	}
	if end-start < 2 {
		return false
	}
	if last := t[end-1]&31 - 1; keyTails[last]&(1<<(t[end-2]&31)) != 0 {
		return true
	}
	if t[end-1]|0x20 != 's' || end-start < 3 || !isLetter(t[end-2]) {
		return false
	}
	return keyTails[t[end-2]&31-1]&(1<<(t[end-3]&31)) != 0
}

func endsIn(word []byte, parts uint64) keyKind {
	n := len(word)
	if n < 2 || !isLetter(word[n-1]) {
		return noKey
	}
	for _, w := range keyWords[word[n-1]-'a'] {
		at := n - len(w.text)
		if at < 0 || string(word[at:]) != w.text {
			continue
		}
		if !w.whole || parts&(1<<at) != 0 {
			return w.kind
		}
	}
	return noKey
}
