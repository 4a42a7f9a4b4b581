package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable returns s with everything that a terminal might act on, or that
// hides what it is, as an escape: control and format characters, line breaks,
// invalid UTF-8.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// wrap returns text made printable, in lines of at most 100 columns, all but the
// first indented. A longer word has a line of its own.
func wrap(first, indent, text string) string {
	var b strings.Builder
	line := first
	empty := true
	for word := range strings.FieldsSeq(printable(text)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 100 {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return b.String() + line + "\n"
}

// printJSON writes v as indented JSON, in which everything that a terminal
// might act on is an escape.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	var out bytes.Buffer
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			// JSON writes these as a pair of surrogates.
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// A table is rows of text, under a header as a rule, aligned for people. A column of
// numbers is aligned to the right.
type table struct{ rows [][]string }

func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

// add appends a row, made printable; an empty cell is shown as "-".
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = printable(c)
		if c == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) print(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	columns := len(t.rows[0])
	widths, right, text := make([]int, columns), make([]bool, columns), make([]bool, columns)
	for c := range columns {
		for r, row := range t.rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
			if r > 0 && row[c] != "-" {
				number := strings.Trim(row[c], "0123456789≤") == ""
				right[c] = number && (right[c] || !text[c])
				text[c] = text[c] || !number
			}
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for c, cell := range row {
			if c > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if right[c] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
