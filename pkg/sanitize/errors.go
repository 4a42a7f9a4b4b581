package sanitize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
)

// maxDepth and maxNodes bound the walk of an error tree.
const (
	maxDepth = 32
	maxNodes = 64
)

// Error returns the sanitised message of err, the empty Text for nil. Errors
// of known types anywhere in its tree are written without the values they
// hold: an address without path and query, a path as its last element. In
// strict mode an error of unknown type is its type name.
func (z *Sanitizer) Error(err error) (text Text) {
	if err == nil {
		return Text{}
	}
	defer func() {
		if recover() != nil { // a method of err
			z.closed.Add(1)
			text = Text{marker}
		}
	}()
	w := walk{z: z}
	return z.Clean(w.text(err, 0))
}

// Problems returns the sanitised message of each of the errors that err joins
// (errors.Join), each with the words that wrap all of them, and one of every
// other error; nil for nil. A line break in a message is escaped as everywhere:
// it makes no problem of its own. At most maxNodes are returned.
func (z *Sanitizer) Problems(err error) (texts []Text) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // a method of err
			z.closed.Add(1)
			texts = []Text{{marker}}
		}
	}()
	for _, problem := range apart(err, 0) {
		if len(texts) == maxNodes {
			break
		}
		texts = append(texts, z.Error(problem))
	}
	return texts
}

// apart returns the errors that err joins, each under the words that wrap them.
func apart(err error, depth int) []error {
	inner := unwrap(err)
	if depth > maxDepth || len(inner) == 0 {
		return []error{err}
	}
	if len(inner) == 1 {
		under := apart(inner[0], depth+1)
		words, found := strings.CutSuffix(err.Error(), inner[0].Error())
		if len(under) == 1 || !found {
			return []error{err}
		}
		for i, e := range under {
			under[i] = &wrapped{words, e}
		}
		return under
	}
	if err.Error() != errors.Join(inner...).Error() {
		return []error{err}
	}
	var all []error
	for _, e := range inner {
		if e != nil {
			all = append(all, apart(e, depth+1)...)
		}
	}
	return all
}

// wrapped is one of several errors under the words that wrap all of them.
type wrapped struct {
	words string
	err   error
}

func (w *wrapped) Error() string { return w.words + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// walk writes the text of an error tree.
type walk struct {
	z     *Sanitizer
	nodes int
}

// text returns what may be kept of err, which is depth errors below the top.
func (w *walk) text(err error, depth int) string {
	if w.nodes++; depth > maxDepth || w.nodes > maxNodes {
		return marker
	}
	if s, known := w.known(err, depth); known {
		return s
	}
	if w.z.cfg.Strict {
		return w.strict(err, depth)
	}
	message := err.Error()
	if len(message) > 2*maxLook {
		message = message[:2*maxLook] // still long enough for Clean to see that it was cut
	}
	for _, inner := range unwrap(err) {
		if inner == nil {
			continue
		}
		if old := inner.Error(); old != "" {
			message = strings.Replace(message, old, w.text(inner, depth+1), 1)
		}
	}
	return message
}

// strict returns the type name of err and the texts of what it wraps.
func (w *walk) strict(err error, depth int) string {
	name := fmt.Sprintf("%T", err)
	inner := unwrap(err)
	if len(inner) == 0 {
		if text := sentinel(err); text != "" {
			return text
		}
		return name
	}
	parts := make([]string, 0, len(inner))
	for _, e := range inner {
		if e != nil {
			parts = append(parts, w.text(e, depth+1))
		}
	}
	return strings.Join(parts, "; ")
}

// unwrap returns the errors that err wraps.
func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// sentinel returns the text of the error of the standard library that err says
// it is, or "".
func sentinel(err error) string {
	for _, s := range [...]error{
		context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid,
		fs.ErrClosed, os.ErrDeadlineExceeded, net.ErrClosed, strconv.ErrRange, strconv.ErrSyntax, errors.ErrUnsupported,
		http.ErrHandlerTimeout, http.ErrServerClosed, http.ErrNoCookie, http.ErrMissingFile,
	} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return ""
}

// known returns the text of err when its type is known.
func (w *walk) known(err error, depth int) (string, bool) {
	for _, extract := range w.z.cfg.Extractors {
		if s, ok := extract(err); ok {
			return s, true
		}
	}
	inner := func(e error) string {
		if e == nil {
			return "<nil>"
		}
		return w.text(e, depth+1)
	}
	switch e := err.(type) {
	case *url.Error:
		return e.Op + " " + strconv.Quote(hostOnly(e.URL)) + ": " + inner(e.Err), true
	case *net.OpError:
		return opText(e) + ": " + inner(e.Err), true
	case *net.DNSError:
		return "lookup " + e.Name + ": " + e.Err, true
	case *net.AddrError:
		return "address: " + e.Err, true
	case *net.ParseError:
		return "invalid " + e.Type, true
	case *fs.PathError:
		return e.Op + " " + baseName(e.Path) + ": " + inner(e.Err), true
	case *os.LinkError:
		return e.Op + " " + baseName(e.Old) + " " + baseName(e.New) + ": " + inner(e.Err), true
	case *os.SyscallError:
		return e.Syscall + ": " + inner(e.Err), true
	case *strconv.NumError:
		return "strconv." + e.Func + ": " + inner(e.Err), true
	case *json.SyntaxError:
		return fmt.Sprintf("json: syntax error at offset %d", e.Offset), true
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("json: cannot unmarshal into field %q of type %v at offset %d", e.Field, e.Type, e.Offset), true
	case *json.InvalidUnmarshalError, *json.UnsupportedTypeError:
		return err.Error(), true
	case *json.UnsupportedValueError:
		return "json: unsupported value", true
	case *json.MarshalerError:
		return "json: error calling a marshaler of " + e.Type.String() + ": " + inner(e.Err), true
	case *http.MaxBytesError:
		return err.Error(), true
	case interface{ SQLState() string }: // pgconn.PgError, pq.Error: messages quote values
		return "SQLSTATE " + e.SQLState(), true
	}
	return "", false
}

// hostOnly returns scheme and host of a URL, without all that may be secret in
// it; the marker when it cannot be parsed.
func hostOnly(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return marker
	}
	return u.Scheme + "://" + u.Host
}

// opText returns what a network operation did, without the local address.
func opText(e *net.OpError) string {
	s := e.Op
	if e.Net != "" {
		s += " " + e.Net
	}
	if e.Addr != nil {
		s += " " + e.Addr.String()
	}
	return s
}

func baseName(p string) string {
	return path.Base(strings.ReplaceAll(p, `\`, "/"))
}
