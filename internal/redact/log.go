package redact

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// NewLog returns a log that writes to w, lines of text or of JSON. Messages and
// values, errors among them, go through the sanitiser; keys do not. Durations
// are written as Go does, such as 1.5s. Several problems of an error, and the
// lines of a text that was taken apart, are a list in JSON; in a line of text
// they are parted by " | ".
func NewLog(w io.Writer, text bool, level slog.Level, clean *sanitize.Sanitizer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if text {
		return slog.New(handler{slog.NewTextHandler(w, opts), clean, true})
	}
	return slog.New(handler{slog.NewJSONHandler(w, opts), clean, false})
}

// Failed logs the error that ends a command: in JSON one line, as text one line
// a problem.
func Failed(log *slog.Logger, text bool, message string, clean *sanitize.Sanitizer, err error) {
	problems := clean.Problems(err)
	if !text {
		log.Error(message, "err", texts(problems))
		return
	}
	for _, problem := range problems {
		log.Error(message, "err", problem)
	}
}

// texts is one text as it is and several as a list.
func texts(list []sanitize.Text) any {
	if len(list) == 1 {
		return list[0].String()
	}
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = t.String()
	}
	return out
}

// handler cleans what goes to the next one.
type handler struct {
	next  slog.Handler
	clean *sanitize.Sanitizer
	text  bool
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.clean.Clean(r.Message).String(), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return handler{h.next.WithAttrs(out), h.clean, h.text}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.next.WithGroup(name), h.clean, h.text}
}

func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.clean.Clean(v.String()).String())
	case slog.KindDuration:
		v = slog.StringValue(v.Duration().String())
	case slog.KindGroup:
		attrs := make([]slog.Attr, len(v.Group()))
		for i, inner := range v.Group() {
			attrs[i] = h.attr(inner)
		}
		v = slog.GroupValue(attrs...)
	case slog.KindAny:
		v = h.any(v.Any())
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// list parts the texts of a list in a line of text.
func (h handler) list(v any) slog.Value {
	if list, ok := v.([]string); ok && h.text && slices.ContainsFunc(list, func(s string) bool { return strings.ContainsAny(s, " \t") }) {
		return slog.StringValue(strings.Join(list, " | "))
	}
	return slog.AnyValue(v)
}

// any keeps lists of texts apart; of every other value its text is logged.
func (h handler) any(v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		return h.list(texts(h.clean.Problems(v)))
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = h.clean.Clean(s).String()
		}
		return h.list(out)
	case []byte:
		return slog.StringValue(h.clean.Clean(string(v)).String())
	}
	return slog.StringValue(h.clean.Clean(fmt.Sprintf("%+v", v)).String())
}
