package jobsfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one mistake in a file.
type Problem struct {
	File string
	// Line and Column count from 1; the column counts characters.
	Line   int
	Column int
	// Key is the path of the value, such as types.charge-card.http.url; empty for
	// the file as a whole.
	Key string
	Msg string
}

// String returns "file:line:column: key: message".
func (p Problem) String() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Msg)
}

// Problems is every mistake of a file, in the order of the lines.
type Problems []Problem

// Error returns one line a problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

type position struct{ line, column int }

// report collects the problems of a file.
type report struct {
	file     string
	problems Problems
	at       map[string]position
	bad      map[string]bool
}

// add reports a problem of the value with the given key, at the place of that
// value or, where the file does not have it, of what should contain it.
func (r *report) add(key, format string, args ...any) {
	r.addAt(r.locate(key), key, format, args...)
}

func (r *report) addAt(pos position, key, format string, args ...any) {
	r.bad[key] = true
	p := Problem{r.file, pos.line, pos.column, key, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.problems, p) {
		r.problems = append(r.problems, p)
	}
}

func (r *report) locate(key string) position {
	for {
		if pos, ok := r.at[key]; ok {
			return pos
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return position{1, 1}
		}
		key = key[:i]
	}
}

// err returns the problems in the order of the lines, nil when there are none.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.problems
}
