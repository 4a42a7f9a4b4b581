package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

type sanitizeCmd struct {
	Explain bool `help:"Also say what was removed: class, and where in the normalised line (bytes, end exclusive)."`
	JSONL   bool `name:"jsonl" help:"Every line is a JSON string, in and out, so that a text can hold line breaks and control characters."`
	Strict  bool `help:"Also find addresses that are written out in words."`
}

// Help describes the streams.
func (sanitizeCmd) Help() string {
	return "Reads standard input and writes one line for every line. With --explain a tab and the findings follow the text, " +
		"each as class:start-end; with --jsonl too the line is an object with text and findings."
}

// Run cleans line after line, so it can stand in a pipe.
func (c sanitizeCmd) Run(ctx context.Context, g *Globals) error {
	clean := sanitize.New(sanitize.Config{Strict: c.Strict})
	in := bufio.NewReader(g.Stdin)
	out := bufio.NewWriter(g.Stdout)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return out.Flush()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading line %d: %w", n, err)
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if err := c.write(out, clean, line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if in.Buffered() == 0 { // whoever writes the lines may wait for the answer
			if err := out.Flush(); err != nil {
				return fmt.Errorf("writing line %d: %w", n, err)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// write writes what is kept of one line.
func (c sanitizeCmd) write(out io.Writer, clean *sanitize.Sanitizer, line []byte) error {
	raw := string(line)
	if c.JSONL {
		if err := json.Unmarshal(line, &raw); err != nil {
			return fmt.Errorf("expecting a JSON string: %w", err)
		}
	}
	if !c.Explain {
		return c.print(out, clean.Clean(raw).String())
	}
	text, found := clean.Explain(raw)
	if c.JSONL {
		if found == nil {
			found = []sanitize.Finding{}
		}
		return c.print(out, map[string]any{"text": text, "findings": found})
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = fmt.Sprintf("%s:%d-%d", f.Class, f.Start, f.End)
	}
	answer := text.String()
	if len(names) > 0 {
		answer += "\t" + strings.Join(names, " ")
	}
	return c.print(out, answer)
}

// print writes v and a line feed: as JSON with --jsonl, else as it is.
func (c sanitizeCmd) print(out io.Writer, v any) error {
	if !c.JSONL {
		_, err := fmt.Fprintln(out, v)
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
