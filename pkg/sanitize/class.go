package sanitize

// class names what was found.
type class uint8

const (
	classKnown class = iota
	classKeyValue
	classURL
	classHeader
	classJWT
	classVendor
	classPEM
	classOpaque
	classEmail
	classCard
	classIBAN
	classPhone
	classNational
	classIP
	classBody
	classPath
	classCLI
	classLiteral
	classExtra // the first configured class; the others follow it
)

var classNames = [...]string{
	classKnown:    "known-secret",
	classKeyValue: "key-value",
	classURL:      "url",
	classHeader:   "header",
	classJWT:      "jwt",
	classVendor:   "vendor-token",
	classPEM:      "pem",
	classOpaque:   "opaque",
	classEmail:    "email",
	classCard:     "card",
	classIBAN:     "iban",
	classPhone:    "phone",
	classNational: "national-id",
	classIP:       "ip",
	classBody:     "body",
	classPath:     "path",
	classCLI:      "cli",
	classLiteral:  "literal",
	classExtra:    "extra",
}

func (c class) String() string { return classNames[min(c, classExtra)] }
